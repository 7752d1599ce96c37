"""`doyen check`: sound machines hold, broken ones are found, and what is reduced hides nothing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from broken_voters import SAFETY, Broken, LeadsWithoutAPlace, tampered
from msgspec.structs import replace

from doyen.check.case import Case, picture, played, read, to_text, transcript, usual_of
from doyen.check.turns import Faults
from doyen.core.clock import ms
from doyen.election.by_key.machine import LeaderByKey
from doyen.election.pole.config import PoleConfig

POLE = Case(election="pole", horizon=ms(400), in_all=1)


def test_pole_holds_within_a_small_bound_and_twice_alike() -> None:
    case = replace(POLE, horizon=ms(200), faults=Faults(losses=1, timers=1))
    found, again = case.run()[1], case.run()[1]
    assert (found.violations, found.exhausted, found.reigns) == ([], True, 2)
    assert found.states > 500
    assert (found.states, found.transitions) == (again.states, again.transitions)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(broken, id=broken.name, marks=[pytest.mark.soak] if place else [])
        for place, broken in enumerate(SAFETY)
    ],
)
def test_a_broken_voter_is_found(broken: Broken, monkeypatch: pytest.MonkeyPatch, tell: Callable[[str], None]) -> None:
    """Each breaks safety; the faults that it takes are stated before the run, and no more are allowed."""
    broken.patch(monkeypatch)
    case = Case(
        election="pole", horizon=ms(broken.horizon_ms), faults=Faults(**(NONE | broken.faults)), in_all=broken.in_all
    )
    _, found = case.run(tamper=broken.tamper)
    assert [violation.rule for violation, _ in found.violations][:1] == [broken.rule]
    rows, violation = played(case, found.violations[0][1], broken.tamper)
    assert violation == found.violations[0][0]
    tell(f"mutant {broken.name}: {violation.text} ({found.states:,} states, {len(rows)} events)")


NONE: dict[str, int] = dict.fromkeys(Faults.__struct_fields__, 0)
SHORT = {"cuts": 1, "breaks": 2}


@pytest.mark.soak
def test_a_guard_one_nanosecond_too_short_is_found_and_its_file_plays_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sound = replace(POLE, horizon=ms(300), faults=Faults(**(NONE | SHORT)), in_all=3)
    assert sound.run()[1].violations == []
    monkeypatch.setattr(PoleConfig, "guard", property(lambda self: int(self.lease) - 1))
    found = sound.run()[1]
    violation, choices = found.violations[0]
    assert violation.rule == "alone"
    rows, again = played(sound, choices)
    assert again == violation
    assert 5 < len(rows) < 200
    text = to_text(sound, choices, transcript(sound.names(), rows))
    assert read(text) == (sound, choices)
    drawn = picture(sound.names(), rows)
    assert drawn.count("<line") > len(sound.names()) and violation.text in drawn


@pytest.mark.soak
def test_a_guard_that_forgets_drift_is_found_where_clocks_drift() -> None:
    """A slow leader's lease lasts longer than a fast voter's guard, unless the guard is longer by twice the drift."""
    drifting = Case(
        election="pole", horizon=ms(400), faults=Faults(**(NONE | SHORT)), in_all=3, rates=(1100, 1100, 900)
    )
    assert drifting.run()[1].violations[0][0].rule == "alone"  # drift_max is 0 there.
    table = {**_small(), "drift_max": 0.1}
    assert replace(drifting, node={"pole": table}).run()[1].violations == []


def _small() -> dict[str, Any]:
    from doyen.check.case import SMALL

    return dict(SMALL["pole"]["pole"])


def test_an_election_without_a_bound_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    from doyen.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["check", "announce"])
    assert ended.value.code == 2
    assert "has no bound here that is known to end" in capsys.readouterr().err


@pytest.mark.soak
def test_by_key_holds_within_its_bound_and_an_owner_without_a_place_is_found(tell: Callable[[str], None]) -> None:
    case = usual_of("by-key")
    _, found = case.run()
    assert (found.violations, found.exhausted, found.reigns) == ([], True, 3)
    _, bad = case.run(tamper=tampered(LeaderByKey, LeadsWithoutAPlace))
    assert [violation.rule for violation, _ in bad.violations] == ["alone"]
    tell(f"check by-key: {found.states:,} states, all; the broken one is found after {bad.states:,}")


def test_hybrid_holds_within_its_bound() -> None:
    _, found = usual_of("hybrid").run()
    assert (found.violations, found.exhausted, found.reigns) == ([], True, 2)
    assert found.states > 500


def test_an_alias_is_checked_like_its_election() -> None:
    assert replace(usual_of("quorum"), election="pole") == usual_of("pole")
    assert usual_of("gossip").voters == 4


VOTERS = ["--group", "g", "--voters", "a", "--voters", "b", "--voters", "c", "--state", "d", "--election", "quorum"]


def test_the_default_lease_is_proved_safe_and_a_shorter_guard_or_more_drift_is_not() -> None:
    from doyen.check.proof import kept, lost_max, safe

    config = PoleConfig.lan(3)
    assert safe(config.lease, config.guard, config.drift_max).holds
    short = safe(config.lease, int(config.lease * 1.001 / 0.999) - 1, config.drift_max)
    assert not short.holds
    assert short.breaks["free_at"] < short.breaks["stops_at"]
    assert not safe(config.lease, config.guard, 2 * config.drift_max).holds
    # Every two fifths of the lease (decision 35): one may be lost, if 1600 ms and two delays are within 2 s by a fast
    # clock; those that are repeated after T are not counted.
    assert lost_max(config.lease, config.beat_interval, ms(150), config.drift_max) == 1
    assert kept(config.lease, config.beat_interval, ms(199), 1, config.drift_max).holds
    assert not kept(config.lease, config.beat_interval, ms(200), 1, config.drift_max).holds


def test_prove_takes_the_flags_of_an_agent_and_says_what_breaks() -> None:
    from click.testing import CliRunner

    from doyen.cli.prove import command

    proved = CliRunner().invoke(command, [*VOTERS, "--json"], standalone_mode=False)
    assert (proved.return_value, json.loads(proved.output)["lost_max"]) == (0, 1)
    broken = CliRunner().invoke(command, [*VOTERS, "--drift", "0.01"], standalone_mode=False)
    assert broken.return_value == 1 and "BROKEN  safe" in broken.output
