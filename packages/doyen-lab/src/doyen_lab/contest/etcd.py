"""Real etcd from Debian's package: three servers at their defaults, and `etcdctl elect` for every member.

`etcdctl elect` campaigns with a session of 60 s, the client library's default (`defaultSessionTTL` in its
clientv3/concurrency/session.go); it has no flag for another.  It says its proposal when it has won, and ends when its
session is lost.
"""

import asyncio
import base64
import http.client
import json
from typing import Self

from doyen.core.clock import Instant
from doyen.errors import TransportError
from doyen_lab.contest.asking import Asker
from doyen_lab.contest.entrant import Entrant

PACKAGES = {"etcd": "etcd-server", "etcdctl": "etcd-client"}
ELECTION = "contest"
CLIENT, PEER = 2379, 2380
SERVE_S = 30.0


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
        own = {name: f"http://{self.hosts[name].ipv4}" for name in self.servers}
        every = ",".join(f"{name}={url}:{PEER}" for name, url in own.items())
        for name, url in own.items():
            command = [
                "etcd",
                f"--name={name}",
                f"--data-dir={self.folder / name / 'data'}",
                f"--listen-client-urls={url}:{CLIENT},http://127.0.0.1:{CLIENT}",
                f"--advertise-client-urls={url}:{CLIENT}",
                f"--listen-peer-urls={url}:{PEER}",
                f"--initial-advertise-peer-urls={url}:{PEER}",
                f"--initial-cluster={every}",
            ]
            await self.start_process(name, command, is_heard=False)
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
    body = {"key": _text64(f"{ELECTION}/"), "range_end": _text64(f"{ELECTION}0")}
    try:
        connection = http.client.HTTPConnection("127.0.0.1", CLIENT, timeout=2)
        connection.request("POST", "/v3/kv/range", json.dumps(body))
        found = json.loads(connection.getresponse().read())
        connection.close()
    except (OSError, ValueError, http.client.HTTPException):
        return None
    if "header" not in found:
        return None
    return {base64.b64decode(entry["value"]).decode() for entry in found.get("kvs", ())}


def _text64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
