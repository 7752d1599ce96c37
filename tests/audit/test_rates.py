"""`doyen audit` compares the rates of clocks by messages: it refuses what no rates within drift_max explain."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from doctored import Tape, slowed
from msgspec.structs import replace
from recorded import NAMES, Recorded, slow_disk

from doyen.audit.audit import Audit, audit
from doyen.audit.moments import Message, read
from doyen.audit.rates import Misfit, misfit
from doyen.cli.audit import command
from doyen.election.pole.messages import Heartbeat
from doyen.sim.node import Clock


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], str, str]:
    """Return recordings of a group with one leader, and the names of that and of a follower."""
    made = Recorded(tmp_path_factory.mktemp("quiet"), 3)
    leader = made.cluster.run_until_leader()
    assert leader is not None
    made.cluster.run_for(6)
    made.end()
    return made.paths, leader, next(name for name in NAMES if name != leader)


def _scaled(paths: list[Path], folder: Path, name: str, factor: float, after: float = 0) -> list[Path]:
    for path in paths:
        tape = Tape(path)
        if path.stem == f"{name}-1":
            slowed(tape, factor, int(len(tape.inputs) * after))
        tape.write(folder)
    return sorted(folder.glob("*.rec"))


def _refused(found: Audit) -> str:
    assert found.refused is not None
    assert found.refused.rule == "rate", found.refused
    return found.refused.text


@pytest.mark.parametrize(("role", "factor"), [(1, 0.1), (2, 0.1), (2, 10), (2, 1.01), (1, 0.99)])
@pytest.mark.parametrize("after", [0, 0.4])
def test_a_clock_of_another_rate_is_refused(
    role: int, factor: float, after: float, quiet: tuple[list[Path], str, str], tmp_path: Path
) -> None:
    name = str(quiet[role])
    files = _scaled(quiet[0], tmp_path, name, factor, after)
    text = _refused(audit(files))
    assert f"{name}-1.rec" in text and text.count(".rec") == 2 and "drift_max allows 1.002" in text
    found = misfit([read(path) for path in files])
    assert found is not None
    assert found.rate == pytest.approx(max(factor, 1 / factor), rel=0.1 if max(factor, 1 / factor) > 2 else 0.005)
    assert found.rate <= max(factor, 1 / factor)


@pytest.mark.parametrize("factor", [1.0005, 0.9995, 1.0015, 1])
def test_a_clock_within_the_drift_is_allowed(factor: float, quiet: tuple[list[Path], str, str], tmp_path: Path) -> None:
    assert audit(_scaled(quiet[0], tmp_path, quiet[2], factor)).refused is None


def test_one_recording_has_nothing_to_be_compared_with(quiet: tuple[list[Path], str, str], tmp_path: Path) -> None:
    files = _scaled(quiet[0], tmp_path, quiet[1], 0.1)
    for file in files:
        assert audit([file]).refused is None


def test_a_wall_clock_that_is_wrong_does_not_matter(quiet: tuple[list[Path], str, str], tmp_path: Path) -> None:
    for path in quiet[0]:
        tape = Tape(path)
        if path.stem.startswith(quiet[2]):
            tape.header = replace(tape.header, at=tape.header.at + 86_400)
        tape.write(tmp_path)
    assert misfit([read(path) for path in sorted(tmp_path.glob("*.rec"))]) is None


def test_the_command_names_both_recordings_and_the_rate(quiet: tuple[list[Path], str, str], tmp_path: Path) -> None:
    files = [str(path) for path in _scaled(quiet[0], tmp_path, quiet[1], 0.1)]
    refused = CliRunner().invoke(command, files, standalone_mode=False)
    assert refused.return_value == 1
    assert f"{quiet[1]}-1.rec, input " in refused.output and "times as fast, and drift_max allows" in refused.output
    assert "not allowed (rate): " in refused.output


# Clocks that really ran so.


def _ran(folder: Path, seed: int, clock_of: Callable[[str], Clock], **fields: Any) -> list[Path]:
    rng = Random(seed)
    made = Recorded(
        folder,
        seed,
        loss=rng.choice((0, 0.05, 0.3)),
        jitter=rng.choice((0, "3ms", "30ms")),
        duplicates=rng.choice((0, 0.1)),
        disk_delay=slow_disk(rng),
        **fields,
    )
    for node in made.cluster.sim.nodes:
        node.clock = clock_of(str(node.name))
    made.storm(4)
    return made.paths


def _misfit(paths: list[Path]) -> Misfit | None:
    return misfit([read(path) for path in paths])


@pytest.mark.parametrize("seed", range(2))
def test_a_storm_with_a_clock_at_half_the_rate_is_refused(seed: int, tmp_path: Path) -> None:
    paths = _ran(tmp_path, seed, lambda name: Clock(10**12, -0.5 if name == "n1" else 0.0))
    assert "n1-" in _refused(audit(paths))


@pytest.mark.parametrize("seed", range(2))
def test_a_storm_on_clocks_that_drift_as_far_as_they_may_is_allowed(seed: int, tmp_path: Path) -> None:
    drift = {"n0": -0.001, "n1": 0.001, "n2": 0.0}
    found = audit(_ran(tmp_path, seed, lambda name: Clock(10**15 * int(name[1]), drift[name])))
    assert found.refused is None, found.refused


def test_clocks_are_compared_where_the_beginning_of_a_recording_was_overwritten(tmp_path: Path) -> None:
    """Acks of an epoch that was granted before the recording begins do not count; those of the next one do."""
    made = Recorded(tmp_path, 5, record_max=65_536)
    cluster = made.cluster
    for node in cluster.sim.nodes:
        node.clock = Clock(10**12, -0.4 if node.name == "n1" else 0.0)
    leader = cluster.run_until_leader()
    cluster.run_for(80)
    cluster.run(leader, cluster.node(leader).resign())
    cluster.run_for(8)
    made.end()
    assert not any(life.is_whole for path in made.paths for life in read(path).lives)
    found = _misfit(made.paths)
    assert found is not None and found.sent.node == "n1"
    assert 1.5 < found.rate <= 1 / 0.6


def test_what_was_said_to_one_and_then_to_all_is_taken_for_the_first(quiet: tuple[list[Path], str, str]) -> None:
    """The same bytes are heard once after the first sending, and it may be long before the second."""
    logs = [read(path) for path in quiet[0]]
    life = next(log for log in logs if log.node == quiet[1]).lives[0]
    sent = next(
        deed
        for moment in life.moments
        for deed in moment.deeds
        if isinstance(deed, Message) and isinstance(deed.message, Heartbeat) and deed.message.acting
    )
    last = life.moments[-1]
    life.moments[-1] = replace(last, deeds=(*last.deeds, replace(sent, to=quiet[2]), sent))
    assert misfit(logs) is None


@pytest.mark.soak
def test_many_storms_on_drifting_clocks_raise_no_alarm(tmp_path: Path, tell: Callable[[str], None]) -> None:
    """Half of them have small rings, whose beginnings may be overwritten."""
    for seed in range(200):
        folder, rng = tmp_path / str(seed), Random(f"clocks {seed}")
        folder.mkdir()
        clocks = {name: Clock(rng.randrange(10**15), rng.uniform(-0.001, 0.001)) for name in NAMES}
        fields = {"record_max": 70_000} if seed % 2 else {}
        assert _misfit(_ran(folder, seed, clocks.__getitem__, **fields)) is None, seed
    tell("the rates of clocks: 200 storms on clocks that drift, no alarm")
