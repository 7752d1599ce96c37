"""Real serf agents from Debian's package, at their defaults for a LAN, one per namespace.

What an agent learns it writes to its log at once; the logs are followed from outside, so nothing is asked of it.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from doyen.core.clock import Instant
from doyen.errors import TransportError
from doyen.net.driver import boot_time_ns
from doyen_lab.netns import Namespace
from doyen_lab.peers.process import Peer, need_commands

PACKAGES = {"serf": "serf"}
LOOK_EVERY_S = 0.02


class Serf:
    """A group of agents; use it as an async context manager, and nothing of it is left running."""

    def __init__(self, hosts: Sequence[Namespace], folder: Path) -> None:
        need_commands("serf", PACKAGES)
        self.agents = [Peer(f"s{i:02}", host, folder / f"s{i:02}") for i, host in enumerate(hosts)]

    async def __aenter__(self) -> "Serf":
        return self

    async def __aexit__(self, *_: object) -> None:
        for agent in self.agents:
            await agent.stop()

    async def start(self) -> None:
        for agent in self.agents:
            await self.start_one(agent)

    async def start_one(self, agent: Peer) -> None:
        seeds = [f"-retry-join={other.host.ipv4}" for other in (self.agents[0], self.agents[-1]) if other is not agent]
        await agent.start(
            [
                "serf",
                "agent",
                f"-node={agent.name}",
                f"-bind={agent.host.ipv4}:7946",
                "-rpc-addr=127.0.0.1:7373",
                "-retry-interval=1s",
                *seeds,
            ]
        )

    async def joined(self, timeout_s: float) -> None:
        """Waits until every agent has heard of every other."""
        await self._all_say(
            "EventMemberJoin: ", {agent.name for agent in self.agents}, timeout_s, dict.fromkeys(self.agents, 0)
        )

    def marks(self) -> dict[Peer, int]:
        """Where the logs end now; what is said later comes after."""
        return {agent: agent.log.stat().st_size for agent in self.agents}

    async def failed(self, name: str, timeout_s: float, marks: dict[Peer, int]) -> tuple[Instant, Instant]:
        """When the first, and when the last of the others said that it failed (to `LOOK_EVERY_S`)."""
        others = {agent: mark for agent, mark in marks.items() if agent.name != name}
        return await self._all_say("EventMemberFailed: ", {name}, timeout_s, others)

    async def back(self, name: str, timeout_s: float, marks: dict[Peer, int]) -> None:
        others = {agent: mark for agent, mark in marks.items() if agent.name != name}
        await self._all_say("EventMemberJoin: ", {name}, timeout_s, others)

    async def _all_say(
        self, what: str, names: set[str], timeout_s: float, marks: dict[Peer, int]
    ) -> tuple[Instant, Instant]:
        first: Instant | None = None
        waiting = dict(marks)
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    for agent, mark in list(waiting.items()):
                        said = _words(agent.log, mark, what)
                        if said:
                            first = first or boot_time_ns()
                        if names <= said | ({agent.name} if what.startswith("EventMemberJoin") else set()):
                            del waiting[agent]
                    if not waiting:
                        assert first is not None
                        return first, boot_time_ns()
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            silent = ", ".join(agent.name for agent in waiting)
            raise TransportError(f"not within {timeout_s:g} s: {what}{', '.join(sorted(names))} by {silent}") from None


def _words(log: Path, mark: int, what: str) -> set[str]:
    """The names that follow these words."""
    with log.open(errors="replace") as lines:
        lines.seek(mark)
        return {line.partition(what)[2].split()[0] for line in lines if what in line}
