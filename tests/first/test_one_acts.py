"""README's program, started several times at random: at no instant do two copies act.

Each copy writes when it begins and ends to act, on the clock that all processes of a machine share; a killed one ends
at its death.  The judge is the file, not what any copy believes.  A run in which the machine stalled for longer than
the preset's timeout says nothing about the election: it is repeated, and counted.
"""

import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from stalls import Stalls

from doyen.net.driver import boot_time_ns
from doyen.node.layers import by_path, configure
from doyen.testing.processes import multicast_on_loopback

pytestmark = pytest.mark.live

PROGRAM = """
import asyncio, sys, time
import doyen

def write(what):
    with open(sys.argv[1], "a") as file:
        file.write(f"{what} {time.clock_gettime_ns(time.CLOCK_BOOTTIME)}\\n")

async def main():
    async with doyen.join("reports") as node:
        async for term in node.terms():
            async with term:
                write("begin")
                try:
                    await asyncio.sleep(3600)
                finally:
                    write("end")

asyncio.run(main())
"""
RUNNER = "while :; do echo works $(cut -d' ' -f1 /proc/uptime); sleep 0.1; done"
STALL_MAX_NS = configure(by_path({"group": "g"}), environment={}).tables["swim"].ack_timeout  # Of the preset.


class Copy:
    """One copy of a program that acts while it leads."""

    def __init__(self, command: list[str], log: Path, runtime: Path) -> None:
        self.log, self.died_at = log, 0
        environment = os.environ | {"DOYEN_RUNTIME_DIR": str(runtime)}
        with open(f"{log}.err", "w") as said:
            self.process = subprocess.Popen(command, stdout=said, stderr=said, env=environment)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.died_at = boot_time_ns()
            self.process.wait()

    def acts(self) -> list[tuple[int, int]]:
        """Return from when to when it acted."""
        found: list[tuple[int, int]] = []
        for line in self.log.read_text().splitlines() if self.log.exists() else ():
            what, at = line.split()
            if what == "begin":
                found.append((int(at), self.died_at or boot_time_ns()))
            else:
                found[-1] = (found[-1][0], int(at))
        return found

    @property
    def is_acting(self) -> bool:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return self.died_at == 0 and bool(lines) and lines[-1].startswith("begin")


@contextmanager
def copies(folder: Path, count: int, apart_s: float, rng: random.Random) -> Iterator[list[Copy]]:
    made: list[Copy] = []
    starts = sorted(rng.uniform(0, apart_s) for _ in range(count))
    began = time.monotonic()
    try:
        for number, start in enumerate(starts):
            time.sleep(max(0.0, began + start - time.monotonic()))
            log = folder / f"{number}.log"
            made.append(Copy([sys.executable, "-c", PROGRAM, str(log)], log, folder / "run"))
        yield made
    finally:
        for copy in made:
            copy.kill()


def until(holds: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "nobody acts"
        time.sleep(0.02)


def overlaps(made: list[Copy]) -> list[tuple[float, float]]:
    """Return, in seconds, where one began to act before all that began earlier had ended, and for how long."""
    spans = sorted(span for copy in made for span in copy.acts())
    found, ended = [], 0
    for begin, end in spans:
        if begin < ended:
            found.append(((begin - spans[0][0]) / 1e9, (min(end, ended) - begin) / 1e9))
        ended = max(ended, end)
    return found


def run_once(folder: Path, rng: random.Random, kill_count: int, apart_s: float) -> tuple[list[Copy], int]:
    """Start three copies, kill the acting one that many times; return the copies, and how long the machine stalled."""
    folder.mkdir()
    with Stalls() as stalls, copies(folder, 3, apart_s, rng) as made:
        until(lambda: any(copy.is_acting for copy in made), 30)
        time.sleep(1.0)  # A second one that acts would do so now.
        for _ in range(kill_count):
            acting = next(copy for copy in made if copy.is_acting)
            acting.kill()
            until(lambda: any(copy.is_acting for copy in made), 30)
            time.sleep(0.5)
    return made, stalls.worst_ns


def judge(tmp_path: Path, runs: int, apart_s: float, tell: Callable[[str], None]) -> None:
    seed = int(os.environ.get("DOYEN_SEED", time.time_ns() % 10**6))
    rng, stalled, bad = random.Random(seed), 0, []
    done = 0
    while done < runs:
        folder = tmp_path / f"{done}-{stalled}"
        made, worst_ns = run_once(folder, rng, done % 3, apart_s)
        if worst_ns > STALL_MAX_NS and stalled < 5 * runs:
            stalled += 1
            continue
        bad += [(folder.name, overlap) for overlap in overlaps(made)]
        done += 1
    tell(
        f"README's program three times at once, {runs} runs up to {apart_s:g} s apart: {len(bad)} with two that act; "
        f"{stalled} runs repeated because the machine stalled (seed {seed})"
    )
    assert not bad, bad


def test_one_acts_at_a_time(tmp_path: Path, tell: Callable[[str], None]) -> None:
    judge(tmp_path, 1, 0.5, tell)


@pytest.mark.soak
def test_one_acts_at_a_time_in_100_runs(tmp_path: Path, tell: Callable[[str], None]) -> None:
    judge(tmp_path, int(os.environ.get("DOYEN_STARTS", "100")), 5.0, tell)


def workers(tmp_path: Path, *flags: str) -> set[str]:
    """Start the tutorial's three processes at once; return those that worked within the first seconds."""
    environment = os.environ | {"DOYEN_RUNTIME_DIR": str(tmp_path / "run")}
    line = [sys.executable, "-m", "doyen", "run", "--group", "three", "--preset", "local", *flags]
    made = []
    for name in ("ant", "bee", "cat"):
        with open(tmp_path / f"{name}.out", "w") as out:
            made.append(
                subprocess.Popen(
                    [*line, "--name", name, "--", "sh", "-c", RUNNER],
                    stdout=out,
                    stderr=subprocess.DEVNULL,
                    env=environment,
                )
            )
    try:
        outs = [tmp_path / f"{name}.out" for name in ("ant", "bee", "cat")]
        until(lambda: any(out.stat().st_size for out in outs), 30)
        time.sleep(1.0)
        return {out.stem for out in outs if out.stat().st_size}
    finally:
        for process in made:
            process.terminate()
        for process in made:
            process.wait(20)


def tutorial(tmp_path: Path, starts: int) -> None:
    several = []
    for number in range(starts):
        folder = tmp_path / str(number)
        folder.mkdir()
        worked = workers(folder)
        if len(worked) != 1:
            several.append((number, worked))
    assert not several


def test_the_tutorials_three_show_one_worker(tmp_path: Path) -> None:
    tutorial(tmp_path, 1)


@pytest.mark.soak
def test_the_tutorials_three_show_one_worker_in_50_starts(tmp_path: Path) -> None:
    tutorial(tmp_path, 50)


@pytest.mark.soak
@pytest.mark.parametrize("election", ["le-s", "le-m"])
def test_by_multicast_they_work_one_after_the_other_and_the_first_to_wake_stays(election: str, tmp_path: Path) -> None:
    """Rank decides in LE-S: a better process that comes up later takes over.  LE-M keeps the first."""
    for number in range(int(os.environ.get("DOYEN_STARTS", "20"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        worked = workers(folder, "--election", election, *multicast_on_loopback())
        times = {name: [float(line.split()[1]) for line in worked_lines(folder / f"{name}.out")] for name in worked}
        spans = sorted((found[0], found[-1], name) for name, found in times.items())
        assert all(later[0] >= earlier[1] for earlier, later in pairwise(spans)), (number, spans)
        assert election == "le-s" or len(spans) == 1, (number, spans)
        assert spans[-1][2] == max(worked), "the best stays"


def worked_lines(file: Path) -> list[str]:
    """Return the whole lines of a worker."""
    return [line for line in file.read_text().splitlines() if re.fullmatch(r"works [\d.]+", line)]
