"""One system on a bridge of its own: members that lead in turn, and the servers that they need.

Every process has a namespace, an interface and counters of its own; servers come first, on hosts of their own, so that
a member's host can be cut off without taking a server with it.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import ClassVar

from doyen.core.clock import Instant
from doyen.errors import TransportError
from doyen.net.driver import boot_time_ns
from doyen_lab.contest.ledger import Ledger
from doyen_lab.netns import Namespace, Namespaces
from doyen_lab.peers.process import Peer

SETTLED_S = 2.0  # A group is settled once nothing has changed for so long.
NAMED_SHOWN = 3
AT_ONCE = 8  # Processes that are started before the next wait for the machine to breathe.


class Group(ABC):
    """Use it as an async context manager, and no process and no namespace is left."""

    server_count: ClassVar[int] = 0
    names_leader: ClassVar[bool] = True  # Whether members that do not lead say who does.
    prefix: ClassVar[str] = "m"

    def __init__(self, label: str, size: int, folder: Path) -> None:
        self.label, self.size, self.ledger = label, size, Ledger()
        self.network = Namespaces(self.server_count + size)
        self.names = [f"{self.prefix}{i:02}" for i in range(size)]
        self._folder = folder / f"{label}-{size}"
        self.servers: list[Peer] = []
        self.members: dict[str, Peer] = {}
        self.gone: set[str] = set()  # Killed or cut off.

    async def __aenter__(self) -> "Group":
        self.network.__enter__()
        nodes = self.network.nodes
        self.servers = self.make_servers(nodes[: self.server_count])
        self.members = {
            name: Peer(name, node, self._folder / name)
            for name, node in zip(self.names, nodes[self.server_count :], strict=True)
        }
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.stop()
        finally:
            self.network.__exit__(None, None, None)

    async def stop(self) -> None:
        await asyncio.gather(*(peer.stop() for peer in (*self.members.values(), *self.servers)))

    # What a system is.

    def make_servers(self, hosts: Sequence[Namespace]) -> list[Peer]:
        return [Peer(f"server{i}", host, self._folder / f"server{i}") for i, host in enumerate(hosts)]

    async def start_servers(self) -> None:
        """Starts them, and waits until they serve."""
        assert not self.servers, f"{self.label} does not say how its servers are started"

    @abstractmethod
    def command(self, name: str) -> list[str]:
        """Starts that member."""

    @abstractmethod
    def hear(self, name: str, line: str, at: Instant) -> None:
        """One line of that member's standard output: tells the ledger."""

    async def is_candidate(self, name: str) -> bool:
        """Whether it takes part, where that shows in no one's words about the leader."""
        return True

    # Life.

    async def form(self, timeout_s: float) -> float:
        """Starts all; how long from the first member's start until all take part under one leader."""
        await self.start_servers()
        began = boot_time_ns()
        for at, name in enumerate(self.names):
            await self.start_member(name)
            if at % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0.2)
        return (await self.settled(timeout_s, unchanged_s=1.0) - began) / 1e9

    async def start_member(self, name: str) -> None:
        peer = self.members[name]
        await peer.start(self.command(name), on_line=lambda line, at: self.hear(name, line, at))
        self.gone.discard(name)

    async def settled(self, timeout_s: float, unchanged_s: float = SETTLED_S) -> Instant:
        """Waits until all members take part under one leader, unchanged; since when."""
        try:
            async with asyncio.timeout(timeout_s):
                for name in self.names:
                    while not await self.is_candidate(name):
                        await self._revive(name)
                        await asyncio.sleep(0.02)
                candidates_at = boot_time_ns()
                _, since = await self.ledger.steady(lambda: self.leader(self.names), unchanged_s, timeout_s)
                return since if self.names_leader else max(since, candidates_at)
        except TimeoutError:
            dead = [peer for peer in (*self.members.values(), *self.servers) if not peer.alive]
            why = f"; {dead[0].name} has ended: {dead[0].last_words()}" if dead else ""
            raise TransportError(f"not settled within {timeout_s:g} s: {self.who_names_whom()}{why}") from None

    async def _revive(self, name: str) -> None:
        """Some members end when they lose what they held; a service manager would start them again."""
        if not self.members[name].alive:
            await self.start_member(name)

    def leader(self, among: Collection[str]) -> tuple[str, Instant] | None:
        """The sole one that acts; where members name it, all of them do."""
        return self.ledger.known(among) if self.names_leader else self.ledger.sole(among)

    def rest(self) -> list[str]:
        return [name for name in self.names if name not in self.gone]

    def who_names_whom(self) -> str:
        """The most named first."""
        named = Counter(self.ledger.named_by(name) or "nobody" for name in self.rest())
        few = [f"{count} name {leader}" for leader, count in named.most_common(NAMED_SHOWN)]
        more = f", and {len(named) - NAMED_SHOWN} others are named" if len(named) > NAMED_SHOWN else ""
        return ", ".join(few) + more

    # Faults.

    async def kill(self, name: str) -> Instant:
        self.gone.add(name)
        at = await self.members[name].kill()
        self.ledger.say(name, None, boot_time_ns())
        return at

    def cut(self, name: str) -> Instant:
        self.gone.add(name)
        at = boot_time_ns()
        self.network.cut(self._place(name))
        return at

    def mend(self, name: str) -> None:
        self.network.mend(self._place(name))
        self.gone.discard(name)

    def _place(self, name: str) -> int:
        return self.server_count + self.names.index(name)

    # Figures.

    def processes(self) -> list[tuple[str, int, Namespace]]:
        return [(peer.name, peer.pid, peer.host) for peer in (*self.servers, *self.members.values())]
