"""Same seed, same run, to the last byte: again, with lines or without, in any process, on any Python."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from io import StringIO
from pathlib import Path
from typing import get_args

import pytest
from msgspec.structs import replace

from doyen.sim.scenario import Result, Scenario, read_file, simulate
from doyen.sim.trace import Kind, Trace

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "scenarios").glob("*.toml"))
LONG = ("lossy_grid", "ring_storm", "starved")  # Many nodes for long: run by the soak.
EACH = [pytest.param(path, marks=[pytest.mark.soak] * (path.stem in LONG), id=path.stem) for path in FILES]
SAMPLE, SOAK = 8, 1000

PROGRAM = """
import sys
from pathlib import Path
from typing import get_args
from doyen.sim.scenario import read_file, simulate
assert not {"numpy", "numba"} & set(sys.modules)
for path in sys.argv[3:]:
    scenario = read_file(Path(path))
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        print(simulate(scenario, seed).trace_hash)
"""


def pythons() -> list[tuple[str, str]]:
    """This one, and every other that `make setup` found here."""
    found = [sys.executable, *map(str, sorted(ROOT.glob(".venvs/*/bin/python")))]
    return [(python, subprocess.check_output([python, "-V"], text=True).split()[1]) for python in found]


def hashes_by(python: str, seeds: range, files: list[Path]) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONHASHSEED": "random", "PYTHONPATH": str(ROOT / "src")}
    command = [python, "-c", PROGRAM, str(seeds.start), str(seeds.stop), *map(str, files)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def compare(seeds: range, files: list[Path]) -> str:
    versions = [version for _, version in pythons()]
    running = [hashes_by(python, seeds, files) for python, _ in pythons()]
    results = [process.communicate()[0].split() for process in running]
    assert all(process.returncode == 0 for process in running), versions
    expected = len(seeds) * len(files)
    assert all(len(one) == expected for one in results)
    assert all(one == results[0] for one in results), versions
    assert len(set(results[0])) == expected, "two seeds with one trace"
    return f"{len(files)} scenarios x {len(seeds)} seeds, random hash seeds: the same traces on {', '.join(versions)}"


def test_a_sample_of_seeds_is_the_same_in_every_process_and_python(tell: Callable[[str], None]) -> None:
    tell(compare(range(SAMPLE // 4), [path for path in FILES if path.stem not in LONG]))


@pytest.mark.soak
def test_soak_a_thousand_seeds_are_the_same_in_every_process_and_python(tell: Callable[[str], None]) -> None:
    storm = [path for path in FILES if path.stem in ("storm", "wake_up")]
    tell(compare(range(SOAK), storm))


@cache
def once(path: Path) -> Result:
    """Return what the scenario comes to, for all tests that compare another run with it."""
    return simulate(read_file(path), 1)


@pytest.mark.parametrize("path", EACH)
def test_a_run_again_is_the_same_run_and_another_seed_another(path: Path) -> None:
    scenario = read_file(path)
    first, again, other = once(path), simulate(scenario, 1), simulate(scenario, 2)
    assert first == again and first.trace_hash != other.trace_hash


@pytest.mark.parametrize("path", EACH)
def test_writing_lines_changes_nothing_and_counts_every_kind(path: Path) -> None:
    scenario, text = read_file(path), StringIO()
    assert simulate(scenario, 1, trace=Trace(text)) == once(path)
    for line in text.getvalue().splitlines():
        assert line[6] == "." and line[18:27].strip() in get_args(Kind)


def test_checkers_watch_without_being_felt() -> None:
    scenario = read_file(ROOT / "scenarios/storm.toml")
    unwatched = replace(scenario, run=replace(scenario.run, checks=()))
    assert simulate(scenario, 3).trace_hash == simulate(unwatched, 3).trace_hash


def test_a_simulation_needs_no_numpy() -> None:
    hidden = "import sys; sys.modules['numpy'] = sys.modules['numba'] = None\n"
    command = [sys.executable, "-c", hidden + "from doyen.cli import main; main(['sim', 'run'])"]
    assert "all 5 name" in subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert simulate(Scenario()).agreed
