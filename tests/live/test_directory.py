"""Elections by a shared directory, as real processes that reach each other by nothing else: never two act."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pytest

import doyen
from doyen.testing.processes import Processes

DOYEN = [sys.executable, "-m", "doyen"]
TIMERS = {"lease": "600ms", "renew-interval": "100ms", "stand-time": "150ms"}
# Writes when it acted, by the clock that all processes of a machine share.
ACT = """
import os, sys, time
with open(sys.argv[1], "a", buffering=1) as file:
    while True:
        print(os.environ["DOYEN_TERM"], time.clock_gettime_ns(time.CLOCK_BOOTTIME), file=file)
        time.sleep(0.01)
"""


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Group:
    """Members that run a command while they lead."""

    def __init__(self, processes: Processes, shared: Path, folder: Path, names: tuple[str, ...]) -> None:
        self.processes, self.shared, self.folder, self.names = processes, shared, folder, names

    def flags(self) -> list[str]:
        timers = [part for name, value in TIMERS.items() for part in (f"--directory-{name}", value)]
        return ["--group", "money", "--election", "directory", "--shared", str(self.shared), *timers]

    async def start(self, name: str) -> None:
        alone = ["--name", name, "--bind", "127.0.0.1:0", "--no-find-local", "--no-link"]
        act = [sys.executable, "-c", ACT, str(self.folder / f"{name}.acts")]
        line = [*DOYEN, "run", *self.flags(), *alone, "--", *act]
        await self.processes.launch(name, line, log=self.folder / f"{name}.log")

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def acts(self, name: str) -> list[tuple[int, int]]:
        """Return the terms and instants in which that member acted."""
        file = self.folder / f"{name}.acts"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(int(term), int(at)) for term, at in (line.split() for line in lines if " " in line)]

    async def actor(self, *, since: int = 0) -> str:
        """Return who acts after that instant."""

        def acting() -> list[str]:
            return [name for name in self.names if any(at > since for _, at in self.acts(name)[-1:])]

        await until(lambda: bool(acting()))
        return acting()[0]

    def check(self, terms_min: int) -> None:
        """Check that no two terms overlap, nor go back, over all that was ever done."""
        found: dict[tuple[int, str], list[int]] = {}
        for name in self.names:
            for term, at in self.acts(name):
                found.setdefault((term, name), []).append(at)
        spans = sorted((min(instants), max(instants), *who) for who, instants in found.items())
        assert len(spans) >= terms_min
        for (_, ended, term, one), (began, _, later, other) in pairwise(spans):
            assert ended < began and term < later, (one, other, spans)


async def until(holds: Callable[[], bool], timeout_s: float = 30.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not holds():
            await asyncio.sleep(0.05)


@asynccontextmanager
async def group_of(shared: Path, folder: Path, *names: str) -> AsyncIterator[Group]:
    async with Processes() as processes:
        group = Group(processes, shared, folder, names)
        made = subprocess.run([*DOYEN, "state", "init", *group.flags()], capture_output=True, text=True, timeout=30)
        assert made.returncode == 0, made.stderr
        for name in names:
            await group.start(name)
        yield group


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, which can be made read-only."""
    place = tmp_path / "shared"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "doyen-test", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.live
def test_a_killed_and_a_stopped_leader_are_replaced_and_never_two_act(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()

    async def play() -> None:
        async with group_of(shared, tmp_path, "ant", "bee") as group:
            first = await group.actor()
            killed_at = group.processes.started[first].kill()
            other = next(name for name in group.names if name != first)
            assert await group.actor(since=killed_at + 1_000_000_000) == other
            await group.start(first)
            # Stopped beyond its lease: the command is ended, another acts, and waking changes nothing.
            group.processes.started[other].send_signal(signal.SIGSTOP)
            stopped_at = now()
            assert await group.actor(since=stopped_at + 1_000_000_000) == first
            group.processes.started[other].send_signal(signal.SIGCONT)
            await asyncio.sleep(0.5)
            assert await group.actor(since=now()) == first
            # A leader that is asked to end says so in the directory: nobody waits for its lease.
            asked_at = now()
            group.processes.started[first].terminate()
            assert await group.actor(since=asked_at + 300_000_000) == other
            group.check(4)
        assert sum(path.name.startswith("epoch") for path in shared.iterdir()) == 1

    asyncio.run(play())


@pytest.mark.live
@pytest.mark.root
def test_three_with_a_directory_that_cannot_be_written_for_a_while(small_disk: Path, tmp_path: Path) -> None:
    async def play() -> None:
        async with group_of(small_disk, tmp_path, "ant", "bee", "cat") as group:
            leader = await group.actor()
            (small_disk / "notes.txt").write_text("not of this election")
            subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
            await until(lambda: "Read-only file system" in group.log(leader))
            await asyncio.sleep(0.8)
            silent_since = now()
            await asyncio.sleep(0.5)
            assert not any(at > silent_since for name in group.names for _, at in group.acts(name))
            subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
            leader = await group.actor(since=silent_since)
            await until(lambda: all("notes.txt" in group.log(name) for name in group.names))
            # No room: whoever leads stops, and says why.
            with suppress(OSError):
                (small_disk / "full").write_bytes(b"0" * 300_000)
            await until(lambda: "No space left" in group.log(leader))
            (small_disk / "full").unlink()
            await group.actor(since=now())
            group.check(2)

    asyncio.run(play())


@pytest.mark.live
def test_a_directory_that_is_not_fit_makes_nobody_leader(tmp_path: Path) -> None:
    """Not prepared (as an empty mount point is), of another group, or with an unreadable marker."""
    places = {"bare": tmp_path / "bare", "other": tmp_path / "other", "garbled": tmp_path / "garbled"}
    for place in places.values():
        place.mkdir()
    said = {"bare": "is not prepared, or not mounted", "other": "belongs to group", "garbled": "cannot be read"}

    async def play() -> None:
        async with Processes() as processes:
            groups = {name: Group(processes, place, tmp_path, (name,)) for name, place in places.items()}
            init = [*DOYEN, "state", "init", *groups["other"].flags(), "--group", "others"]
            subprocess.run(init, check=True, capture_output=True, timeout=30)
            (places["garbled"] / "doyen.group").write_bytes(b"\xff\xfe")
            for name, group in groups.items():
                await group.start(name)
            await until(lambda: all(words in groups[name].log(name) for name, words in said.items()))
            await asyncio.sleep(1)
            assert not any(group.acts(name) for name, group in groups.items())

    asyncio.run(play())


@pytest.mark.live
def test_a_directory_that_hangs_hangs_neither_the_node_nor_its_lease(tmp_path: Path) -> None:
    """A named pipe in place of the marker: whoever opens it waits until somebody writes."""
    shared, marker, kept = tmp_path / "shared", tmp_path / "shared" / "doyen.group", tmp_path / "kept"
    shared.mkdir()

    async def play() -> None:
        timers = {"lease": "500ms", "renew_interval": "100ms", "stand_time": "100ms"}
        prepared = [*DOYEN, "state", "init", "--group", "g", "--election", "directory", "--shared", str(shared)]
        subprocess.run(prepared, check=True, capture_output=True, timeout=30)
        lost: list[int] = []
        async with doyen.join(
            "g",
            name="ant",
            election=doyen.Directory(**timers),
            shared=str(shared),
            find_local=False,
            control=False,
            on_lost=lambda term: lost.append(now()),
        ) as node:
            await until(lambda: node.is_leader)
            os.mkfifo(tmp_path / "pipe")
            marker.rename(kept)
            hung_at = now()
            (tmp_path / "pipe").rename(marker)
            await until(lambda: bool(lost))
            assert not node.is_leader and lost[0] - hung_at < 3_000_000_000
            await until(lambda: "has not answered" in (node.agent.reign.shortage if node.agent.reign else ""))
            # It answers again, and the node goes on by itself.
            with open(marker, "wb") as pipe:
                kept.rename(marker)
                pipe.write(b"garbage")
            await until(lambda: node.is_leader)

    asyncio.run(play())


@pytest.mark.live
def test_a_node_that_has_left_leaves_no_thread(tmp_path: Path) -> None:
    async def play() -> None:
        for _ in range(2):
            async with doyen.join("g", name="ant", election="directory", shared=str(tmp_path), find_local=False):
                assert any(thread.name == "doyen-election" for thread in threading.enumerate())
        await until(lambda: not any(thread.name == "doyen-election" for thread in threading.enumerate()), 5)

    asyncio.run(play())
