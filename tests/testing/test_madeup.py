"""Programs in made-up time: real nodes, tasks and streams, under the simulator's faults."""

import asyncio
import datetime
import multiprocessing
import queue
import random
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from time import monotonic as imported_by_name
from typing import Any

import pytest

import doyen
from doyen.errors import LocalProtocolError
from doyen.testing import Cluster, EscapedMadeUpTime


def now_s() -> float:
    return asyncio.get_running_loop().time()


class Ledger:
    """What the programs of one run did."""

    def __init__(self) -> None:
        self.lines: list[tuple[float, str, str]] = []

    def add(self, node: doyen.Node, what: str) -> None:
        self.lines.append((round(now_s(), 6), node.name, what))

    async def leads(self, node: doyen.Node) -> None:
        async for term in node.terms():
            async with term:
                try:
                    while True:
                        self.add(node, f"works in term {term.number}")
                        await asyncio.sleep(0.25)
                finally:
                    self.add(node, "stops")


def test_a_node_is_a_real_one_and_its_body_is_cancelled_when_leadership_is_lost() -> None:
    ledger = Ledger()
    with Cluster(3, seed=1, program=ledger.leads) as cluster:
        first = cluster.run_until_leader()
        node = cluster.node(first)
        assert type(node) is doyen.Node and node.is_leader and node.name == first
        cluster.run_for("1s")
        cluster.partition({first}, rest=True)
        second = cluster.run_until_leader(other_than=first)
        assert not node.is_leader and cluster.node(second).is_leader
        stopped = [at for at, name, what in ledger.lines if (name, what) == (first, "stops")]
        began = [at for at, name, what in ledger.lines if name == second]
        assert len(stopped) == 1 and stopped[0] < began[0]
        assert cluster.acting_leaders_at_once() == 1
        assert all(other.leader is not None for other in map(cluster.node, cluster.names) if other.name != first)


def test_awaiting_a_call_of_the_api_moves_the_time() -> None:
    with Cluster(3, seed=2) as cluster:
        node = cluster.node("n0")
        cluster.run("n0", asyncio.sleep(0))  # It has joined once it can do anything.
        leader = cluster.run("n0", node.wait_for_leader("10s"))
        assert leader.name == cluster.run_until_leader()
        cluster.run(leader.name, cluster.node(leader.name).resign())
        assert cluster.run_until_leader(other_than=leader.name) != leader.name
        loser = next(name for name in cluster.names if not cluster.is_leader(name))
        with pytest.raises(TimeoutError, match=r"not elected within 0\.1 s"):
            cluster.run(loser, cluster.node(loser).lead("100ms").win())


def test_a_crashed_process_runs_no_finally_and_a_restarted_one_runs_its_program_again() -> None:
    ledger = Ledger()
    with Cluster(3, seed=3, program=ledger.leads) as cluster:
        first = cluster.run_until_leader()
        cluster.run_for("1s")
        cluster.crash(first)
        cluster.run_for("3s")
        assert not [line for line in ledger.lines if line[1:] == (first, "stops")]
        cluster.restart(first)
        cluster.run_for("1s")
        cluster.run(first, cluster.node(first).wait_for_leader())
        assert cluster.node(first).leader is not None
        cluster.crash(first)
        sleep = asyncio.sleep(1)
        with pytest.raises(LocalProtocolError, match="does not run"):
            cluster.run(first, sleep)
        sleep.close()


def test_a_paused_process_wakes_up_powerless_and_its_timers_are_late() -> None:
    ledger = Ledger()
    with Cluster(3, seed=4, program=ledger.leads) as cluster:
        first = cluster.run_until_leader()
        cluster.pause(first)
        paused_s = cluster.now_s
        cluster.run_for("5s")
        assert not [line for line in ledger.lines if line[1] == first and line[0] > paused_s]
        cluster.resume(first)
        cluster.run_for("1s")
        after = [what for at, name, what in ledger.lines if name == first and at > paused_s]
        assert after[-1] == "stops" and cluster.acting_leaders_at_once() == 1


# Streams.


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(line.upper())
        await writer.drain()
    writer.close()


async def serves(node: doyen.Node) -> None:
    async with await asyncio.start_server(echo, "0.0.0.0", 9000) as server:
        await server.serve_forever()


def talking() -> Cluster:
    cluster = Cluster(["a", "b"], seed=5, delay="10ms")
    cluster.spawn("b", serves)
    cluster.run_for("1s")
    return cluster


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: str) -> tuple[str, float]:
    began_s = now_s()
    writer.write(text.encode())
    return (await reader.readline()).decode(), round(now_s() - began_s, 6)


def test_a_stream_takes_a_round_trip_waits_for_a_partition_to_heal_and_keeps_the_order() -> None:
    with talking() as cluster:
        reader, writer = cluster.run("a", asyncio.open_connection("b", 9000))
        assert cluster.run("a", ask(reader, writer, "hello\n")) == ("HELLO\n", 0.02)
        heard: list[tuple[bytes, float]] = []

        async def two(node: doyen.Node) -> None:
            writer.write(b"one\n")
            await asyncio.sleep(0.1)
            writer.write(b"two\n")
            heard.extend([(await reader.readline(), now_s()), (await reader.readline(), now_s())])

        cluster.partition({"a"}, {"b"})
        cluster.spawn("a", two)
        cluster.run_for("3s")
        assert heard == []
        cluster.heal()
        healed_s = cluster.now_s
        cluster.run_for("5s")
        assert [line for line, _ in heard] == [b"ONE\n", b"TWO\n"]
        assert all(healed_s < at < healed_s + 3.3 for _, at in heard)  # At the next retransmission.
        writer.close()


def test_nobody_listens_no_such_node_a_killed_one_and_one_that_lost_power() -> None:
    with talking() as cluster:
        with pytest.raises(ConnectionRefusedError):
            cluster.run("a", asyncio.open_connection("b", 9001))
        with pytest.raises(socket.gaierror, match="no node is called 'c'"):
            cluster.run("a", asyncio.open_connection("c", 9000))
        reader, writer = cluster.run("a", asyncio.open_connection("b", 9000))
        cluster.kill("b")  # Its kernel says so.
        with pytest.raises(ConnectionResetError):
            cluster.run("a", reader.readline(), within="1s")
        cluster.restart("b")
        cluster.run_for("1s")
        reader, writer = cluster.run("a", asyncio.open_connection("b", 9000))
        cluster.crash("b")  # Nobody says anything.
        with pytest.raises(TimeoutError):
            cluster.run("a", asyncio.wait_for(reader.readline(), 30))
        cluster.restart("b")
        writer.write(b"still there?\n")
        with pytest.raises(ConnectionResetError):
            cluster.run("a", reader.readline(), within="120s")


def test_a_slow_reader_holds_its_writer_back() -> None:
    with talking() as cluster:

        async def stuffs() -> float:
            _, writer = await asyncio.open_connection("b", 9000)
            for _ in range(64):
                writer.write(b"x" * 8192)
                await writer.drain()
            writer.close()
            return now_s()

        began_s = cluster.now_s
        assert cluster.run("a", stuffs()) > began_s + 0.05


# Same seed, same run.

CHATTER = """
import asyncio, random, sys, uuid
from doyen.testing import Cluster
said = []
async def service(node):
    async def stops(number):
        try:
            await asyncio.sleep(100)
        finally:
            said.append((node.name, number))
    async for term in node.terms():
        async with term:
            said.append((node.name, term.number, str(uuid.uuid4()), random.random(), asyncio.get_running_loop().time()))
            async with asyncio.TaskGroup() as group:
                for number in range(9):
                    group.create_task(stops(number))
with Cluster(4, seed=int(sys.argv[1]), program=service, loss=0.2, jitter="3ms", lateness="2ms", election="gossip") as c:
    first = c.run_until_leader()
    c.partition({first}, rest=True)
    c.run_for("4s")
    c.heal()
    c.run_for("4s")
    print(said, c.sim.event_count, c.sim.trace.digest())
"""


def test_the_same_seed_gives_the_same_run_whatever_the_hash_seed_and_another_seed_another() -> None:
    def run(seed: int, hash_seed: int) -> str:
        command = [sys.executable, "-c", CHATTER, str(seed)]
        return subprocess.run(command, env={"PYTHONHASHSEED": str(hash_seed)}, capture_output=True, text=True).stdout

    first = run(1, 1)
    assert len(first) > 300 and run(1, 2) == first
    assert run(2, 1) != first


# What would leave made-up time.


async def sleeps() -> None:
    time.sleep(0.1)


async def reads_the_wall_clock() -> None:
    time.time()


async def reads_a_clock_that_was_imported_by_name() -> None:
    imported_by_name()


async def reads_the_date() -> None:
    datetime.datetime.now()


async def starts_a_thread() -> None:
    threading.Thread(target=print).start()


async def uses_an_executor() -> None:
    await asyncio.to_thread(print)


async def opens_a_socket() -> None:
    socket.socket()


async def starts_a_process() -> None:
    subprocess.run(["true"])


async def starts_a_process_by_the_loop() -> None:
    await asyncio.create_subprocess_exec("true")


async def asks_a_name_server() -> None:
    socket.getaddrinfo("localhost", 80)


async def asks_a_name_server_for_a_name() -> None:
    socket.gethostbyaddr("127.0.0.1")


async def reads_the_date_as_text() -> None:
    time.asctime()


async def waits_for_another_thread() -> None:
    threading.Event().wait(0.1)


async def waits_for_what_no_thread_puts_there() -> None:
    queue.Queue[int]().get(timeout=0.1)  # Made-up time stands still meanwhile: it would wait for ever.


async def sleeps_by_select() -> None:
    select.select([], [], [], 0.1)


async def sets_a_real_timer() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)


async def starts_a_process_by_multiprocessing() -> None:
    multiprocessing.get_context("spawn").Process(target=print).start()


@pytest.mark.parametrize(
    "escapes",
    [
        sleeps,
        reads_the_wall_clock,
        reads_a_clock_that_was_imported_by_name,
        reads_the_date,
        starts_a_thread,
        uses_an_executor,
        opens_a_socket,
        starts_a_process,
        starts_a_process_by_the_loop,
        asks_a_name_server,
        asks_a_name_server_for_a_name,
        reads_the_date_as_text,
        waits_for_another_thread,
        waits_for_what_no_thread_puts_there,
        sleeps_by_select,
        sets_a_real_timer,
        starts_a_process_by_multiprocessing,
    ],
)
def test_what_leaves_made_up_time_is_refused_with_its_line(escapes: Callable[[], Coroutine[Any, Any, None]]) -> None:
    line = escapes.__code__.co_firstlineno + 1  # type: ignore[attr-defined]

    async def swallows(node: doyen.Node) -> None:
        with suppress(Exception):
            await escapes()

    with Cluster(1, program=swallows) as cluster, pytest.raises(EscapedMadeUpTime) as caught:
        cluster.run_for("1s")  # Also where the program catches it.
    assert f"{Path(__file__)}:{line} in {escapes.__name__}: " in str(caught.value)
    before = time.time()  # A test's own clocks are real.
    assert datetime.datetime.now().timestamp() >= before - 1e-3 > 1_700_000_000  # It has whole microseconds.
    assert time.monotonic() >= 0 and imported_by_name is time.monotonic


def test_other_threads_stay_in_real_time() -> None:
    read: list[float] = []
    over = threading.Event()

    def looks() -> None:
        while not over.wait(0.001):
            read.append(time.time())

    other = threading.Thread(target=looks)
    with Cluster(3, seed=1) as cluster:
        cluster.node("n0")
        other.start()
        give_up_at = time.monotonic() + 30
        while len(read) < 3 and time.monotonic() < give_up_at:  # A busy machine may run it late.
            cluster.run_for("5s")
    over.set()
    other.join()
    assert len(read) > 2
    assert max(read) - min(read) < 600 and abs(read[-1] - time.time()) < 600


def test_clocks_may_be_made_up_instead() -> None:
    async def reads(node: doyen.Node) -> tuple[float, float, datetime.datetime, bool]:
        wall_s, mono_s = time.time(), time.monotonic()
        await asyncio.sleep(90)
        shown = datetime.datetime.now(datetime.UTC)
        return time.time() - wall_s, time.monotonic() - mono_s, shown, isinstance(shown, datetime.datetime)

    with Cluster(1, wall_clock="made-up") as cluster:
        wall, mono, shown, same = cluster.run("n0", reads(cluster.node("n0")), within="2min")
    assert (wall, mono) == (pytest.approx(90, abs=1e-3), pytest.approx(90, abs=1e-3))
    assert (shown.year, shown.minute) == (2026, 1) and same


def test_chance_is_the_seeds_and_the_tests_own_stays_as_it_was() -> None:
    async def draws(node: doyen.Node) -> tuple[float, str]:
        return random.random(), str(uuid.uuid4())

    def drawn(seed: int) -> tuple[float, str]:
        with Cluster(1, seed=seed) as cluster:
            return cluster.run("n0", draws(cluster.node("n0")))

    random.seed(4)
    ours = random.Random(4)
    assert drawn(1) == drawn(1) != drawn(2)
    assert random.random() == ours.random()


def test_a_program_that_fails_stops_the_run_and_one_that_spins_is_named() -> None:
    async def fails(node: doyen.Node) -> None:
        await asyncio.sleep(1)
        raise KeyError("invoice")

    with Cluster(2, program=fails) as cluster, pytest.raises(KeyError, match="invoice") as caught:
        cluster.run_for("5s")
    assert re.match(r"in made-up process n[01] at 1\.", caught.value.__notes__[0])

    async def spins(node: doyen.Node) -> None:
        while True:
            await asyncio.sleep(0)

    with Cluster(1, program=spins) as cluster, pytest.raises(AssertionError, match=r"n0 runs forever.*spins"):
        cluster.run_for("1s")


def test_programs_are_asked_for_before_time_passes() -> None:
    cluster = Cluster(2)
    cluster.run_for("1s")
    with pytest.raises(LocalProtocolError, match="time has passed"):
        cluster.node("n0")
    with pytest.raises(LocalProtocolError, match="there is no node 'x'"):
        Cluster(2).node("x")


def test_a_socket_may_be_closed_after_its_world_has_ended() -> None:
    """A coroutine that waited then is unwound whenever Python collects it, and closes what it had opened."""
    kept: list[asyncio.DatagramTransport] = []

    async def opens(node: doyen.Node) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, local_addr=("0.0.0.0", 0))
        kept.append(transport)
        await asyncio.sleep(3600)

    with Cluster(2, seed=1, program=opens) as cluster:
        cluster.run_for(1)
    assert kept
    for transport in kept:
        transport.close()
        assert transport.is_closing()
