"""Processes of one user on one machine find each other without any option, and leave nothing behind."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import doyen
from doyen.node.registration import Registration

pytestmark = pytest.mark.live

PROGRAM = """
import asyncio, sys
import doyen

async def main():
    async with doyen.join("{group}", preset="local", **{fields}) as node:
        print(node.name, flush=True)
        while True:
            present = sum(member.state == "alive" for member in node.members())
            print(present, int(node.is_leader), flush=True)
            await asyncio.sleep(0.05)

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path / "run"))
    return tmp_path / "run"


class Copy:
    """One copy of the program, and what it said last."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process, self._rest = process, b""
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self.present, self.leads, self.name = 0, False, ""

    def look(self) -> "Copy":
        assert self.process.stdout is not None
        self._rest += self.process.stdout.read() or b""
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            if not self.name:
                self.name = line.decode()
            else:
                self.present, self.leads = (int(word) for word in line.split())
        return self


@contextmanager
def copy(group: str, fields: str = "{}", within: tuple[str, ...] = ()) -> Iterator[Copy]:
    line = [*within, sys.executable, "-c", PROGRAM.format(group=group, fields=fields)]
    with subprocess.Popen(line, stdout=subprocess.PIPE) as process:
        try:
            yield Copy(process)
        finally:
            process.kill()


def until(holds: Callable[[], bool], within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_three_copies_have_one_leader_and_a_killed_one_leaves_nothing(runtime: Path) -> None:
    with ExitStack() as stack:
        copies = [stack.enter_context(copy("three")) for _ in range(3)]
        until(lambda: all(one.look().present == 3 for one in copies) and sum(one.leads for one in copies) == 1)
        leader = next(one for one in copies if one.leads)
        leader.process.kill()
        rest = [one for one in copies if one is not leader]
        until(lambda: all(one.look().present == 2 for one in rest) and sum(one.leads for one in rest) == 1)
        # A start clears what the dead left; the end of the last leaves no folder.
        copies.append(stack.enter_context(copy("three")))
        until(lambda: copies[3].look().present == 3)
        assert len([*runtime.glob("three/*.node")]) == len([*runtime.glob("three/*.sock")]) == 3
        for one in (*rest, copies[3]):
            one.process.send_signal(signal.SIGTERM)
            one.process.wait(10)
    assert not [*runtime.iterdir()]


def test_folders_of_killed_processes_go_when_the_next_one_starts(runtime: Path) -> None:
    with copy("gone") as one:
        until(lambda: one.look().present == 1)
        one.process.kill()
        one.process.wait()
    assert [*runtime.glob("gone/*.sock")]
    with copy("next") as one:
        until(lambda: one.look().present == 1)
        assert [folder.name for folder in runtime.iterdir()] == ["next"]


@contextmanager
def loopback_of_its_own() -> Iterator[tuple[str, ...]]:
    """Enter a network namespace where nobody else has port 7600; without root there is only the common one."""
    if os.geteuid() != 0:
        yield ()
        return
    line = ["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep 60"]
    with subprocess.Popen(line, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None and holder.stdout.readline() == b"up\n"
            yield ("nsenter", "--target", str(holder.pid), "--net")
        finally:
            holder.kill()


@pytest.mark.parametrize("seed", ["127.0.0.1", "localhost"])
def test_a_seed_on_loopback_is_enough_without_looking_around(seed: str) -> None:
    fields = f"dict(seeds=[{seed!r}], find_local=False)"
    with loopback_of_its_own() as within, copy("loop", fields, within) as one, copy("loop", fields, within) as two:
        until(lambda: one.look().present == two.look().present == 2 and one.leads + two.leads == 1)


def test_without_an_election_there_is_still_a_list() -> None:
    async def main() -> None:
        async with (
            doyen.join("list", name="ant", election="none", preset="local") as ant,
            doyen.join("list", name="bee", election="none", preset="local") as bee,
            asyncio.timeout(20),
        ):
            while {member.name for member in (*ant.members(), *bee.members())} != {"ant", "bee"}:
                await asyncio.sleep(0.02)
            assert not ant.is_leader

    asyncio.run(main())


def test_entries_of_another_network_are_no_neighbours(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ant = Registration.make("g", "ant", "127.0.0.1:1")
    bee = Registration.make("g", "bee", "127.0.0.1:2")
    assert [entry.name for entry in bee.earlier()] == ["ant"] and not ant.earlier()
    assert [entry.name for entry in ant.others()] == ["bee"]
    monkeypatch.setattr("doyen.node.registration.network_namespace", lambda: "elsewhere")
    cat = Registration.make("g", "cat", "127.0.0.1:3")
    assert not cat.others() and len(ant.others()) == 1
    bee.path.unlink()  # As a cleaner of /tmp does: it comes back.
    assert [entry.name for entry in bee.others()] == ["ant"] and bee.path.exists()
    for made in (ant, bee, cat):
        made.close()
    assert not runtime.joinpath("g").exists()
