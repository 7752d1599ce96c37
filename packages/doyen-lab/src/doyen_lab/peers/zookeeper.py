"""A real ZooKeeper ensemble from Debian's package: own configuration and data directories, one server per namespace.

Servers are asked for their mode by the four-letter word `srvr` on their namespace's own loopback.  A server says
`leader` or `follower` once it serves requests under a leader, so that is when it counts as knowing it.
"""

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path

from doyen.core.clock import Instant
from doyen.errors import TransportError
from doyen.net.driver import boot_time_ns
from doyen_lab.netns import Namespace
from doyen_lab.peers.process import Asker, Peer, need_commands

PACKAGES = {"java": "default-jre-headless", "/usr/share/java/zookeeper.jar": "zookeeper"}
CLASSPATH = "/etc/zookeeper/conf_example:/usr/share/java/zookeeper.jar"  # As Debian's own script has it.
LOOK_EVERY_S = 0.05
CONFIG = """\
tickTime=2000
initLimit=5
syncLimit=2
dataDir={data}
clientPort=2181
clientPortAddress={address}
admin.enableServer=false
4lw.commands.whitelist=srvr
"""


class ZooKeeper:
    """An ensemble; use it as an async context manager, and nothing of it is left running."""

    def __init__(self, hosts: Sequence[Namespace], folder: Path, *, clients: bool = False) -> None:
        """`clients`: on other hosts; otherwise only this host's loopback is served."""
        need_commands("ZooKeeper", PACKAGES)
        self.servers = [Peer(f"zk{i + 1}", host, folder / f"zk{i + 1}") for i, host in enumerate(hosts)]
        self._asker = Asker(len(self.servers))
        lines = [f"server.{i + 1}={host.ipv4}:2888:3888" for i, host in enumerate(hosts)]
        for i, server in enumerate(self.servers):
            data = server.folder / "data"
            data.mkdir()
            (data / "myid").write_text(f"{i + 1}\n")
            settings = CONFIG.format(data=data, address="0.0.0.0" if clients else "127.0.0.1")
            (server.folder / "zoo.cfg").write_text(settings + "\n".join(lines) + "\n")

    async def __aenter__(self) -> "ZooKeeper":
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self.servers:
            await server.stop()
        self._asker.close()

    async def start(self) -> None:
        for server in self.servers:
            await self.start_one(server)

    async def start_one(self, server: Peer) -> None:
        await server.start(
            [
                "java",
                "-cp",
                CLASSPATH,
                f"-Dzookeeper.log.dir={server.folder}",
                "-Dzookeeper.root.logger=INFO,CONSOLE",
                "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                str(server.folder / "zoo.cfg"),
            ]
        )

    async def modes(self, servers: Sequence[Peer] | None = None) -> dict[str, str]:
        """What each says it is: leader, follower, or none while it serves nobody."""
        asked = [server for server in servers or self.servers if server.alive]
        found = await asyncio.gather(*(self._asker.ask(server.host, _mode) for server in asked))
        return {server.name: mode for server, mode in zip(asked, found, strict=True)}

    async def agreement(
        self, timeout_s: float, *, among: Sequence[Peer] | None = None, unlike: Peer | None = None
    ) -> tuple[Instant, Peer]:
        """Waits until all of them serve, one of them as leader; since when (to `LOOK_EVERY_S`), and who leads.

        `unlike`: a leader that is cut off goes on saying so for a while; it is not asked, and not the answer.
        """
        servers = [server for server in among or self.servers if server is not unlike]
        modes: dict[str, str] = {}
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    modes = await self.modes(servers)
                    leaders = [server for server in servers if modes.get(server.name) == "leader"]
                    if len(leaders) == 1 and all(mode in ("leader", "follower") for mode in modes.values()):
                        return boot_time_ns(), leaders[0]
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            dead = [server for server in servers if not server.alive]
            why = f"; {dead[0].name} has ended: {dead[0].last_words()}" if dead else ""
            raise TransportError(f"the ensemble did not agree within {timeout_s:g} s: {modes}{why}") from None


def _mode() -> str:
    try:
        with socket.create_connection(("127.0.0.1", 2181), 1) as connection:
            connection.sendall(b"srvr")
            answer = b""
            while part := connection.recv(4096):
                answer += part
    except OSError:
        return "none"
    return next((line[6:].decode() for line in answer.splitlines() if line.startswith(b"Mode: ")), "none")
