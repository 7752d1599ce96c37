"""What would have happened with another setting is what does happen with it, in a run of its own."""

from pathlib import Path
from typing import Any

import pytest

from doyen.errors import ConfigError
from doyen.postmortem.gather import postmortem
from doyen.postmortem.picture import Incident
from doyen.testing import Cluster

from .recordings import Recorded


def stop_the_leader(cluster: Cluster) -> None:
    first = cluster.run_until_leader()
    cluster.run_for("2s")
    cluster.pause(first)
    cluster.run_for("12s")


def played(folder: Path, **given: Any) -> Recorded:
    return Recorded(folder, **given).run(stop_the_leader)


def takeover_s(incident: Incident) -> float:
    """Return how long nobody acted after the leader had stopped."""
    acts = sorted((span for span in incident.lanes.spans if span.kind == "leads"), key=lambda span: span.begin)
    first = acts[0].lane
    ends = [span.end for span in acts if span.lane == first and span.end is not None]
    return next(span.begin for span in acts if span.lane != first) - max(ends)


CASES = [
    ("quorum", "lease=2s", {"pole": {"lease": "2s"}}),
    ("gossip", "suspicion_timeout=4s", {"swim": {"suspicion_timeout": "4s"}}),
    ("fast", "announce.listen_timeout=5s", {"announce": {"listen_timeout": "5s"}}),
]


@pytest.mark.parametrize(("election", "setting", "given"), CASES, ids=[case[0] for case in CASES])
def test_it_is_what_a_run_with_that_setting_shows(
    tmp_path: Path, election: str, setting: str, given: dict[str, Any]
) -> None:
    for name in ("plain", "other"):
        (tmp_path / name).mkdir()
    plain = played(tmp_path / "plain", election=election)
    recorded = postmortem(plain.paths)
    guessed = postmortem(plain.paths, "", [setting])
    truth = postmortem(played(tmp_path / "other", election=election, **given).paths)
    assert takeover_s(truth) > takeover_s(recorded) + 0.8  # The setting counts.
    assert takeover_s(guessed) == pytest.approx(takeover_s(truth), rel=0.25)
    simulated = [window for window in guessed.lanes.windows if window.kind == "simulated"]
    mark = next(mark for mark in guessed.lanes.marks if mark.label.startswith("the first output that differs"))
    assert len(simulated) == 1 and simulated[0].begin == mark.at and setting in simulated[0].label
    assert "recorded: " in mark.why and f"with {setting}: " in mark.why
    assert "simulated from" in guessed.verdicts[0].sentence
    before = {mark for mark in recorded.lanes.marks if mark.at < simulated[0].begin}
    assert before <= {*guessed.lanes.marks}  # Up to there it is as recorded.


def test_a_setting_that_changes_nothing_says_so(tmp_path: Path) -> None:
    found = postmortem(played(tmp_path).paths, "", ["cool_down=61s"])
    assert "nothing that was said would have differed" in found.notes[0]
    assert not any(window.kind == "simulated" for window in found.lanes.windows)


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return Recorded(tmp_path_factory.mktemp("short")).run(lambda cluster: cluster.run_for("1s"))


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("leaze=2s", "leaze is no setting of an election or a membership: do you mean lease?"),
        ("lease", "give FIELD=VALUE, such as"),
        ("=2s", "give FIELD=VALUE, such as"),
        ("lease=soon", "'soon' is not a duration: give a number and a unit"),
        ("listen_timeout=2s", "these nodes do not use it: one of pole.election_timeout, "),
        ("lease=0s", "lease 0s is out of range: give more than 0s, and finite"),
        ("group=other", "group stays as recorded: give lease=2s, listen_timeout=5s, …"),
        ("name=dog", "name stays as recorded: give"),
        ("voters=ant,bee", "voters stays as recorded: give"),
        ("preset=wan", "preset stays as recorded: give"),
        ("election=fast", "election stays as recorded: give"),
    ],
)
def test_a_setting_that_does_not_fit_gets_one_line(short: Recorded, setting: str, words: str) -> None:
    with pytest.raises(ConfigError) as found:
        postmortem(short.paths, "", ["cool_down=61s", setting])
    said = str(found.value)
    assert said.startswith(f"--what-if {setting}: {words}") or said == f"--what-if cool_down=61s, {setting}: {words}"
    assert said.count("--what-if") == 1 and "\n" not in said


def test_settings_that_only_fit_together_are_given_together(short: Recorded) -> None:
    with pytest.raises(ConfigError, match="retry_max must not be less than election_timeout"):
        postmortem(short.paths, "", ["retry_max=1ms"])
    found = postmortem(short.paths, "", ["retry_max=1ms", "election_timeout=1ms"])
    assert any("simulated from" in verdict.sentence for verdict in found.verdicts)


def cut_and_resign(cluster: Cluster) -> None:
    first = cluster.run_until_leader()
    cluster.run_for("2s")
    cluster.partition({first}, rest=True)
    cluster.run_for("3s")
    cluster.heal()
    cluster.run_for("3s")
    cluster.resign(cluster.run_until_leader())
    cluster.run_for("2s")


def test_what_two_did_before_the_first_difference_is_part_of_the_verdict(tmp_path: Path) -> None:
    cut = Recorded(tmp_path, election="fast").run(cut_and_resign)
    recorded, guessed = postmortem(cut.paths), postmortem(cut.paths, "", ["bye_target_prob=0"])
    before, after = recorded.verdicts[0], guessed.verdicts[0]
    at = next(window.begin for window in guessed.lanes.windows if window.kind == "simulated")
    assert before.when and all(end < at for _, end, _ in before.when) and before.together_s > 1
    assert (
        after.together_s == pytest.approx(before.together_s, abs=0.1) and after.when[: len(before.when)] == before.when
    )
    assert f"simulated from {at:.3f} s on: {before.sentence[:24]}" in after.sentence  # "… for 2."


def resign_then_stop(cluster: Cluster) -> None:
    cluster.run_for("2s")
    cluster.resign(cluster.run_until_leader())
    cluster.run_for("3s")
    next_one = cluster.run_until_leader()
    cluster.pause(next_one)
    cluster.run_for("500ms")
    cluster.resume(next_one)
    cluster.run_for("4s")


def test_a_simulated_reign_goes_on_after_a_pause(tmp_path: Path) -> None:
    stopped = Recorded(tmp_path, election="fast", announce={"listen_timeout": "2s"}).run(resign_then_stop)
    guessed = postmortem(stopped.paths, "", ["bye_target_prob=0"])
    spans = guessed.lanes.spans
    pause = max((span for span in spans if span.kind == "paused"), key=lambda span: span.begin)
    simulated = next(window for window in guessed.lanes.windows if window.kind == "simulated")
    assert pause.begin > simulated.begin and pause.end is not None
    led = [span for span in spans if span.kind == "leads" and span.lane == pause.lane]
    assert any(span.end == pytest.approx(pause.begin) for span in led)
    assert any(span.begin == pytest.approx(pause.end) and span.end == pytest.approx(guessed.lanes.end) for span in led)
