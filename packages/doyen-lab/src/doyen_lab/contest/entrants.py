"""The systems that take part, by name, and the commands that each needs."""

from pathlib import Path

from doyen.errors import TransportError
from doyen_lab.contest import etcd, lowest, ours, zookeeper
from doyen_lab.contest.asking import need_commands
from doyen_lab.contest.entrant import Entrant
from doyen_lab.netns import Namespaces

SERVERS: dict[str, type[zookeeper.Ensemble] | type[etcd.EtcdServers]] = {
    "zookeeper-servers": zookeeper.Ensemble,
    "etcd-servers": etcd.EtcdServers,
}
MAKERS: dict[str, type[Entrant]] = {
    "zookeeper": zookeeper.KazooElection,
    "etcd": etcd.Etcd,
    "serf": lowest.Serf,
    "swim-protocol": lowest.SwimProtocol,
}
PEERS = (*SERVERS, *MAKERS)
STRONG = ("quorum", "quorum-multicast", "will", "will-multicast")
WAYS = ("gossip", "quorum", "multicast", "unicast")
OURS = (*(f"{way}{key}" for way in WAYS for key in ("", "+key")), *(f"{way}+key" for way in STRONG[1:]))
_COMMANDS = {"zookeeper": zookeeper.PACKAGES, "etcd": etcd.PACKAGES, "serf": lowest.PACKAGES}
_COMMANDS |= {"zookeeper-servers": zookeeper.PACKAGES, "etcd-servers": etcd.PACKAGES}


def missing(peer: str) -> str:
    """Return why a peer cannot be measured here, or an empty string."""
    try:
        need_commands(peer, _COMMANDS.get(peer, {}))
    except TransportError as error:
        return str(error)
    return ""


def entrant(system: str, size: int, folder: Path) -> Entrant:
    """Return that system with `size` members, on a bridge of its own."""
    if system in OURS:
        way, _, key = system.partition("+")
        return ours.on_bridge(f"doyen {system}", way, size, folder, key=bool(key))
    if system in SERVERS:
        return SERVERS[system](system, Namespaces(size), folder)
    made = MAKERS[system]
    return made(system, Namespaces(len(made.servers) + size), folder)
