"""The forwarding loop of the switch: a process of its own, between TUN devices.

It is started by `doyen_lab.switch`, which speaks to it by one JSON line per request on its standard input and reads
one JSON line per answer; when that ends, so does the loop, and with it the devices.

A packet read from a host's device is for one host, or for many.  It crosses one link after the other; each link may
lose it, refuse it (cut) or delay it, and counts.  Hosts on the way never see it: relaying is the switch's work, so it
costs them no time, and their own counters count a packet once; the links count it at every hop.

Unlike a router's, a relayed packet keeps its TTL.
"""

import fcntl
import os
import select
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from random import Random

import msgspec
from msgspec import Struct

from doyen_lab.graph import Edge, next_hops
from doyen_lab.iproute import enter

_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_PACKET_MAX = 65_536
_IGMP, _ICMPV6 = 2, 58
_MLD = frozenset((130, 131, 132, 143))
_DRAIN_MAX = 64  # Packets read from one host before others get their turn.


class Link(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One direction of one link."""

    delay: int = 0  #: How long a packet takes to cross it, in nanoseconds.
    jitter: int = 0  #: Added to the delay, uniform from 0 to this; packets may overtake each other.
    loss: float = 0.0  #: The chance that a packet is lost on it.
    duplicate: float = 0.0  #: The chance that a packet arrives twice.
    reorder: float = 0.0  #: The chance that a packet is held back, so that later ones overtake it,
    reorder_by: int = 0  #: by a time from 0 to this, in nanoseconds.
    up: bool = True  #: False: cut; nothing crosses it, and nobody is notified.


class LinkCounters(Struct):
    """Counts what one direction of one link did; a packet that crosses three links is counted by all three."""

    packets: int = 0  # Offered to it.
    bytes: int = 0  # Of these, IP header included.
    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    refused: int = 0  # While it was cut.


class SwitchPlan(Struct, frozen=True, kw_only=True):
    """The arguments of the loop."""

    namespaces: list[str]
    interface: str
    addresses: list[list[str]]  # Of each host, as hexadecimal bytes.
    edges: list[Edge]
    link: Link
    seed: int
    relay: bool
    multicast: bool


class Change(Struct, frozen=True, kw_only=True):
    """Asks the loop to change some directions; the answer has the counters if they were asked for."""

    links: list[tuple[int, int, Link]] = []
    count: bool = False


class Answer(Struct, frozen=True, kw_only=True):
    links: list[tuple[int, int, LinkCounters]] = []
    unroutable: int = 0  # Packets for nobody here, or for a host that there is no way to.
    overdue_max: int = 0  # How late the loop delivered at the worst, in nanoseconds: its own slowness.


class Loop:
    """Forwards packets until its standard input ends."""

    def __init__(self, plan: SwitchPlan, devices: Sequence[int]) -> None:
        self.devices, self.plan = devices, plan
        self.rng = Random(plan.seed)
        size = len(devices)
        self.hosts = {bytes.fromhex(text): i for i, texts in enumerate(plan.addresses) for text in texts}
        self.hops = next_hops(size, plan.edges)
        both = [*plan.edges, *((b, a) for a, b in plan.edges)]
        self.links = dict.fromkeys(both, plan.link)
        self.counters = {edge: LinkCounters() for edge in both}
        self.neighbours = [[b for a, b in both if a == i] for i in range(size)]
        self.children = self._trees(size)
        self.unroutable = self.overdue_max = 0
        self._pending: list[tuple[int, int, bytes, int, int, int]] = []  # (at, no, packet, here, goal or ~source, ttl)
        self._number = count()

    def _trees(self, size: int) -> list[dict[int, list[int]]]:
        """Return, as `[source][here]`, to whom a multicast is passed on: one copy per host, along shortest ways."""
        trees: list[dict[int, list[int]]] = []
        for source in range(size):
            tree: dict[int, list[int]] = {i: [] for i in range(size)}
            for goal in range(size):
                back = self.hops[goal][source]
                if back is not None:
                    tree[back].append(goal)
            trees.append(tree)
        return trees

    def run(self, control_in: int, control_out: int) -> None:
        poll = select.epoll()
        for device in self.devices:
            poll.register(device, select.EPOLLIN)
        poll.register(control_in, select.EPOLLIN)
        by_device = {device: i for i, device in enumerate(self.devices)}
        decode = msgspec.json.Decoder(Change).decode
        unread = b""
        while True:
            # An epoll rounds up to a millisecond; a select on it does not.
            select.select([poll], [], [], self._rest_s())
            for ready, _ in poll.poll(0):
                if ready != control_in:
                    self._drain(ready, by_device[ready])
                    continue
                data = os.read(control_in, 1 << 16)
                if not data:
                    return
                *lines, unread = (unread + data).split(b"\n")
                for line in lines:
                    os.write(control_out, msgspec.json.encode(self.change(decode(line))) + b"\n")
            self._deliver_due()

    def change(self, change: Change) -> Answer:
        for a, b, link in change.links:
            if (a, b) in self.links:
                self.links[a, b] = link
        if not change.count:
            return Answer()
        links = [(a, b, counters) for (a, b), counters in self.counters.items()]
        return Answer(links=links, unroutable=self.unroutable, overdue_max=self.overdue_max)

    def _rest_s(self) -> float | None:
        return max(0, self._pending[0][0] - time.monotonic_ns()) / 1e9 if self._pending else None

    def _drain(self, device: int, host: int) -> None:
        for _ in range(_DRAIN_MAX):
            try:
                packet = os.read(device, _PACKET_MAX)
            except BlockingIOError:
                return
            except OSError:  # The interface is down or gone.
                return
            self.enter(packet, host, time.monotonic_ns())

    def enter(self, packet: bytes, source: int, now: int) -> None:
        """Take a packet that a host sent."""
        version = packet[0] >> 4
        if version == 4:
            goal, many, ttl = packet[16:20], packet[16] >= 224, packet[8]
            if many and packet[9] == _IGMP:
                return  # Who has joined what does not matter here: packets for many go to all.
        elif version == 6:
            goal, many, ttl = packet[24:40], packet[24] == 0xFF, packet[7]
            if many and _is_mld(packet):
                return
        else:
            return
        if many:
            if self.plan.multicast:
                self._spread(packet, source, source, ttl, now)
            else:
                self.unroutable += 1
            return
        host = self.hosts.get(goal)
        if host is None or self.hops[source][host] is None or not (self.plan.relay or host in self.neighbours[source]):
            self.unroutable += 1
            return
        self._pass_on(packet, source, host, now)

    def _pass_on(self, packet: bytes, here: int, goal: int, now: int) -> None:
        step = self.hops[here][goal]
        assert step is not None
        for at in self._cross(here, step, len(packet), now):
            if at == now:
                self._arrive(packet, step, goal, 0, now)
            else:
                heappush(self._pending, (at, next(self._number), packet, step, goal, 0))

    def _spread(self, packet: bytes, source: int, here: int, ttl: int, now: int) -> None:
        """Pass a multicast on to neighbours, and, with a TTL above 1 and if the switch relays, to theirs."""
        for step in self.children[source][here]:
            left = ttl - 1 if self.plan.relay else 0
            for at in self._cross(here, step, len(packet), now):
                heappush(self._pending, (at, next(self._number), packet, step, ~source, left))

    def _cross(self, here: int, step: int, size: int, now: int) -> list[int]:
        """Return when a packet comes out at the other end of a link: never, once or twice."""
        link, counters = self.links[here, step], self.counters[here, step]
        counters.packets += 1
        counters.bytes += size
        if not link.up:
            counters.refused += 1
            return []
        random = self.rng.random
        if link.loss and random() < link.loss:
            counters.lost += 1
            return []
        at = now + link.delay
        if link.jitter:
            at += int(random() * link.jitter)
        if link.reorder and random() < link.reorder:
            counters.reordered += 1
            at += int(random() * link.reorder_by)
        if link.duplicate and random() < link.duplicate:
            counters.duplicated += 1
            return [at, at]
        return [at]

    def _deliver_due(self) -> None:
        pending = self._pending
        now = time.monotonic_ns()
        while pending and pending[0][0] <= now:
            at, _, packet, here, goal, ttl = heappop(pending)
            self.overdue_max = max(self.overdue_max, now - at)
            self._arrive(packet, here, goal, ttl, at)  # By the instant it was due, so that delays do not add up.

    def _arrive(self, packet: bytes, here: int, goal: int, ttl: int, now: int) -> None:
        if goal >= 0 and here != goal:
            self._pass_on(packet, here, goal, now)
            return
        with suppress(OSError):  # The interface is down: the host is gone.
            os.write(self.devices[here], packet)
        if goal < 0 and ttl > 0:
            self._spread(packet, ~goal, here, ttl, now)


def _is_mld(packet: bytes) -> bool:
    """Return whether it reports an IPv6 group joined: ICMPv6, usually behind a header with a router alert."""
    at, kind = 40, packet[6]
    if kind == 0 and len(packet) > 41:
        kind, at = packet[40], 40 + 8 * (packet[41] + 1)
    return kind == _ICMPV6 and len(packet) > at and packet[at] in _MLD


def open_device(namespace: str, interface: str) -> int:
    """Open a TUN device within a namespace; it lasts as long as the descriptor."""
    enter(namespace)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", interface.encode(), _IFF_TUN | _IFF_NO_PI))
    return device


def main() -> None:
    with suppress(OSError):
        os.nice(-10)  # A network that waits for the hosts' processor would be measured as one that delays.
    with open(0, "rb", buffering=0, closefd=False) as control:  # Unbuffered: what follows the first line is the loop's.
        plan = msgspec.json.decode(control.readline(), type=SwitchPlan)
    devices = [open_device(namespace, plan.interface) for namespace in plan.namespaces]
    loop = Loop(plan, devices)
    os.write(1, msgspec.json.encode(Answer()) + b"\n")
    loop.run(0, 1)


if __name__ == "__main__":
    main()
