"""Real etcd from Debian's package: three servers at their defaults, and `etcdctl elect` for every member.

Or servers alone, which elect among themselves (`EtcdServers`).

`etcdctl elect` campaigns with a session of 60 s, the client library's default (`defaultSessionTTL` in its
clientv3/concurrency/session.go); it has no flag for another.  It says its proposal when it has won, and ends when its
session is lost.
"""

import asyncio
import base64
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Self

from doyen.core.clock import Instant
from doyen.engines.etcd import Gateway, bits
from doyen.engines.url import parse
from doyen.errors import TransportError
from doyen_lab.contest.asked import Asked
from doyen_lab.contest.asking import Asker, need_commands
from doyen_lab.contest.entrant import Entrant
from doyen_lab.netns import Network

PACKAGES = {"etcd": "etcd-server", "etcdctl": "etcd-client"}
ELECTION = "contest"
CLIENT, PEER = 2379, 2380
SERVE_S = 30.0


def server_command(name: str, hosts: Mapping[str, str], data: Path) -> list[str]:
    """Return the command of one server among those at these addresses."""
    own = {server: f"http://{ipv4}" for server, ipv4 in hosts.items()}
    every = ",".join(f"{server}={url}:{PEER}" for server, url in own.items())
    return [
        "etcd",
        f"--name={name}",
        f"--data-dir={data}",
        f"--listen-client-urls={own[name]}:{CLIENT},http://127.0.0.1:{CLIENT}",
        f"--advertise-client-urls={own[name]}:{CLIENT}",
        f"--listen-peer-urls={own[name]}:{PEER}",
        f"--initial-advertise-peer-urls={own[name]}:{PEER}",
        f"--initial-cluster={every}",
    ]


def _server_of(entrant: Entrant, name: str, servers: Iterable[str]) -> list[str]:
    hosts = {server: entrant.hosts[server].ipv4 for server in servers}
    return server_command(name, hosts, entrant.folder / name / "data")


def gateway_here(timeout_s: float) -> Gateway:
    """Return the gateway of the server on this loopback."""
    return Gateway(parse(f"etcd://127.0.0.1:{CLIENT}"), timeout_s)


def asked(path: str, body: dict[str, Any], timeout_s: float = 2.0) -> Any | None:
    """Return what the server on this loopback answers, or None."""
    with closing(gateway_here(timeout_s)) as gateway:
        try:
            return gateway.ask(path, body)
        except TransportError:
            return None


class EtcdServers(Asked):
    """Servers at their defaults, without clients; each is asked whom it holds for leader."""

    def __init__(self, label: str, network: Network, folder: Path) -> None:
        need_commands("etcd", PACKAGES)
        super().__init__(label, network, folder, names=[f"etcd{i + 1}" for i in range(len(network.nodes))])
        self._names: dict[str, str] = {}  # By the id that a server goes by.

    def command(self, name: str) -> list[str]:
        return _server_of(self, name, self.names)

    @staticmethod
    def question() -> tuple[str, str] | None:
        """Return the id of the server on this loopback and that of its leader (0: none); None while it is silent."""
        found = asked("/v3/maintenance/status", {})
        return None if found is None else (found["header"]["member_id"], found.get("leader", "0"))

    def note(self, answers: Mapping[str, tuple[str, str] | None], at: Instant) -> None:
        self._names |= {answer[0]: name for name, answer in answers.items() if answer is not None}
        for name, answer in answers.items():
            self.ledger.say(name, None if answer is None else self._names.get(answer[1]), at)


class Etcd(Entrant):
    servers = ("server0", "server1", "server2")
    names_leader = False
    prefix = "e"

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._asker = Asker(4)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._asker.close()
        await super().__aexit__()

    async def start_servers(self) -> None:
        for name in self.servers:
            await self.start_process(name, _server_of(self, name, self.servers), is_heard=False)
        try:
            async with asyncio.timeout(SERVE_S):
                while await self._candidates() is None:
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise TransportError(f"etcd does not serve: {self.process_of(self.servers[0]).last_words()}") from None

    def command(self, name: str) -> list[str]:
        endpoints = ",".join(f"http://{self.hosts[server].ipv4}:{CLIENT}" for server in self.servers)
        return ["etcdctl", f"--endpoints={endpoints}", "elect", ELECTION, name]

    def hear(self, name: str, line: str, at: Instant) -> None:
        if line == name:
            self.ledger.say(name, name, at)

    async def is_candidate(self, name: str) -> bool:
        if not self.process_of(name).alive:
            self.ledger.say(name, None, 0)
            return False
        return name in (await self._candidates() or ())

    async def _candidates(self) -> set[str] | None:
        """Return the members that campaign, by the store; None while it does not serve."""
        return await self._asker.ask(self.hosts[self.servers[0]], _proposals)


def _proposals() -> set[str] | None:
    found = asked("/v3/kv/range", {"key": bits(f"{ELECTION}/"), "range_end": bits(f"{ELECTION}0")})
    return None if found is None else {base64.b64decode(entry["value"]).decode() for entry in found.get("kvs", ())}
