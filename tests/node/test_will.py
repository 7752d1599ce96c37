"""The will of a node: what is in it, what renews it, who sends it, and what makes it void."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import doyen
from doyen.core.codec import Codec
from doyen.core.commands import Resign
from doyen.core.ids import Address, NodeId
from doyen.election.pole.messages import MESSAGES, Resigned
from doyen.errors import ConfigError, RemoteProtocolError
from doyen.net import will as net_will
from doyen.net.keys import Keyring, key_id, new_key, write_keys
from doyen.net.sealed import WINDOW, Seal
from doyen.net.will import Will, read, send_once_gone
from doyen.node.agent import Agent
from doyen.node.config import NodeConfig
from doyen.node.will import WillWriter

HOUR = 3600 * 10**9
A, B, C = (NodeId(name) for name in "abc")


def boot_time() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@pytest.fixture
def voter() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0))
        made.settimeout(5)
        yield made


def ended() -> int:
    """The pidfd of a process that has ended."""
    process = subprocess.Popen(["true"])
    file = os.pidfd_open(process.pid)
    process.wait()
    return file


def addressed_to(voter: socket.socket, *rounds: bytes) -> list[list[tuple[str, int, bytes]]]:
    return [[("127.0.0.1", voter.getsockname()[1], data)] for data in rounds]


# The file.


def test_what_was_written_last_is_sent_from_the_authors_own_address(voter: socket.socket) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as author:
        author.bind(("127.0.0.1", 0))
        source = author.getsockname()
    will = Will()
    will.write(boot_time() + HOUR, source, addressed_to(voter, b"x", b"y", b"z"))
    will.write(boot_time() + HOUR, source, addressed_to(voter, b"1", b"2", b"3"))
    send_once_gone(will.file, ended())
    assert [voter.recvfrom(100) for _ in range(3)] == [(b"1", source), (b"2", source), (b"3", source)]


def test_a_will_whose_writing_was_cut_short_leaves_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    will = Will()
    will.write(7, ("h", 1), [[("h", 2, b"first")]])
    write, calls = os.pwrite, list[bytes]()

    def killed(file: int, data: bytes, at: int) -> int:
        calls.append(data)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return write(file, data[: len(data) // 2], at)

    monkeypatch.setattr(net_will.os, "pwrite", killed)
    with pytest.raises(KeyboardInterrupt):
        will.write(8, ("h", 1), [[("h", 2, b"second")]])
    monkeypatch.undo()
    assert read(will.file) == (7, "h", "1", [["0", "h", "2", b"first".hex()]])


def test_a_will_that_is_written_often_takes_two_places_by_turns() -> None:
    will = Will()
    for until in range(1, 8):
        will.write(until, ("h", 1), [[("h", 2, b"x")]])
        assert read(will.file)[0] == until
        if until == 4:
            will.revoke()
    assert os.fstat(will.file).st_size <= 3 * net_will.PLACE  # The one before the places says which of them counts.


@pytest.mark.parametrize("how", ["never written", "revoked", "void", "too late", "too large"])
def test_what_does_not_hold_is_not_sent(voter: socket.socket, how: str) -> None:
    will = Will()
    size = 10**6 if how == "too large" else 1
    if how != "never written":
        until = boot_time() + (-1 if how == "too late" else HOUR)
        will.write(until, ("127.0.0.1", 0), addressed_to(voter, *[b"x" * size] * 3))
    if how == "revoked":
        will.revoke()
    if how == "void":
        will.void()
        will.write(boot_time() + HOUR, ("127.0.0.1", 0), addressed_to(voter, b"x"))
    send_once_gone(will.file, ended())
    voter.setblocking(False)
    with pytest.raises(BlockingIOError):
        voter.recv(100)


# The seal.


def sealed_ends() -> tuple[Seal, Seal]:
    keyring, where = Keyring([bytes(range(32))]), Address("10.0.0.1", 1)
    leader, voter = Seal(keyring, "g"), Seal(keyring, "g")
    leader.node, voter.node = A, B
    with pytest.raises(RemoteProtocolError) as unproven:
        voter.open(leader.seal(b"d" * 60, where, B), where)
    (answer,) = leader.open(unproven.value.question, where).answers  # type: ignore[attr-defined]
    for packet in voter.open(answer, where).answers:
        leader.open(packet, where)
    return leader, voter


def test_what_is_sealed_for_later_opens_once_at_its_addressee_after_much_else_was_said() -> None:
    leader, voter = sealed_ends()
    where = Address("10.0.0.1", 1)
    kept, stale = leader.seal_for_later(b"d" * 60, B), leader.seal_for_later(b"d" * 60, B)
    for _ in range(WINDOW // 2):
        assert voter.open(leader.seal(b"e" * 60, where, B), where).datagram
    voter.node = C
    with pytest.raises(RemoteProtocolError, match="another member"):
        voter.open(kept, where)
    voter.node = B
    assert voter.open(kept, where).datagram == b"d" * 60
    with pytest.raises(RemoteProtocolError, match="second time"):
        voter.open(kept, where)
    for _ in range(WINDOW // 2):
        voter.open(leader.seal(b"e" * 60, where, B), where)
    with pytest.raises(RemoteProtocolError, match="too late"):
        voter.open(stale, where)


def test_what_is_sealed_for_later_is_never_said_again_to_a_newcomer() -> None:
    leader, _ = sealed_ends()
    where, newcomer = Address("10.0.0.1", 1), Seal(leader.keyring, "g")
    newcomer.node = B
    leader.seal(b"e" * 60, where, B)
    leader.seal_for_later(b"d" * 60, B)
    with pytest.raises(RemoteProtocolError) as unproven:
        newcomer.open(leader.seal(b"f" * 60, None), where)
    (answer,) = leader.open(unproven.value.question, where).answers  # type: ignore[attr-defined]
    (proof,) = newcomer.open(answer, where).answers
    said = [newcomer.open(packet, where).datagram for packet in leader.open(proof, where).answers]
    assert said == [b"f" * 60, b"e" * 60]


# The node.


class Group:
    """Three voters in this process; each has a will that nobody keeps."""

    def __init__(self, folder: Path, key: Path) -> None:
        with socket.socket() as one, socket.socket() as two, socket.socket() as three:
            for made in (one, two, three):
                made.bind(("127.0.0.1", 0))
            ports = [made.getsockname()[1] for made in (one, two, three)]
        self.agents = [
            Agent(
                NodeConfig(
                    group="g",
                    name=name,
                    election="pole",
                    voters=("a", "b", "c"),
                    newcomer=True,
                    state=str(folder),
                    key_file=str(key),
                    find_local=False,
                    bind=f"127.0.0.1:{port}",
                    seeds=tuple(f"127.0.0.1:{other}" for other in ports if other != port),
                )
            )
            for name, port in zip("abc", ports, strict=True)
        ]
        self.writers = [WillWriter(agent, Will()) for agent in self.agents]

    async def start(self) -> None:
        for agent, writer in zip(self.agents, self.writers, strict=True):
            await agent.start()
            writer.begin()

    async def leader(self) -> int:
        while True:
            for number, agent in enumerate(self.agents):
                if agent.driver.running and agent.reign is not None and agent.reign.is_leader(boot_time()):
                    return number
            await asyncio.sleep(0.01)

    async def hands_over(self, leader: int, to: int | None = None) -> int:
        heir = None if to is None else self.agents[to].name
        self.agents[leader].driver.tell(Resign(heir), channel="election")
        found = await self.leader()
        while found == leader or to not in (None, found):
            await asyncio.sleep(0.01)
            found = await self.leader()
        return found

    def close(self) -> None:
        for agent in self.agents:
            agent.driver.close()


def opened(group: Group, leader: int) -> dict[str, list[object]]:
    """What each voter reads in the leader's will, by the voter's name."""
    _, host, port, datagrams = read(group.writers[leader].will.file)
    assert Address(host, int(port)) == group.agents[leader].driver.transport.address
    codec = Codec("g")
    codec.speak("election", MESSAGES)
    found: dict[str, list[object]] = {}
    for _, to_host, to_port, data in datagrams:
        for agent in group.agents:
            if agent.driver.transport.address == Address(to_host, int(to_port)):
                assert agent.driver.seal is not None
                plain = agent.driver.seal.open(bytes.fromhex(data), Address(host, int(port))).datagram
                assert plain is not None
                message = codec.read(codec.open(plain)).message
                assert isinstance(message, Resigned)
                found.setdefault(agent.name, []).append(message.epoch)
    return found


def check_a_will_follows_its_term(folder: Path) -> None:
    async def main() -> None:
        key = folder / "key"
        write_keys(key, [new_key()])
        group = Group(folder / "state", key)
        try:
            async with asyncio.timeout(20):
                await group.start()
                first = await group.leader()
                reign = group.agents[first].reign
                assert reign is not None and reign.mine is not None
                others = {"a", "b", "c"} - {group.agents[first].name}
                assert opened(group, first) == {name: [reign.mine.number] * 3 for name in others}
                before = read(group.writers[first].will.file)
                while read(group.writers[first].will.file)[0] == before[0]:  # Until the lease is renewed.
                    await asyncio.sleep(0.01)
                assert opened(group, first) == {name: [reign.mine.number] * 3 for name in others}
                seal = group.agents[first].driver.seal
                assert seal is not None
                added = new_key()
                for agent in group.agents:  # The next key seals.
                    assert agent.driver.seal is not None
                    agent.driver.seal.keyring.replace(Keyring([added, seal.keyring.keys[-1]]))
                group.writers[first].renew()
                assert all(
                    bytes.fromhex(line[3])[1:5] == key_id(added) for line in read(group.writers[first].will.file)[3]
                )
                second = await group.hands_over(first)
                assert read(group.writers[first].will.file)[0] == 0  # Revoked.
                await group.hands_over(second, to=first)
                assert opened(group, first) == {name: [reign.mine.number] * 3 for name in others}
        finally:
            group.close()

    asyncio.run(main())


def test_a_will_follows_its_lease_its_key_and_its_term(tmp_path: Path) -> None:
    check_a_will_follows_its_term(tmp_path)


def test_a_will_kept_from_an_earlier_term_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = WillWriter.renew

    def renew(self: WillWriter) -> None:
        reign = self._agent.reign
        if reign is not None and reign.mine is not None and reign.mine.number == 1:
            sound(self)

    monkeypatch.setattr(WillWriter, "renew", renew)
    with pytest.raises(AssertionError):
        check_a_will_follows_its_term(tmp_path)


def test_only_who_leads_looks_at_its_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: Counter[str] = Counter()
    sound = WillWriter.renew

    def renew(self: WillWriter) -> None:
        looked[self._agent.name] += 1
        sound(self)

    async def main() -> None:
        write_keys(tmp_path / "key", [new_key()])
        group = Group(tmp_path / "state", tmp_path / "key")
        try:
            async with asyncio.timeout(20):
                await group.start()
                first = await group.leader()
                second = await group.hands_over(first)
                while any(agent.reign.leader != group.agents[second].name for agent in group.agents if agent.reign):
                    await asyncio.sleep(0.01)
                looked.clear()
                await asyncio.sleep(1.0)
                assert looked.keys() == {group.agents[second].name}
        finally:
            group.close()

    monkeypatch.setattr(WillWriter, "renew", renew)
    asyncio.run(main())


# The keeper of a Python program.

PROGRAM = """
import os, sys, time
from doyen.node import will
{before}
keeper = will.Keeper("ant")
keeper.will.write(time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 60 * 10**9, ("127.0.0.1", 0),
                  [[("127.0.0.1", {port}, b"%d" % number)] for number in range(3)])
keeper.check()
def target():
    pass
if __name__ == "__main__":
    print(keeper.pid, flush=True)
    input()
{after}
    keeper.check()
    print(keeper.will.is_void, flush=True)
    input()
"""


class Program:
    """A program that keeps a will, and does `after` when it is told to."""

    def __init__(self, folder: Path, voter: socket.socket, after: str = "", before: str = "") -> None:
        self.voter = voter
        file = folder / "program.py"
        after = "".join(f"    {line}\n" for line in after.split("; "))
        file.write_text(PROGRAM.format(port=voter.getsockname()[1], after=after, before=before))
        self.process = subprocess.Popen(
            [sys.executable, str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.keeper = int(self.process.stdout.readline())

    def goes_on(self) -> str:
        """Let it do what it is to do; return whether its will is void then."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def heard(self, within_s: float = 0.3) -> list[bytes]:
        found = []
        end = time.monotonic() + within_s
        while len(found) < 3 and (left := end - time.monotonic()) > 0:
            self.voter.settimeout(left)
            try:
                found.append(self.voter.recv(100))
            except TimeoutError:
                break
        return found

    def killed(self) -> str:
        """Kill it; return what it said on standard error."""
        self.process.kill()
        return self.process.communicate()[1]


@pytest.mark.live
def test_a_killed_programs_will_is_sent_three_times_and_not_while_it_is_stopped(
    tmp_path: Path, voter: socket.socket
) -> None:
    program = Program(tmp_path, voter, "import threading; threading.Thread(target=target).start()")
    lines = Path(f"/proc/{program.keeper}/smaps_rollup").read_text().splitlines()
    assert 0 < int(next(line.split()[1] for line in lines if line.startswith("Pss:"))) < 12 * 1024
    assert program.goes_on() == "False"
    os.kill(program.process.pid, signal.SIGSTOP)
    assert program.heard() == []
    assert program.killed() == ""
    assert program.heard(5) == [b"0", b"1", b"2"]


WAYS = {
    "subprocess": "import subprocess; subprocess.run(['true'])",
    "os.system": "os.system('true')",
    "os.fork": "pid = os.fork(); pid or os._exit(0); os.waitpid(pid, 0)",
    "os.posix_spawn": "os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)",
    "os.spawn": "os.spawnv(os.P_WAIT, '/bin/true', ['true'])",
    "a pool": "import multiprocessing as m; p = m.get_context('spawn').Process(target=target); p.start(); p.kill()",
    "a server of forks": "from multiprocessing import forkserver; forkserver.ensure_running()",
    "native code": "import ctypes; ctypes.CDLL(None).fork() or [os.close(0), os.close(1), os.close(2), time.sleep(2)]",
}


@pytest.mark.live
@pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=() if way in ("os.fork", "a pool", "native code") else pytest.mark.soak) for way in WAYS],
)
def test_a_program_that_starts_another_has_no_will_any_more(tmp_path: Path, voter: socket.socket, way: str) -> None:
    program = Program(tmp_path, voter, WAYS[way])
    assert program.goes_on() == "True"
    assert "its will is void" in program.killed()
    assert program.heard() == []


@pytest.mark.live
def test_a_child_that_is_there_already_counts(tmp_path: Path, voter: socket.socket) -> None:
    program = Program(
        tmp_path, voter, before="import subprocess; child = subprocess.Popen(['sleep', '2'], stderr=-3, stdout=-3)"
    )
    assert program.goes_on() == "True"
    assert "its will is void" in program.killed()
    assert program.heard() == []


@pytest.mark.live
@pytest.mark.parametrize("end", ["os.execv('/bin/sleep', ['sleep', '0.1'])", "keeper.end(); keeper = will.Keeper('b')"])
def test_a_program_that_becomes_another_or_leads_no_more_has_no_will(
    tmp_path: Path, voter: socket.socket, end: str
) -> None:
    program = Program(tmp_path, voter, end)
    program.goes_on()
    program.killed()
    assert program.heard() == []


@pytest.mark.live
def test_without_its_keeper_a_program_goes_on_and_its_lease_is_waited_out(tmp_path: Path, voter: socket.socket) -> None:
    program = Program(tmp_path, voter)
    os.kill(program.keeper, signal.SIGKILL)
    assert program.goes_on() == "False"
    program.killed()
    assert program.heard() == []


def test_a_will_is_for_elections_with_a_lease() -> None:
    with pytest.raises(ConfigError, match="will True ends a lease early"):
        doyen.join("g", will=True)
