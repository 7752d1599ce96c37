"""A network of one's own, in user space: namespaces with a TUN device each, and a process that forwards between them.

    doyen4711-0-n0 ─ tun0 ─╮
    doyen4711-0-n1 ─ tun0 ─┼─ doyen_lab.switch_loop
    doyen4711-0-n2 ─ tun0 ─╯

Every direction of every link has a delay, a jitter, a chance of loss, and may be cut, all of which can change while
processes run.  Links are a full mesh unless edges are given; between hosts that are no neighbours packets go hop by
hop on static shortest ways, or, with `relay=False`, not at all.  A multicast reaches the neighbours, with a TTL above 1
also theirs, in one copy each.

    with Switch(3, link=Link(delay=ms(25), loss=0.05)) as network:
        subprocess.run([*network.nodes[0].wrap, "ping", "-c1", network.nodes[1].ipv4])
        network.cut(0, 1, both=False)

There is no ARP on TUN devices: no table to overflow, and nothing but the hosts' own IP packets is ever counted.
The interface counters of a host (`network.nodes[0].counters()`) count IP packets without Ethernet headers, once.
"""

import ipaddress
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec
from msgspec import Struct

from doyen.errors import ConfigError, LocalProtocolError, TransportError
from doyen_lab.graph import Edge, check_edges, full_mesh, next_hops, way
from doyen_lab.iproute import QUIET, batch, new_prefix
from doyen_lab.netns import IPV4, NODES_MAX, Namespace, Network, address_lines, host, make_namespaces
from doyen_lab.switch_loop import Answer, Change, Link, LinkCounters, SwitchPlan

__all__ = ["Link", "LinkCounters", "Loopback", "Switch", "Traffic"]

INTERFACE = "tun0"
PLAIN = Link()


class Traffic(Struct, frozen=True):
    """Counts what crossed the network since it was made, link by link and direction by direction."""

    links: dict[Edge, LinkCounters]
    unroutable: int  # Packets for nobody here, or for a host that there is no way to.
    overdue_max_s: float  # How late the switch itself was at the worst: a busy machine, not the made-up network.

    @property
    def packets(self) -> int:
        """Return the number of packets at every hop: one that crosses three links counts three times."""
        return sum(link.packets for link in self.links.values())

    @property
    def bytes(self) -> int:
        return sum(link.bytes for link in self.links.values())

    @property
    def lost(self) -> int:
        return sum(link.lost for link in self.links.values())

    @property
    def refused(self) -> int:
        """Return the number of packets that met a link that was cut."""
        return sum(link.refused for link in self.links.values())


class Switch(Network):
    """`node_count` hosts and the links between them."""

    def __init__(
        self,
        node_count: int,
        *,
        edges: Iterable[Edge] | None = None,  # None: everybody is everybody's neighbour.
        link: Link = PLAIN,
        relay: bool = True,
        multicast: bool = True,
        seed: int = 1,
    ) -> None:
        if not 1 <= node_count <= NODES_MAX:
            raise ConfigError(f"{node_count} is out of range: give 1 to {NODES_MAX}", field="nodes")
        check_link(link)
        prefix = new_prefix()
        self.nodes = [host(prefix, i, INTERFACE) for i in range(node_count)]
        self.edges = full_mesh(node_count) if edges is None else check_edges(node_count, edges)
        self._hops = next_hops(node_count, self.edges)
        self._links = {direction: link for a, b in self.edges for direction in ((a, b), (b, a))}
        self._plan = SwitchPlan(
            namespaces=[node.name for node in self.nodes],
            interface=INTERFACE,
            addresses=[_packed(node, spare_ipv4(i)) for i, node in enumerate(self.nodes)],
            edges=self.edges,
            link=link,
            seed=seed,
            relay=relay,
            multicast=multicast,
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._spares = [spare_ipv4(i) for i in range(node_count)]

    def _make(self, cleanup: ExitStack) -> None:
        make_namespaces(cleanup, {node.name: QUIET for node in self.nodes})
        self._process = process = _start_loop()
        cleanup.callback(_end_loop, process)
        self._ask(self._plan)
        for node in self.nodes:
            batch([*address_lines(node), *self._routes()], namespace=node.name)

    def _routes(self) -> list[str]:
        return [f"route replace 224.0.0.0/4 dev {INTERFACE}"] if self._plan.multicast else []

    def __exit__(self, *_: object) -> None:
        self._process = None
        super().__exit__()

    @property
    def pid(self) -> int:
        """The id of the forwarding process."""
        return self._running().pid

    # What links do.

    def link(self, a: int, b: int) -> Link:
        """Return the direction from a to b, as it is now."""
        self._check_linked(a, b)
        return self._links[a, b]

    def directions(self) -> list[Edge]:
        """Return every link, once from either end."""
        return list(self._links)

    def reaches(self, a: int, b: int) -> bool:
        """Return whether packets from a arrive at b: every link on the way is up."""
        links = way(self._hops, a, b)
        return links is not None and all(self._links[link].up for link in links)

    def set(self, a: int, b: int, *, both: bool = True, **fields: Any) -> None:
        """Change some of a link's `delay`, `jitter`, `loss`, `up`; with `both=False` only from a to b."""
        self._change(self._between(a, b, both), fields)

    def set_all(self, **fields: Any) -> None:
        self._change(self.directions(), fields)

    def set_up(self, directions: Iterable[Edge], up: bool) -> None:
        """Cut or mend these directions, each from its first host to its second."""
        self._change([edge for edge in directions if edge in self._links], {"up": up})

    def cut(self, a: int, b: int | None = None, *, both: bool = True) -> None:
        """Cut a from b, or from everybody, silently.  With `both=False` a still hears the others, but is not heard."""
        self._change(self._between(a, b, both), {"up": False})

    def mend(self, a: int, b: int | None = None, *, both: bool = True) -> None:
        self._change(self._between(a, b, both), {"up": True})

    def isolate(self, *nodes: int) -> None:
        """Cut every link between these hosts and all others; among themselves they go on."""
        inside = set(nodes)
        self._change([(a, b) for a, b in self._links if (a in inside) != (b in inside)], {"up": False})

    def partition(self, *groups: Sequence[int]) -> None:
        """Cut every link between different groups; hosts in no group are one more group."""
        part = {node: i for i, group in enumerate(groups) for node in group}
        self._change([(a, b) for a, b in self._links if part.get(a) != part.get(b)], {"up": False})

    def heal(self) -> None:
        """Mend every cut; delays and losses stay."""
        self._change([edge for edge, link in self._links.items() if not link.up], {"up": True})

    def readdress(self, i: int) -> str:
        """Give a host its other IPv4 address in the place of the one it has, as DHCP may; return the new one."""
        node, new = self.nodes[i], self._spares[i]
        length = IPV4.prefixlen
        lines = [f"addr del {node.ipv4}/{length} dev {INTERFACE}", f"addr add {new}/{length} dev {INTERFACE}"]
        batch([*lines, *self._routes()], namespace=node.name)  # The kernel forgot the routes with the address.
        self._spares[i], self.nodes[i] = node.ipv4, msgspec.structs.replace(node, ipv4=new)
        return new

    def traffic(self) -> Traffic:
        answer = self._ask(Change(count=True))
        return Traffic(
            {(a, b): counters for a, b, counters in answer.links}, answer.unroutable, answer.overdue_max / 1e9
        )

    def _change(self, edges: Sequence[Edge], fields: dict[str, Any]) -> None:
        unknown = set(fields) - set(Link.__struct_fields__)
        if unknown:
            raise ConfigError(f"a link has no {', '.join(sorted(unknown))}: one of {', '.join(Link.__struct_fields__)}")
        changed = {edge: msgspec.structs.replace(self._links[edge], **fields) for edge in edges}
        for link in {*changed.values()}:
            check_link(link)
        self._ask(Change(links=[(a, b, link) for (a, b), link in changed.items()]))
        self._links |= changed  # Once the loop has answered, packets meet the new links.

    def _between(self, a: int, b: int | None, both: bool) -> list[Edge]:
        """Return the directions from a to b, or to all that a is linked to; with `both` also those back."""
        there = [edge for edge in self._links if edge[0] == a] if b is None else [(a, b)]
        for edge in there:
            self._check_linked(*edge)
        return there + ([(to, here) for here, to in there] if both else [])

    def _check_linked(self, a: int, b: int) -> None:
        if (a, b) not in self._links:
            raise ConfigError(f"there is no link between {a} and {b}")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise LocalProtocolError("the switch does not run: use it in a `with`")
        return self._process

    def _ask(self, request: Struct) -> Answer:
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(request) + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            raise TransportError(f"the switch (pid {process.pid}) has ended with {process.wait(5)}")
        return msgspec.json.decode(line, type=Answer)


class Loopback(Network):
    """The machine's own loopback in the place of a network: no root is needed, and no host can be cut off."""

    def __init__(self, node_count: int) -> None:
        place = f"127.{os.getpid() >> 8 & 127 | 64}.{os.getpid() & 255}"  # Two processes' hosts differ.
        self.nodes = [Namespace("", "lo", f"{place}.{i + 1}") for i in range(node_count)]

    def reaches(self, a: int, b: int) -> bool:
        return True


def check_link(link: Link) -> None:
    if min(link.delay, link.jitter, link.reorder_by) < 0:
        raise ConfigError(
            f"delay {link.delay}, jitter {link.jitter}, reorder_by {link.reorder_by} must not be negative"
        )
    for name, chance in (("loss", link.loss), ("duplicate", link.duplicate), ("reorder", link.reorder)):
        if not 0 <= chance <= 1:
            raise ConfigError(f"{chance} is no chance: give 0 to 1", field=name)


def spare_ipv4(i: int) -> str:
    """Return the other address of a host, of the upper half of the same network."""
    return str(IPV4[IPV4.num_addresses // 2 + i + 1])


def _packed(node: Namespace, spare: str) -> list[str]:
    addresses = (node.ipv4, spare, node.ipv6, node.link_local.partition("%")[0])
    return [ipaddress.ip_address(address).packed.hex() for address in addresses]


def _start_loop() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "doyen_lab.switch_loop"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # It ends when its input does, Ctrl-C or not.
    )


def _end_loop(process: subprocess.Popen[bytes]) -> None:
    with process:  # Closes its pipes, and waits.
        process.kill()
