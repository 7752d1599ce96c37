"""Network namespaces on one bridge: hosts of a made-up network, inside one machine.

    doyen4711-0-n0 ─ veth0 ═╗
    doyen4711-0-n1 ─ veth1 ═╬═ br0, in doyen4711-0-switch
    doyen4711-0-n2 ─ veth2 ═╝

The bridge has a namespace of its own too, so nothing is added to the machine's own network, and nothing in there
can reach it: whatever runs in here talks to addresses in here only.  Deleting the namespaces deletes everything.
Names carry the id of the process that made them; what a killed one left is removed by the next that starts.

A namespace has 198.18.0.0/16 (the range set aside for benchmarks), a unique local IPv6 and a link-local one.
What Linux would say by itself is turned off or over before anybody counts:

    router solicitations, duplicate address detection   off by sysctl, before the interface comes up
    bridge: spanning tree, snooping, its own IPv6       off
    IGMP and MLD reports                                cannot be: at most 3 s after a socket joins a group; wait
    ARP, neighbour discovery                            only where unicast is used: they belong to it

Counters are those of the namespace's own end: every byte of a frame but its checksum, and a multicast once.
"""

import ipaddress
import json
import os
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Self

from msgspec import Struct

from doyen.errors import ConfigError, LocalProtocolError
from doyen_lab.graph import Edge
from doyen_lab.iproute import (
    NO_IPV6,
    QUIET,
    batch,
    check_rights,
    delete_namespaces,
    ip,
    new_prefix,
    remove_leftovers,
    room_for_neighbours,
    sysctl,
)

__all__ = [
    "NODES_MAX",
    "QUIET_AFTER_S",
    "Counters",
    "Namespace",
    "Namespaces",
    "Network",
    "remove_leftovers",
]

NODES_MAX = 250
QUIET_AFTER_S = 3.0  # Joining reports of IGMPv3 and MLDv2: two, within a second each; and some.

IPV4 = ipaddress.ip_network("198.18.0.0/16")
IPV6 = ipaddress.ip_network("fd00:d0:1e::/64")
LINK_LOCAL = ipaddress.ip_network("fe80::/64")


class Counters(Struct, frozen=True):
    """Counts the traffic of one interface."""

    tx_bytes: int
    tx_packets: int
    rx_bytes: int
    rx_packets: int

    def since(self, before: "Counters") -> "Counters":
        return Counters(*(getattr(self, name) - getattr(before, name) for name in self.__struct_fields__))


class Namespace(Struct, frozen=True):
    """One host of the made-up network."""

    name: str
    interface: str
    ipv4: str
    ipv6: str = ""
    link_local: str = ""  # With its scope, as sockets want it.

    @property
    def wrap(self) -> list[str]:
        """Return what goes before a command to run it in here; the process id stays the command's own."""
        return ["ip", "netns", "exec", self.name] if self.name else []

    def counters(self) -> Counters:
        """Read the interface's counters; no packet is sent for that."""
        shown = json.loads(ip("-n", self.name, "-s", "-j", "link", "show", "dev", self.interface))
        stats = shown[0]["stats64"]
        return Counters(stats["tx"]["bytes"], stats["tx"]["packets"], stats["rx"]["bytes"], stats["rx"]["packets"])

    @property
    def inode(self) -> int:
        """Return the namespace's identity, which /proc/PID/ns/net of every process in it has."""
        return os.stat(f"/run/netns/{self.name}").st_ino


class Network:
    """Hosts for processes to run on while the `with` lasts; whatever ends it, all that was made is removed."""

    nodes: list[Namespace]
    _cleanup: ExitStack

    def __enter__(self) -> Self:
        with ExitStack() as cleanup:
            self._make(cleanup)
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def _make(self, cleanup: ExitStack) -> None:
        """Make the hosts, and push onto `cleanup` how they are removed; by default there is nothing to make."""

    def cut(self, i: int, /) -> None:
        """Cut a host off silently: its interface stays up, and nobody is notified."""
        raise LocalProtocolError("nobody can be cut off here: use namespaces")

    def mend(self, i: int, /) -> None:
        """Let a host that was cut off take part again."""
        raise LocalProtocolError("nobody can be cut off here: use namespaces")


def make_namespaces(cleanup: ExitStack, settings: dict[str, dict[str, int]]) -> None:
    """Make namespaces with these settings of the kernel, by name; they are removed by `cleanup`."""
    check_rights()
    remove_leftovers()
    cleanup.callback(delete_namespaces, [*settings])
    batch([f"netns add {name}" for name in settings])
    for name, values in settings.items():
        sysctl(name, values)


class Namespaces(Network):
    """`node_count` hosts on one bridge."""

    def __init__(self, node_count: int) -> None:
        if not 1 <= node_count <= NODES_MAX:
            raise ConfigError(f"{node_count} is out of range: give 1 to {NODES_MAX}", field="nodes")
        prefix = new_prefix()
        self.switch = f"{prefix}-switch"
        self.nodes = [host(prefix, i, f"veth{i}") for i in range(node_count)]

    def cut(self, i: int) -> None:
        """Cut a host off silently: the bridge no longer forwards for it, but its interface stays up."""
        self._plug(i, "nomaster")

    def mend(self, i: int) -> None:
        self._plug(i, "master br0")

    def cut_links(self, pairs: Iterable[Edge]) -> None:
        """Give the first host of each pair a route to nowhere for the second: it no longer reaches it, one way."""
        for i, others in self._by_host(pairs).items():
            batch([f"route add blackhole {self.nodes[j].ipv4}/32" for j in others], namespace=self.nodes[i].name)

    def mend_links(self, pairs: Iterable[Edge]) -> None:
        for i, others in self._by_host(pairs).items():
            batch([f"route del blackhole {self.nodes[j].ipv4}/32" for j in others], namespace=self.nodes[i].name)

    def _by_host(self, pairs: Iterable[Edge]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for i, j in pairs:
            found.setdefault(i, []).append(j)
        return found

    def _plug(self, i: int, where: str) -> None:
        batch([f"link set {self.nodes[i].interface} {where}"], namespace=self.switch)

    def _make(self, cleanup: ExitStack) -> None:
        make_namespaces(cleanup, {self.switch: NO_IPV6} | {node.name: QUIET for node in self.nodes})
        cleanup.enter_context(room_for_neighbours(len(self.nodes) ** 2))
        batch(
            [
                f"link add {n.interface} netns {n.name} type veth peer name {n.interface} netns {self.switch}"
                for n in self.nodes
            ]
        )
        bridge = ["link add br0 type bridge stp_state 0 mcast_snooping 0 forward_delay 0", "link set br0 up"]
        bridge += [f"link set {node.interface} master br0 up" for node in self.nodes]
        batch(bridge, namespace=self.switch)
        for node in self.nodes:
            batch(address_lines(node), namespace=node.name)


def host(prefix: str, i: int, interface: str) -> Namespace:
    """Return the i-th host of a made-up network, with the addresses that it has there."""
    return Namespace(
        f"{prefix}-n{i}", interface, str(IPV4[i + 1]), str(IPV6[i + 1]), f"{LINK_LOCAL[i + 1]}%{interface}"
    )


def address_lines(node: Namespace) -> list[str]:
    """Return the lines for `ip -batch` that bring a host's interfaces up and set its addresses."""
    where = f"dev {node.interface}"
    return [
        "link set lo up",
        f"link set {node.interface} up",
        f"addr add {node.ipv4}/{IPV4.prefixlen} {where}",
        f"addr add {node.ipv6}/{IPV6.prefixlen} {where} nodad",
        f"addr add {node.link_local.partition('%')[0]}/{LINK_LOCAL.prefixlen} {where} nodad",
    ]
