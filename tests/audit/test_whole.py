"""`doyen audit` says which voters were counted, and what it could not see."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from doctored import ALL, Doctored, Tape, persist, sends, writes
from msgspec.structs import replace
from recorded import Recorded
from test_audit import sound as sound

from doyen.audit.audit import audit
from doyen.cli.audit import CUT_OFF, command
from doyen.errors import ConfigError


def _taped(paths: list[Path]) -> dict[str, Tape]:
    return {path.stem: Tape(path) for path in paths}


def _written(tapes: dict[str, Tape], folder: Path) -> list[str]:
    for tape in tapes.values():
        tape.write(folder)
    return [str(path) for path in sorted(folder.glob("*.rec"))]


def _names_voters(tape: Tape, *voters: str) -> None:
    origin = tape.header.origin
    tape.header = replace(tape.header, origin=replace(origin, config={**origin.config, "voters": list(voters)}))


@pytest.mark.parametrize("name", ["n0-1", "n1-1", "n2-2"])
@pytest.mark.parametrize("voters", [("n0", "n1"), ("n0", "n1", "n2", "n3"), ("n0", "n1", "n4")])
def test_recordings_that_count_other_voters_are_refused(
    name: str, voters: tuple[str, ...], sound: list[Path], tmp_path: Path
) -> None:
    tapes = _taped(sound)
    _names_voters(tapes[name], *voters)
    files = _written(tapes, tmp_path)
    with pytest.raises(ConfigError) as refused:
        audit([*map(Path, files)])
    said = str(refused.value)
    assert f"{name}.rec" in said and said.count(".rec") == 2 and len(said.splitlines()) == 1
    assert "differ in voters: " in said and ", ".join(voters) in said and "n0, n1, n2" in said


def test_voters_that_were_replaced_while_the_group_ran_are_no_difference(tmp_path: Path) -> None:
    """Nor are those of a later configuration, at a node that only follows."""
    made = Recorded(tmp_path, 3, names=("n0", "n1", "n2", "n3"), voters=("n0", "n1", "n2"))
    cluster = made.cluster
    leader = cluster.run_until_leader()
    cluster.run_for(2)
    gone = next(name for name in ("n0", "n1", "n2") if name != leader)
    cluster.run(leader, cluster.node(leader).own_election.change_voters(add="n3", remove=gone))
    cluster.run_for(2)
    cluster.crash(gone)
    cluster.run_for(1)
    made.end()
    found = audit(made.paths)
    assert found.refused is None
    tapes = _taped(made.paths)
    _names_voters(tapes[f"{gone}-1"], "n0", "n1", "n2", "n3")
    with pytest.raises(ConfigError, match="differ in voters"):
        audit([*map(Path, _written(tapes, tmp_path))])
    _names_voters(tapes[f"{gone}-1"], "n0", "n1", "n2")
    _names_voters(tapes["n3-1"], *sorted({"n0", "n1", "n2"} - {gone}), "n4")
    assert audit([*map(Path, _written(tapes, tmp_path))]).refused is None


# What is not there.


def _cut(tapes: dict[str, Tape], doctored: Doctored, sound: list[Path]) -> str:
    """Have a node do what is not allowed, and end its recording just before that."""
    name = doctored.change(tapes)
    before = Tape(next(path for path in sound if path.stem == name)).inputs
    tape = tapes[name]
    tape.inputs = tape.inputs[
        : next(i for i, (new, old) in enumerate(zip(tape.inputs, before, strict=False)) if new != old)
    ]
    return name


def test_a_recording_that_was_cut_before_a_step_is_not_said_to_be_whole(sound: list[Path], tmp_path: Path) -> None:
    """A voter grants twice, and its file ends just before: nobody can see that, but that it went on can be seen."""
    tapes = _taped(sound)
    grant = next(doctored for doctored in ALL if doctored.name == "a grant while bound to another")
    assert _cut(tapes, grant, sound) == "n0-1"
    files = _written(tapes, tmp_path)
    found = audit([*map(Path, files)])
    assert found.refused is None and found.trusted > 10 and not found.complete
    assert [(unseen.node, unseen.why) for unseen in found.unseen] == [("n0", "after")]
    shown = CliRunner().invoke(command, files, standalone_mode=False)
    assert shown.return_value == CUT_OFF == 3
    lines = shown.output.splitlines()
    assert lines[0].startswith("every recorded step is allowed, not all are recorded: ")
    assert any(line.startswith("  not checked n0 after its recording ends: ") for line in lines)
    data = json.loads(CliRunner().invoke(command, [*files, "--json"], standalone_mode=False).output)
    assert (data["allowed"], data["complete"]) == (True, False)
    assert data["unseen"] == [{"node": "n0", "why": "after", "messages": found.unseen[0].messages}]


def test_a_whole_run_is_said_to_be_whole(sound: list[Path]) -> None:
    found = audit(sound)
    assert found.complete and found.unseen == []


def test_a_process_without_a_recording_is_named(sound: list[Path], tmp_path: Path) -> None:
    files = [str(path) for path in sound if path.stem != "n2-1"]
    shown = CliRunner().invoke(command, files, standalone_mode=False)
    assert shown.return_value == 0
    assert "  not checked a process of n2 of which there is no recording, " in shown.output
    alone = CliRunner().invoke(command, [file for file in files if "n0" in file], standalone_mode=False)
    assert alone.return_value == 0 and "  not checked n1: there is no recording of it, " in alone.output


def test_every_cut_of_a_voter_is_seen_while_others_hear_it(sound: list[Path], tmp_path: Path) -> None:
    whole = _taped(sound)["n0-1"]
    last = whole.last(sends("A", granted=True))
    for end in range(1, last, max(1, last // 12)):
        tapes = _taped(sound)
        tapes["n0-1"].inputs = whole.inputs[:end]
        found = audit([*map(Path, _written(tapes, tmp_path))])
        assert found.refused is not None or not found.complete, end


@pytest.mark.parametrize("heard", [True, False])
def test_a_voter_whose_recording_stopped_comes_back_with_a_later_promise(
    heard: bool, sound: list[Path], tmp_path: Path
) -> None:
    """A full disk, or a machine without power, is no vote that was forgotten."""
    tapes = _taped(sound)
    tape = tapes["n2-1"]
    tape.inputs = tape.inputs[: tape.last(writes)]
    if not heard:
        tapes = {name: tapes[name] for name in ("n2-1", "n2-2")}
    files = _written(tapes, tmp_path)
    found = audit([*map(Path, files)])
    assert found.refused is None and not found.complete
    assert ("n2", "disk") in [(unseen.node, unseen.why) for unseen in found.unseen]
    shown = CliRunner().invoke(command, files, standalone_mode=False)
    assert shown.return_value == CUT_OFF
    said = "  not checked n2 after a recording of it ends: it went on, and wrote a later promise to its disk"
    assert said in shown.output.splitlines()


def test_a_promise_that_no_voter_may_come_to_is_refused_after_a_recording_that_stopped(
    sound: list[Path], tmp_path: Path
) -> None:
    tapes = _taped(sound)
    tape = tapes["n2-1"]
    tape.add(tape.last(writes) - 1, persist(2, "n0"))  # The same epoch as it grants n1 next.
    tape.inputs = tape.inputs[: tape.last(writes)]
    found = audit([*map(Path, _written(tapes, tmp_path))])
    assert found.refused is not None


@pytest.mark.parametrize("seed", [2, 4, 7])
def test_recordings_whose_beginnings_were_overwritten_pass(seed: int, tmp_path: Path) -> None:
    """With seed 4 a vote is heard twice: it was sent before the recording begins, and, in the same bytes, later."""
    made = Recorded(tmp_path, seed, record_max=70_000)
    made.storm(8)
    found = audit(made.paths)
    assert found.refused is None, found.refused
    assert found.trusted


@pytest.mark.parametrize(("seed", "size"), [(35, 5), (39, 5), (1006, 3), (2123, 5)])
def test_a_storm_with_sleepers_passes_though_its_beginning_was_overwritten(
    seed: int, size: int, tmp_path: Path
) -> None:
    """Seed 39 has a sleeper that hears old messages, seed 35 a file that begins in the middle of a claim.

    With seed 1006 a leader counts an ack of a heartbeat that it sent just before its file begins, and with seed 2123 a
    node that starts again is told once more what was said before.
    """
    names = tuple(f"n{number}" for number in range(size))
    made = Recorded(tmp_path, seed, names=names, loss=0.05, duplicates=0.05, record_max=70_000)
    made.storm(8, ("pause", "crash", "resign", "pause", "slow node"))
    found = audit(made.paths)
    assert found.refused is None, found.refused
