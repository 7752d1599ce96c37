"""Who takes part, by name, and what each needs to be here."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from doyen.errors import TransportError
from doyen_lab.contest import etcd
from doyen_lab.contest.election import KazooElection
from doyen_lab.contest.etcd import Etcd
from doyen_lab.contest.group import Group
from doyen_lab.contest.lowest import Serf, SwimProtocol
from doyen_lab.contest.ours import Ours
from doyen_lab.peers import serf, zookeeper
from doyen_lab.peers.process import need_commands

MAKERS: dict[str, Callable[[str, int, Path], Group]] = {
    "zookeeper": KazooElection,
    "etcd": Etcd,
    "serf": Serf,
    "swim-protocol": SwimProtocol,
}
PEERS = tuple(MAKERS)
OURS = ("multicast", "multicast+key", "unicast", "unicast+key")
_COMMANDS = {"zookeeper": zookeeper.PACKAGES, "etcd": etcd.PACKAGES, "serf": serf.PACKAGES}
_MODULES = {"zookeeper": "kazoo", "swim-protocol": "swimprotocol"}


def missing(peer: str) -> str:
    """Why a peer cannot be measured here; empty: it can."""
    try:
        need_commands(peer, _COMMANDS.get(peer, {}))
    except TransportError as error:
        return str(error)
    module = _MODULES.get(peer)
    return f"{module} is not here: pip install 'doyen[bench]'" if module and find_spec(module) is None else ""


def entrant(system: str, size: int, folder: Path) -> Group:
    if system in OURS:
        reach, _, key = system.partition("+")
        return Ours(f"doyen {system}", size, folder, multicast=reach == "multicast", key=bool(key))
    return MAKERS[system](system, size, folder)
