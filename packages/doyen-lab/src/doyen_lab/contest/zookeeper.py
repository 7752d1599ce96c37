"""Real ZooKeeper servers from Debian's package: alone, or with programs that campaign by kazoo's Election.

Servers have own configuration and data directories, one per namespace.  They are asked for their mode by the
four-letter word `srvr` on their namespace's own loopback.  A server says `leader` or `follower` once it serves requests
under a leader, so that is when it counts as knowing it.
"""

import asyncio
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from doyen.core.clock import Instant
from doyen.errors import TransportError
from doyen_lab.contest.asked import LOOK_EVERY_S, Asked
from doyen_lab.contest.asking import Asker, need_commands
from doyen_lab.contest.entrant import Entrant
from doyen_lab.netns import Namespace, Network

PACKAGES = {"java": "default-jre-headless", "/usr/share/java/zookeeper.jar": "zookeeper"}
CLASSPATH = "/etc/zookeeper/conf_example:/usr/share/java/zookeeper.jar"  # As Debian's own script has it.
SERVE_S = 60.0
PROGRAM = Path(__file__).with_name("kazoo_member.py")
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


def configure(hosts: Sequence[Namespace], folders: Sequence[Path], *, clients: bool) -> None:
    """Write what each server reads; `clients` says whether clients on other hosts are served."""
    lines = [f"server.{i + 1}={host.ipv4}:2888:3888" for i, host in enumerate(hosts)]
    for i, folder in enumerate(folders):
        data = folder / "data"
        data.mkdir(parents=True)
        (data / "myid").write_text(f"{i + 1}\n")
        settings = CONFIG.format(data=data, address="0.0.0.0" if clients else "127.0.0.1")
        (folder / "zoo.cfg").write_text(settings + "\n".join(lines) + "\n")


def server_command(folder: Path) -> list[str]:
    return [
        "java",
        "-cp",
        CLASSPATH,
        f"-Dzookeeper.log.dir={folder}",
        "-Dzookeeper.root.logger=INFO,CONSOLE",
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        str(folder / "zoo.cfg"),
    ]


class Ensemble(Asked):
    """Servers without clients."""

    def __init__(self, label: str, network: Network, folder: Path) -> None:
        need_commands("ZooKeeper", PACKAGES)
        super().__init__(label, network, folder, names=[f"zk{i + 1}" for i in range(len(network.nodes))])
        configure(network.nodes, [self.folder / name for name in self.names], clients=False)

    def command(self, name: str) -> list[str]:
        return server_command(self.folder / name)

    @staticmethod
    def question() -> str:
        return mode()

    def note(self, answers: Mapping[str, str], at: Instant) -> None:
        """Note that all name the leader, if all of these serve and one leads; otherwise that they name nobody."""
        leaders = [name for name, found in answers.items() if found == "leader"]
        agreed = len(leaders) == 1 and all(found in ("leader", "follower") for found in answers.values())
        for name in answers:
            self.ledger.say(name, leaders[0] if agreed else None, at)


class PartialEnsemble(Ensemble):
    """The same where links are cut: a follower that serves names the only leader, whatever becomes of the others."""

    def note(self, answers: Mapping[str, str], at: Instant) -> None:
        leaders = [name for name, found in answers.items() if found == "leader"]
        for name, found in answers.items():
            serves = len(leaders) == 1 and found in ("leader", "follower")
            self.ledger.say(name, leaders[0] if serves else None, at)


class Said(Struct, frozen=True):
    event: str
    clock: Instant


_SAID = msgspec.json.Decoder(Said)


class KazooElection(Entrant):
    """Three servers, and one program that campaigns per member."""

    servers = ("zk1", "zk2", "zk3")
    names_leader = False
    prefix = "k"

    def __init__(self, label: str, network: Network, folder: Path) -> None:
        super().__init__(label, network, folder)
        self._candidates: set[str] = set()

    async def start_servers(self) -> None:
        need_commands("ZooKeeper", PACKAGES)
        folders = [self.folder / name for name in self.servers]
        hosts = [self.hosts[name] for name in self.servers]
        configure(hosts, folders, clients=True)
        for name, folder in zip(self.servers, folders, strict=True):
            await self.start_process(name, server_command(folder), is_heard=False)
        asker, modes = Asker(len(hosts)), list[str]()
        try:
            async with asyncio.timeout(SERVE_S):
                while sorted(modes) != ["follower", "follower", "leader"]:
                    await asyncio.sleep(LOOK_EVERY_S)
                    modes = [*await asyncio.gather(*(asker.ask(host, mode) for host in hosts))]
        except TimeoutError:
            raise TransportError(f"ZooKeeper does not serve: {self.process_of('zk1').last_words()}") from None
        finally:
            asker.close()

    def command(self, name: str) -> list[str]:
        hosts = ",".join(f"{self.hosts[server].ipv4}:2181" for server in self.servers)
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


def mode() -> str:
    """Ask the server on this loopback; return leader, follower, or none while it serves nobody."""
    try:
        with socket.create_connection(("127.0.0.1", 2181), 1) as connection:
            connection.sendall(b"srvr")
            answer = b""
            while part := connection.recv(4096):
                answer += part
    except OSError:
        return "none"
    return next((line[6:].decode() for line in answer.splitlines() if line.startswith(b"Mode: ")), "none")
