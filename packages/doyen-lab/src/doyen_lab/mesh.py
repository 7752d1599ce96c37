"""A grid of hosts that forward for each other, in the kernel: what a radio mesh is to its devices.

    r0 ── r1 ── r2 ── r3        r…: a device's router, one namespace each; links are veth pairs
    │     │     │     │
    r4 ── r5 ── r6 ── r7        each router has one guest per tenant: a namespace for one process of one system
    …                              doyen4 ─ eth0 ─ r4 ─ eth0 ─ zookeeper4

Several systems (tenants) live on one mesh at a time, each process in a namespace and behind an interface of its own,
so that the same links, with the same losses, carry both, and their counters are apart (decision 24).

Routes are static shortest paths (ties to the lowest neighbour), set once: no routing daemon.  Loss is drawn by
`iptables -m statistic` for every packet that a router receives from another, so once per hop, whoever it is for; it
has no seed.  The way between a guest and its own router loses nothing: it stands for the inside of a device.

Two counters, and they differ: a guest's interface counts what its process sends, once, whole Ethernet frames; the
routers count the IP bytes of each tenant at every hop.  ARP is neither needed nor sent: neighbours are entered by hand.
"""

import os
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack

from msgspec import Struct

from doyen.errors import ConfigError, TransportError
from doyen_lab.graph import grid, next_hops, way
from doyen_lab.iproute import NO_IPV6, batch, new_prefix
from doyen_lab.netns import Namespace, Network, make_namespaces

_HOSTS = "198.18"  # Guests: .tenant.host; the range set aside for benchmarks.
_ROUTERS = "198.19.0"
_ROUTING = {"ipv4/ip_forward": 1, "ipv4/conf/all/rp_filter": 0, "ipv4/conf/default/rp_filter": 0}


class HopCounters(Struct, frozen=True):
    """Counts one tenant's packets on the mesh, summed over routers: a packet over three hops counts three times."""

    packets: int
    bytes: int

    def since(self, before: "HopCounters") -> "HopCounters":
        return HopCounters(self.packets - before.packets, self.bytes - before.bytes)


class Mesh:
    """A grid of hosts for as long as the `with` lasts; whatever ends it, all is removed."""

    def __init__(
        self, rows: int = 4, columns: int = 4, *, tenants: Sequence[str] = ("doyen",), drop: float = 0.0
    ) -> None:
        self.edges = grid(rows, columns)
        self.size = rows * columns
        if not 1 <= self.size <= 64:
            raise ConfigError(f"{rows}×{columns} is out of range: give 1 to 64 hosts")
        if not 0 <= drop < 1:
            raise ConfigError(f"{drop} is out of range: give 0 to below 1", field="drop")
        if not tenants or len({*tenants}) < len(tenants) or not all(name.isalpha() for name in tenants):
            raise ConfigError(f"{', '.join(tenants)}: give names of letters that differ", field="tenants")
        self.drop, self.tenants = drop, tuple(tenants)
        self.hops = next_hops(self.size, self.edges)
        prefix = new_prefix()
        self.routers = [f"{prefix}-r{i}" for i in range(self.size)]
        self.guests: dict[str, list[Namespace]] = {
            name: [Namespace(f"{prefix}-{name}{i}", "eth0", f"{_HOSTS}.{t}.{i + 1}") for i in range(self.size)]
            for t, name in enumerate(self.tenants)
        }
        self._cleanup = ExitStack()

    def __enter__(self) -> "Mesh":
        with ExitStack() as cleanup:
            guests = [guest.name for guests in self.guests.values() for guest in guests]
            make_namespaces(cleanup, dict.fromkeys(self.routers, NO_IPV6 | _ROUTING) | dict.fromkeys(guests, NO_IPV6))
            self._link()
            for i in range(self.size):
                self._set_up_router(i)
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    # Making it.

    def _link(self) -> None:
        lines = [
            f"link add m{b} netns {self.routers[a]} address {_mac(a, b)} type veth "
            f"peer name m{a} netns {self.routers[b]} address {_mac(b, a)}"
            for a, b in self.edges
        ]
        for t, name in enumerate(self.tenants):
            lines += [
                f"link add {guest.interface} netns {guest.name} address {_mac(i, 100 + t)} type veth "
                f"peer name g{t} netns {self.routers[i]} address {_mac(100 + t, i)}"
                for i, guest in enumerate(self.guests[name])
            ]
        batch(lines)
        for t, name in enumerate(self.tenants):
            for i, guest in enumerate(self.guests[name]):
                router = _router_address(i)
                lines = [
                    "link set lo up",
                    "link set eth0 up",
                    f"addr add {guest.ipv4}/32 dev eth0",
                    f"neigh add {router} lladdr {_mac(100 + t, i)} dev eth0 nud permanent",
                    f"route add 198.18.0.0/15 via {router} dev eth0 onlink",
                ]
                batch(lines, namespace=guest.name)

    def _set_up_router(self, i: int) -> None:
        neighbours = sorted({b for a, b in self.edges if a == i} | {a for a, b in self.edges if b == i})
        lines = ["link set lo up"]
        for other in neighbours:
            lines += [
                f"link set m{other} up",
                f"addr add {_router_address(i)} peer {_router_address(other)} dev m{other}",
                f"neigh add {_router_address(other)} lladdr {_mac(other, i)} dev m{other} nud permanent",
            ]
        for t, name in enumerate(self.tenants):
            own = self.guests[name][i]
            lines += [
                f"link set g{t} up",
                f"route add {own.ipv4}/32 dev g{t}",
                f"neigh add {own.ipv4} lladdr {_mac(i, 100 + t)} dev g{t} nud permanent",
            ]
            for j, guest in enumerate(self.guests[name]):
                step = self.hops[i][j]
                if step is not None:
                    lines.append(f"route add {guest.ipv4}/32 via {_router_address(step)} dev m{step}")
        batch(lines, namespace=self.routers[i])
        rules = ["*mangle"]
        if self.drop:
            rules.append(f"-A PREROUTING -i m+ -m statistic --mode random --probability {self.drop} -j DROP")
        rules += [f"-A POSTROUTING -o m+ -s {_HOSTS}.{t}.0/24" for t in range(len(self.tenants))]
        _iptables(self.routers[i], "iptables-restore", lines=[*rules, "COMMIT"])

    # Faults.

    def cut(self, tenant: str, i: int, *, inward: bool = True, outward: bool = True) -> None:
        """Cut a guest off silently: its interface stays up, but nothing comes in, or nothing goes out, or neither."""
        self._cut("-A", tenant, i, inward, outward)

    def mend(self, tenant: str, i: int, *, inward: bool = True, outward: bool = True) -> None:
        self._cut("-D", tenant, i, inward, outward)

    def _cut(self, verb: str, tenant: str, i: int, inward: bool, outward: bool) -> None:
        interface = f"g{self.tenants.index(tenant)}"
        rules = [f"{verb} FORWARD -o {interface} -j DROP"] if inward else []
        rules += [f"{verb} FORWARD -i {interface} -j DROP"] if outward else []
        _iptables(self.routers[i], "iptables-restore", "--noflush", lines=["*filter", *rules, "COMMIT"])

    # Figures.

    def hop_count(self, a: int, b: int) -> int:
        found = way(self.hops, a, b)
        assert found is not None
        return len(found)

    def hop_counters(self, tenant: str) -> HopCounters:
        """Sum what routers sent to other routers for this tenant."""
        net = f"{_HOSTS}.{self.tenants.index(tenant)}.0/24"
        packets = size = 0
        for router in self.routers:
            for line in _iptables(router, "iptables", "-t", "mangle", "-nvxL", "POSTROUTING").splitlines():
                columns = line.split()
                if net in columns:
                    packets, size = packets + int(columns[0]), size + int(columns[1])
        return HopCounters(packets, size)


class Guests(Network):
    """One tenant's guests, as a network of their own; its maker enters and leaves the mesh itself."""

    def __init__(self, mesh: Mesh, tenant: str) -> None:
        self.mesh, self.tenant, self.nodes = mesh, tenant, mesh.guests[tenant]

    def cut(self, i: int) -> None:
        self.mesh.cut(self.tenant, i)

    def mend(self, i: int) -> None:
        self.mesh.mend(self.tenant, i)

    def hop_counters(self) -> HopCounters:
        return self.mesh.hop_counters(self.tenant)


def _mac(own: int, other: int) -> str:
    """Return the address of the end at `own` of its link with `other`."""
    return f"02:00:00:00:{own:02x}:{other:02x}"


def _router_address(i: int) -> str:
    return f"{_ROUTERS}.{i + 1}"


def _iptables(namespace: str, *command: str, lines: Sequence[str] = ()) -> str:
    done = subprocess.run(
        ["ip", "netns", "exec", namespace, *command],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    if done.returncode:
        missing = "" if os.path.exists("/usr/sbin/iptables") else " (install iptables)"
        raise TransportError(f"{' '.join(command)}: {' '.join(done.stderr.split()) or done.returncode}{missing}")
    return done.stdout
