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
import re
import subprocess
from collections.abc import Sequence
from itertools import count
from types import TracebackType

from msgspec import Struct

from doyen.errors import ConfigError, TransportError

NODES_MAX = 250
QUIET_AFTER_S = 3.0  # Joining reports of IGMPv3 and MLDv2: two, within a second each; and some.

_IPV4 = ipaddress.ip_network("198.18.0.0/16")
_IPV6 = ipaddress.ip_network("fd00:d0:1e::/64")
_LINK_LOCAL = ipaddress.ip_network("fe80::/64")
_NAME = re.compile(r"doyen(\d+)-\d+-\w+")
_LAB_NO = count()
_QUIET = {
    "ipv6/conf/all/router_solicitations": 0,
    "ipv6/conf/default/router_solicitations": 0,
    "ipv6/conf/all/accept_ra": 0,
    "ipv6/conf/default/accept_ra": 0,
    "ipv6/conf/all/accept_dad": 0,
    "ipv6/conf/default/accept_dad": 0,
    "ipv6/conf/default/dad_transmits": 0,
    "ipv6/conf/default/addr_gen_mode": 1,  # No address but those given.
}


class Counters(Struct, frozen=True):
    """What went through one interface."""

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
    ipv6: str
    link_local: str  # With its scope, as sockets want it.

    @property
    def wrap(self) -> list[str]:
        """What goes before a command to run it in here.  The process id stays the command's own."""
        return ["ip", "netns", "exec", self.name]

    def counters(self) -> Counters:
        """Read in the namespace, and without a packet of its own."""
        shown = json.loads(_ip("-n", self.name, "-s", "-j", "link", "show", "dev", self.interface))
        stats = shown[0]["stats64"]
        return Counters(stats["tx"]["bytes"], stats["tx"]["packets"], stats["rx"]["bytes"], stats["rx"]["packets"])

    @property
    def inode(self) -> int:
        """The namespace's identity: /proc/PID/ns/net of every process in it has the same."""
        return os.stat(f"/run/netns/{self.name}").st_ino


class Namespaces:
    """So many hosts on one bridge, for as long as the `with` lasts; whatever ends it, they are removed."""

    def __init__(self, node_count: int) -> None:
        if not 1 <= node_count <= NODES_MAX:
            raise ConfigError(f"{node_count} is out of range: give 1 to {NODES_MAX}", field="nodes")
        prefix = f"doyen{os.getpid()}-{next(_LAB_NO)}"
        self.switch = f"{prefix}-switch"
        self.nodes = [_namespace(prefix, i) for i in range(node_count)]

    def __enter__(self) -> "Namespaces":
        _check_rights()
        remove_leftovers()
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _make(self) -> None:
        names = [self.switch, *(node.name for node in self.nodes)]
        _ip("-batch", "-", lines=[f"netns add {name}" for name in names])
        _sysctl(self.switch, {"ipv6/conf/all/disable_ipv6": 1, "ipv6/conf/default/disable_ipv6": 1})
        for node in self.nodes:
            _sysctl(node.name, _QUIET)
        pairs = [
            f"link add {n.interface} netns {n.name} type veth peer name {n.interface} netns {self.switch}"
            for n in self.nodes
        ]
        _ip("-batch", "-", lines=pairs)
        bridge = ["link add br0 type bridge stp_state 0 mcast_snooping 0 forward_delay 0", "link set br0 up"]
        bridge += [f"link set {node.interface} master br0 up" for node in self.nodes]
        _ip("-n", self.switch, "-batch", "-", lines=bridge)
        for node in self.nodes:
            where = f"dev {node.interface}"
            lines = [
                "link set lo up",
                f"link set {node.interface} up",
                f"addr add {node.ipv4}/{_IPV4.prefixlen} {where}",
                f"addr add {node.ipv6}/{_IPV6.prefixlen} {where} nodad",
                f"addr add {node.link_local.partition('%')[0]}/{_LINK_LOCAL.prefixlen} {where} nodad",
            ]
            _ip("-n", node.name, "-batch", "-", lines=lines)

    def _remove(self) -> None:
        _delete([name for name in _existing() if name == self.switch or name in {node.name for node in self.nodes}])


def remove_leftovers() -> list[str]:
    """Removes the namespaces of processes that are no more, and says which they were."""
    left = [name for name in _existing() if (made := _NAME.fullmatch(name)) and not _lives(int(made[1]))]
    _delete(left)
    return left


def _namespace(prefix: str, i: int) -> Namespace:
    interface = f"veth{i}"
    return Namespace(
        f"{prefix}-n{i}", interface, str(_IPV4[i + 1]), str(_IPV6[i + 1]), f"{_LINK_LOCAL[i + 1]}%{interface}"
    )


def _existing() -> list[str]:
    try:
        return os.listdir("/run/netns")
    except FileNotFoundError:
        return []


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _delete(names: Sequence[str]) -> None:
    """One by one: a namespace that somebody else removed meanwhile must not keep the others."""
    for name in names:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False, start_new_session=True)


def _sysctl(namespace: str, values: dict[str, int]) -> None:
    script = "; ".join(f"echo {value} > /proc/sys/net/{key}" for key, value in values.items())
    _ip("netns", "exec", namespace, "sh", "-ec", script)


def _ip(*arguments: str, lines: Sequence[str] = ()) -> str:
    done = subprocess.run(
        ["ip", *arguments],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,  # Ctrl-C is for us: half a command would leave half a network.
    )
    if done.returncode:
        raise TransportError(f"ip {' '.join(arguments)}: {' '.join(done.stderr.split()) or done.returncode}")
    return done.stdout


def _check_rights() -> None:
    if os.geteuid() != 0:
        raise TransportError("network namespaces need root: run this as root, or with sudo")
    try:
        _ip("-V")
    except FileNotFoundError:
        raise TransportError("network namespaces need the command `ip`: install iproute2") from None
