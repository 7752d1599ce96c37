"""One voter of a POLE group on real sockets, and an application that acts while it leads.

Run by `doyen_lab.pole_group` as `python -m doyen_lab.pole_node PLAN`, PLAN being JSON.  Every few milliseconds it asks
its machine whether it may act at this very instant; if so it does, by telling the witness its name, its epoch and the
instant, on the clock that all processes of a machine share.  Facts are lines of JSON on standard output.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from doyen.core.clock import Duration, Instant, ms
from doyen.core.codec import Codec
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.election.pole import NotVoting, Pole, PoleConfig, Promise
from doyen.election.pole.messages import Standing
from doyen.net.driver import Driver
from doyen.net.storage import Storage
from doyen.net.udp import UdpConfig, UdpTransport
from doyen.score.oracles import MEASURED, ORACLES, quantised
from doyen.score.pingpong import PingPong, PingPongConfig
from doyen.score.vectors import Scorer, Vectors

ELECTION, PINGS = "election", "oracle"
QUANTUM_MS = 1.0  # Of scores on real networks: differences below it are noise.


class Plan(Struct, frozen=True, kw_only=True):
    """What one process is to be."""

    group: str
    name: NodeId
    bind: Address
    peers: tuple[Address, ...]
    voters: tuple[NodeId, ...]
    pole: PoleConfig
    state: str  # A directory of its own, which outlives it.
    newcomer: bool  # Nobody of this name ever voted.
    witness: str  # The path of its socket.
    oracle: str = "history"
    first: str = ""  # Whom all prefer until there was a leader; empty: the oracle decides from the start.
    epoch_before: int = 0  # A newcomer's first election is the next one: whose turn it is depends on it.
    rate: float = 0.0
    centres: dict[NodeId, str] | None = None  # Data centres: a dead leader's clients stay in theirs.
    heritage: dict[NodeId, float] = {}  # Requests per second that come over from each, should it die.
    pings: PingPongConfig = PingPongConfig()
    act_every: Duration = ms(5)


class PoleTold(Struct, frozen=True, omit_defaults=True):
    """One line."""

    event: str  # started, elected, lost, not voting
    name: str
    clock: Instant
    leader: str | None = None
    term: int = 0
    reason: str = ""
    rtt: dict[str, float] = {}


class PoleNode:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.led_before = False
        self.gained = 0.0  # From clients of the leader that died; where rates are told, the oracle reckons it itself.
        self.acts = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.acts.setblocking(False)
        self.driver = driver = Driver(
            plan.name,
            Incarnation(time.time_ns()),
            Codec(plan.group),
            UdpTransport(UdpConfig(bind=plan.bind)),
            peers=plan.peers,
            storage=Storage(Path(plan.state)),
            observer=self._on_fact,
        )
        self.vectors: Vectors | None = None
        if plan.oracle in MEASURED:
            pings: PingPong = driver.add(
                PINGS,
                lambda port: PingPong(
                    plan.name, plan.pings, port, Random(), voters=plan.voters, rate=lambda: plan.rate
                ),
            )
            self.vectors = pings.vectors
        self.scorer = Scorer(
            quantised(ORACLES[plan.oracle], QUANTUM_MS),
            plan.name,
            plan.voters,
            vectors=self.vectors,
            rate=lambda: plan.rate + self.gained,
            places=plan.centres,
        )
        restored = driver.restored(ELECTION, Pole.RECORD)
        if restored is None and plan.newcomer and plan.epoch_before:
            restored = Promise(plan.epoch_before)
        self.machine: Pole = driver.add(
            ELECTION,
            lambda port: Pole(
                plan.name,
                plan.pole,
                port,
                Random(),
                voters=plan.voters,
                score=self._score,
                restored=restored,
                newcomer=plan.newcomer,
            ),
        )

    def _score(self, epoch: int, gone: NodeId | None) -> Standing | None:
        if self.plan.first and not self.led_before:
            return (float(self.plan.name == self.plan.first),)
        self.gained = self.plan.heritage.get(gone, 0.0) if gone is not None and self.vectors is None else 0.0
        return self.scorer(epoch, gone)

    async def run(self) -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, done.set)
        await self.driver.start()
        self.tell("started")
        while not done.is_set() and self.driver.failure is None:
            self._act()
            try:
                async with asyncio.timeout(self.plan.act_every / 1e9):
                    await done.wait()
            except TimeoutError:
                continue
        self.driver.close()

    def _act(self) -> None:
        """What only a leader may do."""
        now = self.driver.clock()
        if self.machine.leads(now) and self.machine.term is not None:
            try:
                self.acts.sendto(
                    msgspec.msgpack.encode((self.plan.name, self.machine.term.number, now)), self.plan.witness
                )
            except OSError as error:
                logging.warning("the witness does not listen: %s", error)

    def _on_fact(self, channel: str, fact: Any, now: Instant) -> None:
        match fact:
            case LeaderElected(term):
                self.led_before = True
                self.tell("elected", leader=term.leader, term=term.number, rtt=self.vectors.rtt if self.vectors else {})
            case LeaderLost(term, reason):
                self.tell("lost", leader=term.leader, term=term.number, reason=reason)
            case NotVoting():
                self.tell("not voting")

    def tell(self, event: str, **fields: Any) -> None:
        line = msgspec.json.encode(PoleTold(event, self.plan.name, self.driver.clock(), **fields)) + b"\n"
        os.write(sys.stdout.fileno(), line)


def main() -> None:
    logging.getLogger("doyen").setLevel(logging.ERROR)  # That packets are not authenticated is as wanted here.
    node = PoleNode(msgspec.json.decode(sys.argv[1].encode(), type=Plan))
    asyncio.run(node.run())
    sys.exit(0 if node.driver.failure is None else 1)


if __name__ == "__main__":
    main()
