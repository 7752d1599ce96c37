"""Rules among processes that ask each other, without a store."""

import asyncio
import random
from typing import Any, ClassVar, Final

from msgspec import msgpack

from doyen_lab.museum.rules import Rule

PORT: Final = 7946


class Peer(Rule):
    """A process that sends datagrams to the others."""

    def __init__(self, name: str, names: list[str]) -> None:
        super().__init__(name, names)
        self.heard: asyncio.Queue[tuple[str, Any]]
        self._endpoint: asyncio.DatagramTransport

    async def listen(self) -> None:
        self.heard = asyncio.Queue()
        ear = _Ear(self.heard)
        loop = asyncio.get_running_loop()
        self._endpoint, _ = await loop.create_datagram_endpoint(lambda: ear, local_addr=("0.0.0.0", PORT))

    def send(self, to: str, message: Any) -> None:
        self._endpoint.sendto(msgpack.encode((self.name, message)), (to, PORT))

    def others(self) -> list[str]:
        return [name for name in self.names if name != self.name]

    async def hear(self, timeout_s: float) -> tuple[str, Any] | None:
        """Return the next message and its sender, or None once that time is over."""
        try:
            async with asyncio.timeout(max(timeout_s, 0.0)):
                return await self.heard.get()
        except TimeoutError:
            return None


class _Ear(asyncio.DatagramProtocol):
    def __init__(self, heard: asyncio.Queue[tuple[str, Any]]) -> None:
        self._heard = heard

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._heard.put_nowait(msgpack.decode(data, type=tuple[str, Any]))


class RaftWithoutALease(Peer):
    """Raft's election: terms, votes, heartbeats; a leader leads until it hears of a later term."""

    beat_s: ClassVar[float] = 0.05

    async def run(self) -> None:
        await self.listen()
        term, voted, votes = 0, "", set[str]()
        deadline = self._later()
        while True:
            got = await self.hear(deadline - asyncio.get_running_loop().time())
            if got is None:
                if self.leads:
                    for name in self.others():
                        self.send(name, ("beat", term))
                    deadline = asyncio.get_running_loop().time() + self.beat_s
                    continue
                term, voted, votes = term + 1, self.name, {self.name}
                for name in self.others():
                    self.send(name, ("vote?", term))
                deadline = self._later()
                continue
            sender, (what, theirs) = got
            if theirs > term:
                term, voted, votes, self.leads = theirs, "", set(), False
                deadline = self._later()
            match what:
                case "vote?" if theirs == term and voted in ("", sender):
                    voted, deadline = sender, self._later()
                    self.send(sender, ("vote", term))
                case "vote" if theirs == term and voted == self.name and not self.leads:
                    votes.add(sender)
                    if 2 * len(votes) > len(self.names):
                        self.leads, deadline = True, 0.0
                case "beat" if theirs == term:
                    deadline = self._later()
                case "beat" | "vote?" if theirs < term:
                    self.send(sender, ("later", term))  # As its refusal has the later term.

    def _later(self) -> float:
        return asyncio.get_running_loop().time() + random.uniform(0.15, 0.3)


class ForgetsTheDead(Peer):
    """Ping all members; forget one that is silent for 3 s and never ping it again; the last by name leads."""

    def __init__(self, name: str, names: list[str]) -> None:
        super().__init__(name, names)
        self._heard_at: dict[str, float] = {}

    async def run(self) -> None:
        await self.listen()
        now_s = asyncio.get_running_loop().time()
        self._heard_at = dict.fromkeys(self.others(), now_s + 2.0)  # Joined, as the operator said.
        next_s = now_s
        for name in self.others():
            self.send(name, "join")
        while True:
            got = await self.hear(next_s - asyncio.get_running_loop().time())
            now_s = asyncio.get_running_loop().time()
            if got is not None:
                sender, what = got
                if what == "join" or sender in self._heard_at:
                    self._heard_at[sender] = now_s
                if what == "ping":
                    self.send(sender, "ack")
            else:
                next_s = now_s + 1.0
                for name in self._heard_at:
                    self.send(name, "ping")
            self._heard_at = {name: at for name, at in self._heard_at.items() if now_s - at < 3.0}
            self.leads = all(self.name > name for name in self._heard_at)
