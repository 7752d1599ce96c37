"""Two readings of tallies become figures with their confidence."""

from typing import Any

import msgspec
import pytest

from doyen.core.clock import ms, seconds
from doyen.errors import ConfigError
from doyen.net.tallies import Histogram, Snapshot, Spread
from doyen_papers.analysis.measured import measured, one_way, proportion

NOTHING = Spread({}, 0, 0)


def told(snapshot: Snapshot) -> Any:
    return msgspec.json.decode(msgspec.json.encode(snapshot))


def snapshot(at_s: float, answered: int = 0, unanswered: int = 0, came: int = 0, missing: int = 0) -> Snapshot:
    trips = Histogram()
    for number in range(answered):
        trips.note(ms(38) + ms(4) * (number % 2))
    return Snapshot(
        seconds(at_s), answered, unanswered, came, missing, trips.spread(), NOTHING, NOTHING, int(100 * at_s)
    )


def readings(*, rate: float = 1.0, trip_s: float = 0.04, again: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    made = []
    for at_s, counts in ((100.0, (10, 0)), (160.0, (910, 100))):
        bee = snapshot(5000 + rate * at_s, *counts) if not again or at_s == 100 else snapshot(1)
        other = {"asked_at": seconds(at_s - trip_s / 2), "heard_at": seconds(at_s + trip_s / 2), "tallies": told(bee)}
        own = told(snapshot(at_s, *counts))
        made.append({"node": "ant", "names": ["ant", "bee"], "own": own, "others": {"bee": other}})
    return made[0], made[1]


def test_loss_and_round_trip_are_those_of_all_members_between_the_readings() -> None:
    found = measured(*readings())
    assert found.trials == 2000 and found.by_answers and found.heard == ("ant", "bee")
    assert found.loss.estimate == pytest.approx(one_way(0.1)) and found.loss.low < 0.0513 < found.loss.high
    assert found.round_trip_s.estimate == pytest.approx(0.04) and found.round_trip_sd_s == pytest.approx(0.002)
    assert 0.042 <= found.round_trip_most_s <= 0.042 * 1.26
    assert found.bytes_per_s == pytest.approx(100)


@pytest.mark.parametrize("rate", [0.999, 1.0, 1.002])
def test_a_clock_that_runs_at_another_rate_is_found_within_the_stated_error(rate: float) -> None:
    (drift,) = measured(*readings(rate=rate)).drifts
    assert drift.error == pytest.approx(0.04 / 60)
    assert abs(drift.rate - (rate - 1)) <= drift.error
    assert (abs(drift.rate) > drift.error) == (rate != 1.0)


def test_a_member_that_began_anew_meanwhile_does_not_count() -> None:
    assert measured(*readings(again=True)).heard == ("ant",)


def test_without_answers_announcements_show_the_loss_and_too_few_show_nothing() -> None:
    first = {"node": "ant", "names": ["ant"], "own": told(snapshot(0)), "others": {}}
    found = measured(first, first | {"own": told(snapshot(60, came=90, missing=10))})
    assert not found.by_answers and found.loss == proportion(10, 100)
    with pytest.raises(ConfigError, match="too short: 19 messages"):
        measured(first, first | {"own": told(snapshot(60, came=19))})
    with pytest.raises(ConfigError, match="ant hears nothing of bee: start them, then measure"):
        measured(first, first | {"own": told(snapshot(60)), "names": ["ant", "bee"]})


def test_wilsons_interval_is_the_published_one() -> None:
    found = proportion(81, 263)  # Newcombe 1998, table I.
    assert (round(found.low, 4), round(found.high, 4)) == (0.2553, 0.3662)
    assert proportion(0, 20).low == 0 and round(proportion(0, 20).high, 4) == 0.1611
