"""ZooKeeper and kazoo's Election: three servers from Debian's package, one program that campaigns per member."""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from doyen.core.clock import Instant
from doyen_lab.contest.group import Group
from doyen_lab.netns import Namespace
from doyen_lab.peers.process import Peer
from doyen_lab.peers.zookeeper import ZooKeeper

PROGRAM = Path(__file__).parent.parent / "peers" / "kazoo_member.py"
SERVE_S = 60.0


class Said(Struct, frozen=True):
    event: str
    clock: Instant


_SAID = msgspec.json.Decoder(Said)


class KazooElection(Group):
    server_count = 3
    names_leader = False
    prefix = "k"

    def make_servers(self, hosts: Sequence[Namespace]) -> list[Peer]:
        self._ensemble = ZooKeeper(hosts, self._folder, clients=True)
        self._candidates: set[str] = set()
        return self._ensemble.servers

    async def __aexit__(self, *_: object) -> None:
        await super().__aexit__()
        await self._ensemble.__aexit__()

    async def start_servers(self) -> None:
        await self._ensemble.start()
        await self._ensemble.agreement(SERVE_S)

    def command(self, name: str) -> list[str]:
        hosts = ",".join(f"{server.host.ipv4}:2181" for server in self.servers)
        return [sys.executable, "-P", str(PROGRAM), name, hosts]

    def hear(self, name: str, line: str, at: Instant) -> None:
        said = _SAID.decode(line)
        if said.event == "candidate":
            self._candidates.add(name)
        else:
            self.ledger.say(name, name if said.event == "acts" else None, said.clock)

    async def is_candidate(self, name: str) -> bool:
        return name in self._candidates

    async def kill(self, name: str) -> Instant:
        self._candidates.discard(name)
        return await super().kill(name)

    def cut(self, name: str) -> Instant:
        self._candidates.discard(name)  # It must campaign anew.
        return super().cut(name)
