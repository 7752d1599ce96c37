"""Many real ring members on one machine: one process that forks them, watches how late timers are, and ends them all.

Each member is a process with a socket of its own and runs the machine that the simulator runs, under the same driver as
everything else.  What it tells goes to the nursery's standard output, a JSON line each, with instants of the clock that
all processes of a machine share.  A control process on each processor only naps, to wake at fixed instants: how far
behind them it is is the lateness of the machine.  Instants that it slept through count too, else one long stall would
be one nap of many.
"""

import asyncio
import gc
import os
import select
import signal
import sys
import time
from contextlib import suppress
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from doyen.core.clock import Duration, Instant, ms
from doyen.core.codec import Codec
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.election.by_key import ByKeyConfig, LeaderByKey
from doyen.membership.ring import Arbitration, ArbitrationConfig, founding
from doyen.membership.ring.geometry import Seat, seat
from doyen.membership.ring.messages import (
    Condemned,
    JoinedRing,
    LeaseRequest,
    LeftRing,
    RecoveryStarted,
    Suspected,
)
from doyen.net.driver import Driver, boot_time_ns
from doyen.net.udp import UdpConfig, UdpTransport

NAP: Duration = ms(5)
STAGGER_S = 0.01  # Between two forks.
START_IN: Duration = ms(500)  # After the last is ready.
GRACE: Duration = ms(1500)  # And then they begin to watch each other.
TELL_EVERY: Duration = ms(500)  # How often a control process tells how late it was.
REAP_EVERY_S = 0.02


class Brood(Struct, frozen=True, kw_only=True):
    """What the nursery is to start."""

    size: int
    port: int  # The first of as many.
    config: ArbitrationConfig
    seed: int = 1
    leader: bool = False
    joiners: int = 0  # So many more, which join when they are started by a line on standard input.


class RingTold(Struct, kw_only=True, omit_defaults=True):
    event: str  # started, suspected, condemned, recovered, left, joined, leads, lost, lateness, ended
    clock: Instant
    name: str = ""
    peer: str = ""
    pid: int = 0
    why: str = ""
    nap_p99: Duration = 0
    nap_worst: Duration = 0
    status: int = 0


def name_of(index: int) -> NodeId:
    return NodeId(f"n{index:03d}")


def seats(brood: Brood) -> list[Seat]:
    return [seat(name_of(i), address=f"127.0.0.1:{brood.port + i}") for i in range(brood.size + brood.joiners)]


def tell(told: RingTold) -> None:
    os.write(1, msgspec.json.encode(told) + b"\n")  # One write of a short line: lines of processes do not mix.


def _told(name: str, fact: Any, now: Instant) -> RingTold | None:
    match fact:
        case Suspected():
            return RingTold(event="suspected", clock=now, name=name, peer=fact.peer.node)
        case Condemned():
            return RingTold(event="condemned", clock=now, name=name, peer=fact.peer.node)
        case RecoveryStarted():
            return RingTold(event="recovered", clock=now, name=name, peer=fact.peer.node)
        case LeftRing():
            return RingTold(event="left", clock=now, name=name, why=f"{fact.why} {fact.detail}".strip())
        case JoinedRing():
            return RingTold(event="joined", clock=now, name=name)
        case LeaderElected() if fact.term.leader == name:
            return RingTold(event="leads", clock=now, name=name)
        case LeaderLost() if fact.term.leader == name:
            return RingTold(event="lost", clock=now, name=name)
    return None


async def live(brood: Brood, index: int, gate: "Gate | None") -> int:
    """Run one member until it is killed or leaves for good; return its exit code."""
    places = seats(brood)
    me, founders = places[index], places[: brood.size]
    over: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def observe(channel: str, fact: Any, now: Instant) -> None:
        told = _told(me.node, fact, now)
        if told is not None:
            tell(told)
        if isinstance(fact, LeftRing) and not brood.config.rejoin and not over.done():
            over.set_result(2 if fact.why == "refused" else 0)

    def fail(error: BaseException) -> None:
        tell(RingTold(event="left", clock=boot_time_ns(), name=me.node, why=f"failed: {error}"))
        if not over.done():
            over.set_result(3)

    transport = UdpTransport(UdpConfig(bind=Address("127.0.0.1", brood.port + index)))
    driver = Driver(me.node, Incarnation(1), Codec(f"ring-{brood.port}"), transport, observer=observe, on_failure=fail)
    rng = Random(f"{brood.seed}/{index}")
    is_founder = index < brood.size
    driver.add(
        "ring",
        lambda out: Arbitration(
            me,
            brood.config,
            out,
            rng,
            founding=founding(founders, brood.config.neighbours) if is_founder else None,
            contacts=[Address("127.0.0.1", brood.port + i) for i in range(brood.size) if i != index],
            grace=GRACE,
            view=False,
        ),
    )
    if brood.leader:
        driver.add("leader", lambda out: LeaderByKey(me.node, ByKeyConfig(lease=brood.config.lease), out))
    await _warm_up(brood)
    if gate is not None:
        await asyncio.sleep(max(0, gate.wait() - boot_time_ns()) / 1e9)
    await driver.start()
    tell(RingTold(event="started", clock=boot_time_ns(), name=me.node, pid=os.getpid()))
    status = await over
    await asyncio.sleep(4 * brood.config.lease / 1e9 if brood.config.announced else 0)  # To say that it has left.
    driver.close()
    return status


async def _warm_up(brood: Brood) -> None:
    """Take the first steps, which are slow in a forked process, before a lease runs."""
    heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    transport = UdpTransport(UdpConfig())
    await transport.open(lambda data, source: None if heard.done() else heard.set_result(None))
    codec = Codec("warm")
    codec.speak("ring", Arbitration.MESSAGES)
    data = codec.encode(NodeId("w"), Incarnation(1), "ring", LeaseRequest(1, 1, 1, 1))
    codec.decode(data)
    transport.send(data, transport.address)
    try:
        async with asyncio.timeout(1):
            await heard
    except TimeoutError:
        return
    finally:
        transport.close()


class Gate:
    """Lets founders begin together: each says that it is ready, and reads when to begin."""

    def __init__(self) -> None:
        self._ready, self._say_ready = os.pipe()
        self._go, self._say_go = os.pipe()

    def wait(self) -> Instant:
        os.write(self._say_ready, b".")
        return int.from_bytes(os.read(self._go, 8), "big")

    def open(self, count: int) -> None:
        ready = 0
        while ready < count:
            ready += len(os.read(self._ready, count - ready))
        os.write(self._say_go, (boot_time_ns() + START_IN).to_bytes(8, "big") * count)


def _fork(brood: Brood, index: int, gate: Gate | None) -> int:
    pid = os.fork()
    if pid == 0:
        status = 3
        try:
            os.close(0)
            status = asyncio.run(live(brood, index, gate))
        except BaseException as error:
            tell(RingTold(event="left", clock=boot_time_ns(), name=name_of(index), why=f"failed: {error!r}"))
        finally:
            os._exit(status)
    return pid


def _fork_control(processor: int) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            os.close(0)
            os.sched_setaffinity(0, {processor})
            _nap(os.getppid())
        finally:
            os._exit(0)
    return pid


def _nap(nursery: int) -> None:
    late: list[Duration] = []
    told_at = due = boot_time_ns()
    while os.getppid() == nursery:
        time.sleep(max(0, due - boot_time_ns()) / 1e9)
        now = boot_time_ns()
        while due <= now:
            late.append(now - due)
            due += NAP
        if late and now - told_at >= TELL_EVERY:
            late.sort()
            tell(RingTold(event="lateness", clock=now, nap_p99=late[int(0.99 * (len(late) - 1))], nap_worst=late[-1]))
            told_at, late = now, []


def main() -> None:
    brood = msgspec.json.decode(sys.argv[1], type=Brood)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # It ends when its input does.
    _come_first()
    gate = Gate()
    gc.freeze()  # What is there stays, and stays shared.
    gc.disable()
    children: dict[int, str] = {}
    for index in range(brood.size):
        children[_fork(brood, index, gate)] = name_of(index)
        time.sleep(STAGGER_S)
    gate.open(brood.size)
    for processor in sorted(os.sched_getaffinity(0)):
        children[_fork_control(processor)] = f"control {processor}"
    next_joiner = brood.size
    try:
        while True:
            asked, _, _ = select.select([0], [], [], REAP_EVERY_S)
            if asked:
                line = os.read(0, 4096)
                if not line:
                    return
                for _ in range(min(line.count(b"join"), brood.size + brood.joiners - next_joiner)):
                    children[_fork(brood, next_joiner, None)] = name_of(next_joiner)
                    next_joiner += 1
            _reap(children)
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        for pid in children:
            os.waitpid(pid, 0)


def _come_first() -> None:
    """Take priority over what else the machine does, for all members and the control alike, if that is permitted.

    Linux shares its processors between sessions first: by default, 64 processes of one session get as much as one
    process of another.
    """
    with suppress(OSError):
        os.nice(-10 - os.nice(0))
    with suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as group:
        group.write("-10")


def _reap(children: dict[int, str]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        name = children.pop(pid)
        tell(
            RingTold(event="ended", clock=boot_time_ns(), name=name, pid=pid, status=os.waitstatus_to_exitcode(status))
        )


if __name__ == "__main__":
    main()
