"""The specification: safe, as TLC explores it; and Python says the same as TLA+, state by state and step by step."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from doctored import ALL, Doctored, Tape
from explored import states
from recorded import Recorded, slow_disk
from test_audit import sound as sound
from tlc import Bound, allowed, count_of, explored

from doyen.audit.audit import audit

SMALL = [
    Bound(epochs=1, resignations=1, restarts=1),
    Bound(epochs=1, time=2, restarts=1),
    Bound(nodes=3, epochs=1, beats=1),
    Bound(),
]


def test_python_explores_no_two_that_act() -> None:
    assert states(Bound(epochs=1)) > 500


@pytest.mark.soak
@pytest.mark.parametrize("bound", SMALL, ids=str)
def test_python_and_tla_have_the_same_states(bound: Bound, tmp_path: Path, tell: Callable[[str], None]) -> None:
    found = explored(tmp_path, bound)
    assert found.violated == ""
    assert states(bound) == found.distinct > 1000
    tell(f"specification: {found.distinct:,} states alike in TLA+ and Python, {bound}")


@pytest.mark.soak
@pytest.mark.parametrize(
    "bound",
    [Bound(nodes=3), Bound(nodes=3, epochs=2, beats=2, resignations=1), Bound(nodes=3, restarts=1)],
    ids=str,
)
def test_tlc_finds_no_two_leaders(bound: Bound, tmp_path: Path, tell: Callable[[str], None]) -> None:
    found = explored(tmp_path, bound, symmetric=True, within_s=7200, workers=2)
    assert found.violated == ""
    tell(f"TLC: {found.distinct:,} states, none with two that act, {bound}")


@pytest.mark.soak
def test_tlc_finds_two_leaders_where_the_guard_is_shorter_than_the_lease(tmp_path: Path) -> None:
    assert explored(tmp_path, Bound(nodes=3, lease=2, guard=1), symmetric=True).violated == "OneActs"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6))
def test_tlc_allows_the_steps_of_a_storm(seed: int, tmp_path: Path) -> None:
    made = Recorded(tmp_path, seed, loss=0.05, jitter="3ms", disk_delay=slow_disk(Random(seed)))
    made.storm(3, ("partition", "cut", "crash", "pause", "resign"))
    found = audit(made.paths, keep=True)
    assert found.refused is None
    assert allowed(tmp_path, found.trace, found.nodes, *_lease(made.paths)) is None


APART = {  # Seen before the specification is asked, or after it has allowed all.
    "a vote after the record was lost",
    "an ack that nobody sent",
    "a clock ten times too fast",
}


@pytest.mark.soak
@pytest.mark.parametrize(
    "doctored", [one for one in ALL if one.name not in APART and not one.without], ids=lambda doctored: doctored.name
)
def test_tlc_refuses_what_python_refuses_at_the_same_step(
    doctored: Doctored, sound: list[Path], tmp_path: Path
) -> None:
    tapes = {path.stem: Tape(path) for path in sound}
    doctored.change(tapes)
    for tape in tapes.values():
        tape.write(tmp_path)
    paths = sorted(tmp_path.glob("*.rec"))
    found = audit(paths, keep=True)
    assert found.refused is not None
    assert allowed(tmp_path, found.trace, found.nodes, *_lease(paths), spare=0) == count_of(found.trace) - 1


def _lease(paths: list[Path]) -> tuple[int, int]:
    from doyen.audit.moments import read

    config = read(paths[0]).config
    return config.lease, config.guard
