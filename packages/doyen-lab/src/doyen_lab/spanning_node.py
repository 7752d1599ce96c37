"""One process of a spanning election on real sockets: the machine, its hello, a driver, and what it tells.

Run by `doyen_lab.spanning_mesh` as `python -m doyen_lab.spanning_node PLAN`, PLAN being JSON.  SIGUSR1: initiate.
SIGUSR2: tell how things are.  SIGTERM: end.  Every fact is a line of JSON on standard output.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from doyen.core.clock import Instant
from doyen.core.codec import Codec
from doyen.core.commands import Initiate
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.link import LinkChanged
from doyen.election.spanning.config import SpanningConfig
from doyen.election.spanning.machine import Spanning
from doyen.net.driver import Driver
from doyen.net.storage import Storage
from doyen.net.udp import UdpConfig, UdpTransport
from doyen_lab.hello import Hello, HelloConfig
from doyen_papers.studies.spanning_counts import NAMES

ELECTION, LINKS = "election", "links"


class SpanningPlan(Struct, frozen=True, kw_only=True):
    """The arguments of one process."""

    group: str
    name: NodeId
    bind: Address
    neighbours: dict[NodeId, Address]
    quality: float
    spanning: SpanningConfig
    hello: HelloConfig
    state: str  # A directory of its own: the highest sequence seen survives its death.


class MeshTold(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line that a process writes."""

    event: str  # started, elected, lost, link, status
    clock: Instant
    leader: str = ""
    up: tuple[str, ...] = ()  # Neighbours to which there is a link.
    kinds: dict[str, int] = {}  # Messages of the election sent so far, by name.


class CountingCodec(Codec):
    """Counts the messages of the election as they are encoded, by kind."""

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.kinds: Counter[str] = Counter()

    def encode(
        self, sender: NodeId, incarnation: Incarnation, channel: str, message: Any, digest: int | None = None
    ) -> bytes:
        if channel == ELECTION:
            self.kinds[NAMES[type(message)]] += 1
        return super().encode(sender, incarnation, channel, message, digest)


class MeshNode:
    def __init__(self, plan: SpanningPlan) -> None:
        self.plan, self.codec = plan, CountingCodec(plan.group)
        life = Incarnation(time.time_ns())
        self.driver = driver = Driver(
            plan.name,
            life,
            self.codec,
            UdpTransport(UdpConfig(bind=plan.bind)),
            storage=Storage(Path(plan.state)),
            observer=self._on_fact,
        )
        self.hello: Hello = driver.add(
            LINKS, lambda port: Hello(plan.name, plan.hello, port, neighbours=plan.neighbours, incarnation=life)
        )
        driver.add(
            ELECTION,
            lambda port: Spanning(
                plan.name,
                plan.spanning,
                port,
                standing=plan.quality,
                incarnation=life,
                returning=True,
                restored=driver.restored(ELECTION, Spanning.RECORD) or 0,
            ),
        )

    async def run(self) -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        await self.driver.start()
        loop.add_signal_handler(signal.SIGTERM, done.set)
        loop.add_signal_handler(signal.SIGINT, done.set)
        loop.add_signal_handler(signal.SIGUSR1, lambda: self.driver.tell(Initiate(), channel=ELECTION))
        loop.add_signal_handler(signal.SIGUSR2, self.tell, "status")
        self.tell("started")
        await done.wait()
        self.driver.close()

    def _on_fact(self, channel: str, fact: Any, now: Instant) -> None:
        match fact:
            case LeaderElected(term):
                self.tell("elected", term.leader)
            case LeaderLost(term):
                self.tell("lost", term.leader)
            case LinkChanged():
                self.tell("link")

    def tell(self, event: str, leader: str = "") -> None:
        up, kinds = tuple(self.hello.up), dict(self.codec.kinds)
        told = MeshTold(event=event, clock=self.driver.clock(), leader=leader, up=up, kinds=kinds)
        os.write(1, msgspec.json.encode(told) + b"\n")


if __name__ == "__main__":
    logging.getLogger("doyen").setLevel(logging.ERROR)  # Nobody reaches these namespaces: no key is needed.
    asyncio.run(MeshNode(msgspec.json.decode(sys.argv[1], type=SpanningPlan)).run())
