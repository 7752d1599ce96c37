"""Nodes for tests of the network half: one announce-listen election each, on loopback, in this process or another."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from doyen.core.clock import Instant, ms, seconds
from doyen.core.codec import Codec
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.machine import Announce
from doyen.net.driver import Driver
from doyen.net.udp import UdpConfig, UdpTransport

# Nobody falls silent for half a minute: what is noticed sooner was not noticed by silence.
PATIENT = AnnounceConfig(announce_interval=ms(50), listen_timeout=seconds(30), suppress_interval=ms(20), group_size=3)


class Node:
    """A driver, its election, and every fact it told."""

    def __init__(
        self,
        name: str,
        *,
        standing: int = 0,
        group: str = "group",
        seeds: tuple[Address, ...] = (),
        config: AnnounceConfig = PATIENT,
        incarnation: int = 1,
        port: int = 0,
        **options: Any,
    ) -> None:
        self.facts: list[Any] = []
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self.driver = Driver(
            NodeId(name),
            Incarnation(incarnation),
            Codec(group),
            UdpTransport(UdpConfig(bind=Address("127.0.0.1", port))),
            peers=seeds,
            observer=self._observe,
            **options,
        )
        self.election: Announce = self.driver.add(
            "election", lambda port: Announce(NodeId(name), config, port, Random(name), standing=standing)
        )

    def _observe(self, channel: str, fact: Any, now: Instant) -> None:
        self.facts.append(fact)
        for holds, waiter in self._waiting:
            if holds() and not waiter.done():
                waiter.set_result(None)

    @property
    def address(self) -> Address:
        return self.driver.transport.address

    async def until(self, holds: Callable[[], bool], timeout_s: float = 10.0) -> None:
        """Looks after every fact; a few times a second besides."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append((holds, waiter))
        async with asyncio.timeout(timeout_s):
            while not holds() and not waiter.done():
                await asyncio.wait([waiter], timeout=0.02)


async def until(holds: Callable[[], bool], timeout_s: float = 10.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not holds():
            await asyncio.sleep(0.005)


async def leave(agent: Any) -> None:
    """In order, however an agent does it."""
    going = agent.leave()
    if going is not None:
        await going
