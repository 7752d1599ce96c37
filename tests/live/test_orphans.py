"""A command that is killed leaves none of its processes behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.live
DOYEN = [sys.executable, "-m", "doyen"]
LAB = """
import asyncio
from doyen.testing.processes import Processes

async def main():
    await Processes().launch("peer", ["sleep", "600"])
    await asyncio.sleep(600)

asyncio.run(main())
"""  # Of processes that read nothing and write nothing, as many of the lab and of its benchmarks are.
SIMULATION = ("sim", "run", "--nodes", "50", "--runs", "100000", "--jobs", "2", "--run-length", "1h")


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


COMMANDS = {
    "sim": ([*DOYEN, *SIMULATION], 2),
    "up": ([*DOYEN, "up", "--nodes", "2"], 2),
    "lab": ([sys.executable, "-c", LAB], 1),
}


@pytest.mark.parametrize(("command", "count"), COMMANDS.values(), ids=COMMANDS)
def test_sigkill_to_a_command_ends_its_processes(command: list[str], count: int) -> None:
    nothing = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing) as process:
        deadline = time.monotonic() + 20
        while len(started := children(process.pid)) < count:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.02)
        time.sleep(0.5)  # They are at work.
        process.kill()
    deadline = time.monotonic() + 10
    try:
        while any(map(lives, started)):
            assert time.monotonic() < deadline, f"left behind: {[pid for pid in started if lives(pid)]}"
            time.sleep(0.02)
    finally:
        for pid in filter(lives, started):
            os.kill(pid, signal.SIGKILL)
