"""A group of this process whose leader a real store decides: watched, so that two that act are counted."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count

import pytest

import doyen
from doyen.core.clock import ms, seconds
from doyen.election.engine.config import EngineConfig
from doyen_lab.relay import Relay
from doyen_lab.servers import Server

PATIENCE_S = 60.0
TIMERS = {"lease": "1s", "renew_interval": "300ms", "stand_time": "40ms"}
CONFIG = EngineConfig(lease=seconds(1), renew_interval=ms(300), stand_time=ms(40))
GROUPS = count()


class Group:
    """Three nodes of this process, watched at every turn of its loop."""

    def __init__(self, nodes: list[doyen.Node]) -> None:
        self.nodes, self.overlaps, self.reigns = nodes, 0, list[tuple[int, str]]()
        self.acting: list[str] = []  # As last watched: whoever is waited for has been counted.

    @property
    def leaders(self) -> list[str]:
        return [node.name for node in self.nodes if node.is_leader]

    def term_of(self, name: str) -> int:
        found = next(node.term for node in self.nodes if node.name == name)
        return 0 if found is None else found.number

    async def watch(self) -> None:
        while True:
            acting = self.leaders
            self.overlaps += len(acting) > 1
            if acting != self.acting:
                self.reigns += [(self.term_of(name), name) for name in acting]
                self.acting = acting
            await asyncio.sleep(0.002)

    async def until(self, what: str, holds: Callable[[list[str]], bool]) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not holds(self.acting):
                    await asyncio.sleep(0.005)
        except TimeoutError:
            pytest.fail(f"{what}, after {PATIENCE_S} s")


@asynccontextmanager
async def group(url: str, size: int = 3) -> AsyncIterator[Group]:
    name = f"g{next(GROUPS)}"
    async with AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(
                doyen.join(name, name=f"n{i}", preset="lan", election=doyen.Engine(url, **TIMERS))
            )
            for i in range(size)
        ]
        made = Group(nodes)
        watching = asyncio.create_task(made.watch())
        try:
            await made.until("nobody leads at first", bool)
            yield made
            assert not watching.done(), "it was watched to the end"
        finally:
            watching.cancel()
        assert made.overlaps == 0


def relayed(server: Server, relay: Relay) -> str:
    return server.url.replace(str(server.port), str(relay.port))
