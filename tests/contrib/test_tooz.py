"""`doyen://` for tooz: tooz's own suite, and what happens when the process that leads is killed."""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

tooz = pytest.importorskip("tooz", reason="tooz is not installed: make setup")

from copies import free_ports  # noqa: E402

from doyen.contrib.tooz import messages as m  # noqa: E402
from doyen.contrib.tooz.registry import Refused, Registry  # noqa: E402
from doyen.contrib.tooz.server import Server, log  # noqa: E402
from doyen.contrib.tooz.wire import Wire  # noqa: E402

# Tests of tooz's suite that do not apply, and why.
SKIPPED = {
    "test_heartbeat": "doyen's nodes beat by themselves",
    "test_heartbeat_loop": "doyen's nodes beat by themselves",
    "test_timeout": "a member that is silent for its application alone stays: its node answers for it",
    "test_watch_join_group_disappear": "tooz runs it for its etcd, memcached and Redis drivers only",
}

SUITE = """
import sys, pytest, tooz.coordination
held = tooz.coordination.get_coordinator(sys.argv[1], b"held")
if sys.argv[2] == "held":
    held.start()  # Else each test begins and ends the group: half a second each.
sys.exit(pytest.main(["-p", "no:cacheprovider", "-c", sys.argv[3], "--rootdir", sys.argv[4], "-rs", "-v",
    "--pyargs", "tooz.tests.test_coordination"]))
"""


def run_suite(folder: Path, url: str, held: str) -> dict[str, set[str]]:
    """Run tooz's suite in a process of its own; return its tests by how they ended."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-c", SUITE, url, held, str(folder / "pytest.ini"), str(folder)]
    given = os.environ | {"TOOZ_TEST_URL": url, "DOYEN_RUNTIME_DIR": str(folder)}
    done = subprocess.run(command, env=given, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    found: dict[str, set[str]] = {"PASSED": set(), "SKIPPED": set(), "FAILED": set(), "ERROR": set()}
    for name, how in re.findall(r"::(test_\w+) (PASSED|SKIPPED|FAILED|ERROR)", done.stdout):
        found[how].add(name)
    assert not found["FAILED"] | found["ERROR"] and done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return found


def check_suite(found: dict[str, set[str]]) -> None:
    assert found["SKIPPED"] == SKIPPED.keys()
    assert len(found["PASSED"]) >= 76


@pytest.mark.live
def test_toozs_own_suite(tmp_path: Path) -> None:
    check_suite(run_suite(tmp_path, f"doyen:///{uuid4().hex}", "held"))


@pytest.mark.soak
@pytest.mark.live
def test_toozs_own_suite_where_each_test_begins_the_group(tmp_path: Path) -> None:
    check_suite(run_suite(tmp_path, f"doyen:///{uuid4().hex}", "nobody"))


@pytest.mark.soak
@pytest.mark.live
def test_toozs_own_suite_beside_another_process_that_leads(tmp_path: Path) -> None:
    url = f"doyen:///{uuid4().hex}"
    with members(tmp_path, url, "leads"):
        check_suite(run_suite(tmp_path, url, "nobody"))


# Processes that are killed.


class Process:
    def __init__(self, folder: Path, url: str, name: str) -> None:
        command = [sys.executable, str(Path(__file__).with_name("tooz_member.py")), url, name]
        given = os.environ | {"DOYEN_RUNTIME_DIR": str(folder)}
        with (folder / f"{name}.log").open("wb") as log:
            self.process = subprocess.Popen(
                command, env=given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.started: Any = None

    def read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def begin(self, *words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()

    def do(self, *words: str) -> Any:
        self.begin(*words)
        return self.read()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@contextmanager
def members(folder: Path, url: str, *names: str, **own: str) -> Iterator[list[Process]]:
    """Start processes, the first one alone until it leads."""
    with ExitStack() as stack:
        made = []
        for name in names:
            process = Process(folder, url + own.get(name, ""), name)
            stack.callback(process.kill)
            made.append(process)
            if own:
                continue
            process.started = process.read()
        for process in made if own else ():
            process.started = process.read()
        yield made


@pytest.mark.live
def test_a_killed_leader_takes_only_its_own_along(tmp_path: Path) -> None:
    """The others keep their groups, memberships and locks; what the killed one held is free, and soon."""
    with members(tmp_path, f"doyen:///{uuid4().hex}", "ant", "bee", "cat") as (ant, bee, cat):
        for each in (ant, bee, cat):
            assert each.do("join", "g") is None
        assert cat.do("create", "empty") is None
        assert ant.do("acquire", "of-ant") is True
        assert bee.do("acquire", "of-bee") is True
        cat.begin("acquire", "of-ant", "20")  # It waits.
        ant.kill()  # The first of the group leads.
        killed_at = time.monotonic()
        assert cat.read() is True
        assert time.monotonic() - killed_at < 15
        assert bee.do("owns", "of-bee") is True
        assert cat.do("acquire", "of-bee") is False
        assert cat.do("groups") == ["empty", "g"]
        assert bee.do("members", "g") == {"bee": {"from": "bee"}, "cat": {"from": "cat"}}
        assert bee.do("release", "of-bee") is True
        assert cat.do("acquire", "of-bee") is True


@pytest.mark.soak
@pytest.mark.live
def test_a_killed_member_is_gone_and_its_locks_are_free(tmp_path: Path) -> None:
    with members(tmp_path, f"doyen:///{uuid4().hex}", "ant", "bee") as (ant, bee):
        assert [bee.do("join", "g"), ant.do("join", "g"), bee.do("acquire", "x")] == [None, None, True]
        assert ant.do("acquire", "x") is False
        ant.begin("acquire", "x", "20")
        bee.kill()
        assert ant.read() is True
        assert ant.do("members", "g") == {"ant": {"from": "ant"}}


@pytest.mark.soak
@pytest.mark.live
def test_a_key_keeps_strangers_out(tmp_path: Path) -> None:
    keys = [tmp_path / "ours.key", tmp_path / "theirs.key"]
    for key in keys:
        subprocess.run(
            [sys.executable, "-m", "doyen", "keys", "new", "--file", str(key)], check=True, capture_output=True
        )
    group, (port,), elsewhere = uuid4().hex, free_ports(1), tmp_path / "elsewhere"
    elsewhere.mkdir()
    own = {"ant": f"&bind=127.0.0.1:{port}", "bee": ""}
    with members(tmp_path, f"doyen:///{group}?timeout=20&key={keys[0]}", "ant", "bee", **own) as (ant, bee):
        assert isinstance(ant.started, int) and isinstance(bee.started, int)
        url = f"doyen://127.0.0.1:{port}/{group}?timeout=2&preset=local&key={keys[1]}"
        with members(elsewhere, url, "cat") as (cat,):
            assert str(cat.started).startswith("ToozConnectionError")
        assert [ant.do("acquire", "x"), bee.do("acquire", "x")] == [True, False]


@pytest.mark.soak
@pytest.mark.live
def test_locks_of_a_quorum_wait_for_a_paused_holder_to_know_it(tmp_path: Path) -> None:
    """A process that leads and holds a lock is stopped: another gets the lock only once the first one disowns it."""
    import signal

    names, ports = ("ant", "bee", "cat"), free_ports(3)
    seeds = ",".join(f"127.0.0.1:{port}" for port in ports)
    url = f"doyen://{seeds}/{uuid4().hex}?timeout=30&election=quorum&voters=ant,bee,cat&newcomer=true&preset=local"
    own = {
        name: f"&name={name}&bind=127.0.0.1:{port}&state={tmp_path / name}"
        for name, port in zip(names, ports, strict=True)
    }
    with members(tmp_path, url, *names, **own) as made:
        for holder in made:
            others = [each for each in made if each is not holder]
            assert holder.do("acquire", "x", "20") is True
            assert holder.do("owns", "x") is True
            os.kill(holder.started, signal.SIGSTOP)
            assert others[0].do("acquire", "x", "40") is True
            os.kill(holder.started, signal.SIGCONT)
            assert holder.do("owns", "x") is False
            assert others[0].do("owns", "x") is True
            assert holder.do("release", "x") is False
            assert others[0].do("release", "x") is True


# The registry alone.


class Asking:
    """A registry, and the answers that it gave."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []
        self.registry = Registry(lambda process, message: self.told.append((process, message)))
        self.late: dict[bytes, bool] = {}

    def ask(self, request: m.Request, *, by: str = "p", now: float = 0.0) -> Any:
        answers: list[Any] = []
        try:
            self.registry.ask(by, request, now, 1000.0 + now, answers.append)
        except Refused as refused:
            return refused.reason
        return answers[0] if answers else "waits"

    def acquire(self, token: bytes, *, by: str = "p", shared: bool = False, wait_s: float = 0.0, now: float = 0) -> Any:
        answers: list[Any] = []

        def answer(value: bool) -> None:
            answers.append(value)
            self.late[token] = value

        self.registry.ask(by, m.Acquire(b"x", token, by.encode(), shared, wait_s), now, now, answer)
        return answers[0] if answers else "waits"


def test_a_request_that_is_sent_again_is_done_once() -> None:
    asking = Asking()
    assert [asking.ask(m.Create(b"g", b"1")), asking.ask(m.Create(b"g", b"1"))] == [None, None]
    assert asking.ask(m.Create(b"g", b"2")) == "GroupAlreadyExist"
    join = m.Join(b"g", b"ant", b"3", b"")
    assert [asking.ask(join), asking.ask(join)] == [1000.0, 1000.0]
    assert asking.ask(m.Join(b"g", b"ant", b"4", b"")) == "MemberAlreadyExist"
    assert [asking.acquire(b"t"), asking.acquire(b"t"), asking.acquire(b"u")] == [True, True, False]


def test_waiters_get_a_lock_in_their_order_and_readers_do_not_overtake_a_writer() -> None:
    asking = Asking()
    assert asking.acquire(b"r1", shared=True) is True
    assert asking.acquire(b"w", wait_s=9) == "waits"
    assert asking.acquire(b"r2", shared=True, wait_s=5) == "waits"
    assert asking.acquire(b"r3", shared=True) is False
    assert asking.registry.tick(1.0) == 5.0
    asking.registry.tick(5.0)
    assert asking.late == {b"r1": True, b"r2": False, b"r3": False}
    assert asking.ask(m.Release(b"x", b"r1")) is True
    assert asking.late[b"w"] is True
    assert asking.ask(m.ListHolders(b"x")) == [b"p"]


def test_a_new_registry_has_what_was_declared_and_of_two_holders_the_first() -> None:
    asking = Asking()
    joined = m.Join(b"g", b"ant", b"1", b"caps", 1.0, 2.0)
    hold = m.Acquire(b"x", b"t1", b"ant", False, 0.0)
    assert asking.registry.declare(m.Declared("p", "n1", (b"empty",), (joined,), (hold,))) == []
    other = m.Acquire(b"x", b"t2", b"bee", False, 0.0)
    assert asking.registry.declare(m.Declared("q", "n2", (), (), (other,))) == [b"t2"]
    assert asking.ask(m.ListGroups()) == (b"empty", b"g")
    assert asking.ask(m.ListMembers(b"g")) == [(b"ant", b"caps", 1.0, 2.0)]
    assert asking.acquire(b"t3", by="q", wait_s=9) == "waits"
    asking.registry.forget("p")
    assert asking.late == {b"t3": True}
    assert asking.ask(m.ListMembers(b"g")) == []


def test_a_process_that_declares_again_keeps_that_and_nothing_else() -> None:
    asking = Asking()
    asking.ask(m.Create(b"g", b"1"))
    asking.ask(m.Join(b"g", b"ant", b"2", b""))
    asking.acquire(b"t")
    asking.registry.declare(m.Declared("p", "n1", (b"g",), (), ()))
    assert asking.ask(m.ListMembers(b"g")) == []
    assert asking.acquire(b"u", by="q") is True


def test_whoever_is_put_out_or_broken_is_told() -> None:
    asking = Asking()
    asking.ask(m.Create(b"g", b"1"))
    asking.ask(m.Join(b"g", b"ant", b"2", b""))
    asking.acquire(b"t")
    asking.told.clear()
    asking.ask(m.Leave(b"g", b"ant"), by="q")
    assert asking.ask(m.Break(b"x"), by="q") is True
    assert asking.told == [("p", m.Dropped(b"g", b"ant")), ("p", m.Broken(b"t"))]
    assert asking.ask(m.Release(b"x", b"t")) is False


def test_a_coordinator_that_did_not_start_says_so() -> None:
    import tooz.coordination

    coordinator = tooz.coordination.get_coordinator("doyen:///x", b"ant")
    with pytest.raises(tooz.ToozError, match="call start"):
        coordinator.get_groups()
    wrong = tooz.coordination.get_coordinator("doyen:///x?elction=quorum", b"ant")
    with pytest.raises(tooz.coordination.ToozConnectionError, match="elction"):
        wrong.start()


# Whoever connects.


def frame(message: Any) -> bytes:
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(4, "big") + body


def test_requests_that_nobody_answers_yet_do_not_fill_the_registrys_memory() -> None:
    """They wait in the kernel, at the sender's cost."""

    async def main() -> int:
        server = Server(None, "g", strong=True, states=dict)
        port = await server.listen("127.0.0.1", 0)
        leading = asyncio.create_task(server.lead(lambda: True))  # It waits for 5 s before it answers anybody.
        await asyncio.sleep(0)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(bytes(16) + frame(m.Declared("eve", "n", (), (), ())))
        request, sent = frame(m.Asked(1, m.Create(bytes(50_000), b"a"))), 0
        try:
            async with asyncio.timeout(2):
                while sent < 2000:
                    writer.write(request)
                    await writer.drain()
                    sent += 1
        except TimeoutError:
            pass
        writer.transport.abort()
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        await server.close()
        return sent

    assert 256 <= asyncio.run(main()) < 1000


def test_a_process_that_reads_nothing_is_let_go() -> None:
    async def main() -> bool:
        gone = asyncio.Event()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            wire = Wire(reader, writer, None, "g")
            for _ in range(100):
                wire.send(m.Answered(1, "", bytes(1_000_000)))
            if writer.is_closing():
                gone.set()
            writer.transport.abort()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        async with asyncio.timeout(10):
            await gone.wait()
        writer.transport.abort()
        server.close()
        return gone.is_set()

    assert asyncio.run(main())


def test_a_name_that_a_process_chose_reaches_the_log_as_text(caplog: pytest.LogCaptureFixture) -> None:
    log.warning("%s is gone", "eve\x1b[2J\nant leads")
    assert caplog.messages == ["eve\\x1b[2J\\nant leads is gone"]
