"""Links cut one by one between real processes: what counts as led, and one shape from beginning to end."""

import asyncio
from pathlib import Path

import pytest

from doyen_lab.contest.partial import CASES, Led, Stretch, entrant, led_by, measure
from doyen_lab.contest.trial import check_distinct

NAMES = ["a", "b", "c", "d", "e"]
S = 1_000_000_000


def test_who_names_itself_and_is_named_by_most_leads() -> None:
    before: dict[str, str | None] = {"a": "a", "b": "a", "c": "a", "d": None, "e": "e"}
    changes = [("c", None, 12 * S), ("c", "c", 14 * S), ("a", "c", 15 * S), ("b", "c", 16 * S), ("e", "c", 17 * S)]
    found = led_by(NAMES, before, changes, 10 * S, 10.0)
    assert found == [Stretch("a", 0.0, 2.0), Stretch("c", 6.0, 10.0)]
    led = Led.of(found, 10.0, case="star", hub="c", before="a")
    assert (led.leader, led.after_s, led.share) == ("c", 6.0, 0.6)
    lost = Led.of(found[:1], 10.0, case="star", hub="c", before="a")
    assert (lost.leader, lost.after_s, lost.share) == (None, None, 0.2)


def test_a_majority_is_of_all_members_the_dead_included() -> None:
    assert led_by(NAMES, {"a": "a", "b": "a", "c": None, "d": None, "e": None}, [], 0, 1.0) == []


@pytest.mark.alone
@pytest.mark.root
def test_a_star_of_real_processes_is_made_watched_and_healed(tmp_path: Path) -> None:
    async def one() -> None:
        async with entrant("quorum", 5, tmp_path) as group:
            found = await measure(group, CASES[:1], 4.0)
            (led,) = found.cases
            assert not led.why and led.hub != led.before, led
            check_distinct(found.processes)
            await group.settled(30.0)  # All reach each other again.

    asyncio.run(one())
