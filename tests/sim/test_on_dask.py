"""Sweeps on Dask's workers: the same results to the byte, and none lost with a worker that is killed."""

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from doyen.cli import main
from doyen.cli.sim.on_dask import dask
from doyen.sim.runs import run_many, run_seed

pytest.importorskip("distributed", reason="distributed is not installed: make setup")

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("default")]  # Dask's own warnings are its business.
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0) as made:
        yield made


def doyen(capsys: Capture, *arguments: str) -> tuple[int, str]:
    """Return the exit code of a command, and all that it says."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    said = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, said.out + said.err


def where(cluster: Any) -> str:
    return str(cluster.scheduler_address).replace("tcp://", "dask://")


def test_results_are_those_of_jobs_to_the_byte(cluster: Any, tmp_path: Path, capsys: Capture) -> None:
    sweep = ["sim", "run", "--election", "quorum", "--nodes", "3", "--runs", "8", "--json"]
    here = doyen(capsys, *sweep, "--jobs", "1", "--keep", str(tmp_path / "here"))
    there = doyen(capsys, *sweep, "--on", where(cluster), "--keep", str(tmp_path / "there"))
    assert here == there
    assert '"runs": 8' in there[1] or '"runs":8' in there[1]
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()


def test_a_worker_that_is_killed_loses_nothing(cluster: Any, tmp_path: Path) -> None:
    killed: list[int] = []
    folder = str(tmp_path)

    def noted(seed: int) -> int:
        """Note that this seed was run, and by whom; the first ones take long enough to be killed in the middle."""
        with open(os.path.join(folder, f"{seed}"), "a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")
        if len(os.listdir(folder)) < 8:
            time.sleep(0.2)
        return seed % 1000

    def kill() -> None:
        end = time.monotonic() + 30
        while time.monotonic() < end and not killed:
            for file in tmp_path.iterdir():
                pid = file.read_text().split()
                if pid and int(pid[0]) != os.getpid():
                    os.kill(int(pid[0]), signal.SIGKILL)
                    killed.append(int(pid[0]))
                    return
            time.sleep(0.01)

    killer = Thread(target=kill)
    killer.start()
    with dask(where(cluster), 0) as spread:
        found = run_many(noted, 40, 7, spread=spread)
    killer.join()
    assert killed, "a worker was killed in the middle"
    assert found == [run_seed(7, run) % 1000 for run in range(40)]


def test_what_cannot_work_is_said_in_one_line(cluster: Any, capsys: Capture) -> None:
    sweep = ["sim", "run", "--election", "quorum", "--nodes", "3", "--runs", "4", "--on"]
    for given, says in {
        "dusk": "is no engine: give dask, or dask://HOST:PORT",
        "dask://host:port": "is no engine",
        "dask://127.0.0.1:1": "no scheduler answers there",
    }.items():
        code, said = doyen(capsys, *sweep, given)
        assert code == 2 and says in said, said
        assert said.count("\n") == 1
    assert "has workers of its own" in doyen(capsys, *sweep, where(cluster), "--jobs", "2")[1]


@pytest.mark.soak
@pytest.mark.alone
def test_two_workers_are_not_slower_than_two_jobs_by_more_than_a_tenth(tell: Callable[[str], None]) -> None:
    """Compare sweeps of some 20 s on two free cores, by turns; the start of Dask's workers is part of them."""
    sweep = ["sim", "run", "--election", "quorum", "--nodes", "5", "--runs", "1000", "--jobs", "2", "--json"]

    def timed(*more: str) -> tuple[float, bytes]:
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "doyen", *sweep, *more], capture_output=True, check=True, timeout=120
        )
        return time.monotonic() - began, done.stdout

    ratios = []
    for turn in range(5):
        hows: list[tuple[str, ...]] = [(), ("--on", "dask")]
        found = {how: timed(*how) for how in (hows if turn % 2 else hows[::-1])}
        (jobs_s, jobs), (dask_s, spread) = (found[how] for how in hows)
        assert jobs == spread
        ratios.append(dask_s / jobs_s)
        tell(f"1,000 runs: --jobs 2 took {jobs_s:.1f} s, two workers of Dask {dask_s:.1f} s")
    tell(f"Dask by --jobs, five turns: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    assert statistics.median(ratios) <= 1.1
