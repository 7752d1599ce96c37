"""`doyen audit`: sound recordings of every fault pass, and doctored ones are refused, each for its own reason."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from doctored import ALL, Doctored, Tape
from recorded import NAMES, Recorded, slow_disk

from doyen.audit.audit import audit
from doyen.audit.spec import RULES
from doyen.cli import main
from doyen.cli.audit import command


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return recordings of a group whose leader is cut off, then crashes and comes back, and the next one resigns."""
    made = Recorded(tmp_path_factory.mktemp("sound"), 3)
    cluster = made.cluster
    first = cluster.run_until_leader()
    assert first == "n2"
    cluster.run_for(2)
    cluster.partition({first}, rest=True)
    cluster.run_for(3)
    cluster.heal()
    cluster.run_for(2)
    cluster.crash(first)
    cluster.run_for(2)
    cluster.restart(first)
    cluster.run_for(2)
    leader = cluster.run_until_leader()
    cluster.run(leader, cluster.node(leader).resign(to=first))
    cluster.run_for(2)
    made.end()
    return made.paths


def test_a_sound_run_passes_and_every_kind_of_step_was_seen(sound: list[Path]) -> None:
    found = audit(sound)
    assert found.refused is None
    assert (found.nodes, found.missing, found.trusted) == (["n0", "n1", "n2"], [], 0)
    assert {"claim", "grant", "write", "ack", "hear", "begin", "stop", "resign", "release", "restart", "name"} <= {
        *found.steps
    }
    assert len(found.terms) >= 3 and found.terms[0] == (1, "n2")


@pytest.mark.parametrize("doctored", ALL, ids=lambda doctored: doctored.name)
def test_a_doctored_recording_is_refused_for_the_right_reason(
    doctored: Doctored, sound: list[Path], tmp_path: Path
) -> None:
    tapes = {path.stem: Tape(path) for path in sound}
    name = doctored.change(tapes)
    for tape in tapes.values():
        tape.write(tmp_path)
    given = [path for path in sorted(tmp_path.glob("*.rec")) if path.stem[:2] not in doctored.without]
    found = audit(given).refused
    assert found is not None
    assert (found.rule, Path(found.path).stem) == (doctored.rule, name), found.text


def test_every_rule_is_broken_by_some_doctored_recording() -> None:
    assert {doctored.rule for doctored in ALL} == {*RULES}


def test_recordings_that_were_only_copied_are_still_sound(sound: list[Path], tmp_path: Path) -> None:
    for path in sound:
        Tape(path).write(tmp_path)
    assert audit(sorted(tmp_path.glob("*.rec"))).refused is None


@pytest.mark.parametrize("seed", range(6))
def test_a_storm_of_faults_passes(seed: int, tmp_path: Path) -> None:
    assert _storm(seed, tmp_path)["begin"] >= 1


@pytest.mark.soak
def test_many_storms_pass_and_each_fault_was_in_some(tmp_path: Path, tell: Callable[[str], None]) -> None:
    steps: Counter[str] = Counter()
    for seed in range(100, 500):  # Each has about three leaders.
        folder = tmp_path / str(seed)
        folder.mkdir()
        steps.update(_storm(seed, folder))
    assert steps["begin"] > 1000 and steps["restart"] > 200 and steps["release"] > 500, steps
    tell(f"audited storms: {sum(steps.values()):,} steps, {steps['begin']:,} leaders, none refused")


def _storm(seed: int, folder: Path) -> Counter[str]:
    rng = Random(seed)
    names = NAMES if seed % 2 else ("n0", "n1", "n2", "n3", "n4")
    made = Recorded(
        folder,
        seed,
        names=names,
        loss=rng.choice((0, 0.05, 0.3)),
        jitter=rng.choice((0, "3ms", "30ms")),
        duplicates=rng.choice((0, 0.1)),
        disk_delay=slow_disk(rng),
    )
    made.storm(4)
    assert made.cluster.acting_leaders_at_once() <= 1
    found = audit(made.paths)
    assert found.refused is None, found.refused
    steps = Counter(found.steps)
    assert steps["begin"] >= made.cluster.world.began_to_lead  # A leader that goes on in a later epoch begins again.
    return steps


def test_one_recording_alone_is_held_to_what_it_shows(sound: list[Path]) -> None:
    mine = [path for path in sound if path.stem.startswith("n0")]
    found = audit(mine)
    assert found.refused is None
    assert found.missing == ["n1", "n2"] and found.trusted > 50


def test_a_recording_whose_beginning_was_overwritten_is_audited_from_its_machines(tmp_path: Path) -> None:
    """The ring has two segments; the machines as the older one keeps them are where the audit begins."""
    made = Recorded(tmp_path, 5, record_max=65_536)
    made.cluster.run_until_leader()
    made.cluster.run_for(60)
    made.end()
    from doyen.net.recording.reader import Reader, segments

    with Reader(segments(made.paths[0])[0]) as reader:
        assert reader.header.state is not None
    found = audit(made.paths)
    assert found.refused is None and found.steps["ack"] > 50


def test_the_command_says_what_is_wrong_and_where(sound: list[Path], tmp_path: Path) -> None:
    files = [str(path) for path in sound]
    passed = CliRunner().invoke(command, files, standalone_mode=False)
    assert passed.return_value == 0 and passed.output.startswith("every step is allowed: ")
    bent = next(doctored for doctored in ALL if doctored.rule == "bound")
    tapes = {path.stem: Tape(path) for path in sound}
    bent.change(tapes)
    for tape in tapes.values():
        tape.write(tmp_path)
    files = [str(path) for path in sorted(tmp_path.glob("*.rec"))]
    refused = CliRunner().invoke(command, files, standalone_mode=False)
    assert refused.return_value == 1
    assert "n0-1.rec, input " in refused.output and "grants epoch 2 to n1 while it is bound to n2" in refused.output
    data = json.loads(CliRunner().invoke(command, [*files, "--json"], standalone_mode=False).output)
    assert (data["allowed"], data["refused"]["rule"]) == (False, "bound")
    assert data["refused"]["line"] > 0


def test_what_cannot_be_audited_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for given, code, text in (
        ([str(tmp_path / "none")], 2, "is not there"),
        ([__file__], 1, "is not a recording of doyen"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["audit", *given])
        assert ended.value.code == code
        said = capsys.readouterr().err.strip()
        assert text in said and len(said.splitlines()) == 1


def test_no_escape_in_a_recording_reaches_a_terminal(
    sound: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tape = Tape(sound[0])
    tape.header.origin.config["voters"] = [*NAMES, "\x1b]0;mine\x07\n\x9b31mevery step is allowed"]
    tape.write(tmp_path)
    with pytest.raises(SystemExit):
        main(["audit", str(tmp_path / sound[0].name)])
    shown = capsys.readouterr().out
    assert "mine" in shown and all(c == "\n" or c.isprintable() for c in shown)
