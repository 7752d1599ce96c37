"""`doyen check`: sound machines hold, broken ones are found, and what is reduced hides nothing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from broken_hybrids import BROKEN as HYBRIDS
from broken_hybrids import Broken as BrokenHybrid
from broken_voters import SAFETY, Broken, LeadsWithoutAPlace, WillIsNoPromiseToStop, tampered
from msgspec.structs import replace

from doyen.check.case import Case, picture, played, read, to_text, transcript, usual_of
from doyen.check.turns import Faults
from doyen.core.clock import ms
from doyen.election.by_key.machine import LeaderByKey
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.machine import Pole
from doyen.errors import ConfigError

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
        election="pole",
        horizon=ms(broken.horizon_ms),
        faults=Faults(**(NONE | broken.faults)),
        in_all=broken.in_all,
        node={"pole": _small() | broken.pole} if broken.pole else {},
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


def _hybrid(faults: dict[str, int], in_all: int, horizon_ms: int = 300) -> Case:
    return replace(usual_of("hybrid"), faults=Faults(**(NONE | faults)), in_all=in_all, horizon=ms(horizon_ms))


def test_hybrid_holds_where_messages_are_lost_and_views_are_wrong(tell: Callable[[str], None]) -> None:
    _, found = _hybrid({"losses": 1, "holds": 1, "breaks": 1}, 2).run()
    assert (found.violations, found.exhausted, found.reigns) == ([], True, 2)
    tell(f"check hybrid, two faults: {found.states:,} states")
    assert found.states > 5000


@pytest.mark.soak
def test_hybrid_holds_within_its_bound(tell: Callable[[str], None]) -> None:
    _, found = usual_of("hybrid").run()
    assert (found.violations, found.exhausted, found.reigns) == ([], True, 4)
    assert found.states > 100_000
    tell(f"check hybrid: {found.states:,} states, all")


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(broken, id=broken.name, marks=[pytest.mark.soak] if broken.faults.get("crashes") == 2 else [])
        for broken in HYBRIDS
    ],
)
def test_a_broken_hybrid_is_found(
    broken: BrokenHybrid, monkeypatch: pytest.MonkeyPatch, tell: Callable[[str], None]
) -> None:
    """The sound one has no fault in as many states of the same bound."""
    case = _hybrid(broken.faults, broken.in_all, broken.horizon_ms)
    with monkeypatch.context() as patches:
        broken.patch(patches)
        _, found = case.run(tamper=broken.tamper)
        assert [violation.rule for violation, _ in found.violations] == [broken.rule]
        rows, violation = played(case, found.violations[0][1], broken.tamper)
        assert violation == found.violations[0][0]
        assert violation.text == rows[-1].text
    assert case.run(states_max=found.states)[1].violations == []
    tell(f"mutant {broken.name}: {violation.text} ({found.states:,} states, {len(rows)} events)")


def test_a_counterexample_is_a_transcript_a_scenario_that_plays_again_and_a_picture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from click.testing import CliRunner

    from doyen.cli.check import command as check
    from doyen.cli.sim.run import command as run

    flags = ["--crashes", "0", "--losses", "0", "--timers", "0", "--to", str(tmp_path / "found"), "--json"]
    with monkeypatch.context() as patches:
        patches.setattr(Pole, "hand_over", WillIsNoPromiseToStop.hand_over)
        done = CliRunner().invoke(check, ["pole", *flags], standalone_mode=False)
        assert done.return_value == 1
        answer = json.loads(done.output)
        (violation,) = answer["violations"]
        assert (violation["rule"], answer["exhausted"]) == ("alone", False)
        again = CliRunner().invoke(run, [violation["scenario"], "--json"], standalone_mode=False)
        assert again.return_value == 1
        played_again = json.loads(again.output)
        assert played_again["violation"] == {"rule": violation["rule"], "text": violation["text"]}
        assert played_again["transcript"] == violation["transcript"]
        assert any("resign" in line for line in violation["transcript"])
    drawn = Path(violation["picture"]).read_text(encoding="utf-8")
    assert drawn.startswith("<svg") and violation["text"] in drawn and all(name in drawn for name in ("n0", "n1", "n2"))
    sound = CliRunner().invoke(run, [violation["scenario"]], standalone_mode=False)
    assert sound.return_value == 0 and "nothing is violated any more" in sound.output


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
    # Every 800 ms (decision 35): one may be lost, if 1600 ms and two delays are within 2 s by a fast clock.
    assert lost_max(config.lease, config.beat_interval, ms(150), config.drift_max) == 1
    assert kept(config.lease, config.beat_interval, ms(199), 1, config.drift_max).holds
    assert not kept(config.lease, config.beat_interval, ms(200), 1, config.drift_max).holds


def test_prove_refuses_a_drift_that_is_no_number() -> None:
    from click.testing import CliRunner

    from doyen.cli.prove import command

    with pytest.raises(ConfigError, match="--drift must be a number"):
        CliRunner().invoke(command, [*VOTERS, "--drift", "nan"], standalone_mode=False, catch_exceptions=False)


def test_prove_takes_the_flags_of_an_agent_and_says_what_breaks() -> None:
    from click.testing import CliRunner

    from doyen.cli.prove import command

    proved = CliRunner().invoke(command, [*VOTERS, "--json"], standalone_mode=False)
    assert (proved.return_value, json.loads(proved.output)["lost_max"]) == (0, 1)
    broken = CliRunner().invoke(command, [*VOTERS, "--drift", "0.01"], standalone_mode=False)
    assert broken.return_value == 1 and "BROKEN  safe" in broken.output
