"""Made-up time: the same machines, a queue of events, and a network that can do anything on request.

Events are ordered by (time, deliveries before timers, sequence), so that an arrival at the very instant of a
deadline wins, and two runs of one seed are the same to the last byte of their trace.  What the world does (churn,
cuts, finished writes) is ordered among the timers: after the deliveries of its instant.

Where the speed comes from: a multicast over a plain network is *one* queue entry, whose hearers are chosen by a
mask when it arrives; deliveries that are sent in the order of their arrival (any fixed delay) need no heap, only
a queue; a node's state (down, paused, slow, skewed clock) is not asked for at each event, it replaces the port's
inlets while it lasts; records are hashed in large pieces and never formatted unless a trace is asked for.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import compress, count
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from doyen.core.clock import FOREVER, Duration, Instant
from doyen.core.codec import DATAGRAM_MAX, Codec
from doyen.core.host import Host, Port
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.link import LinkChanged
from doyen.errors import ConfigError, LocalProtocolError
from doyen.sim.network import Network
from doyen.sim.node import Clock, Setup, SimNode
from doyen.sim.streams import Streams
from doyen.sim.trace import PACK, Kind, Trace

Watcher = Callable[[SimNode, str, Any, Instant], None]  # (node, channel, fact or message, now)
DROP: Final = -1  # A filter's verdict.
Filter = Callable[
    [SimNode, str, SimNode, Any], Duration
]  # (sender, channel, receiver, message) → extra delay, or DROP.

_SEND, _MULTICAST, _ARRIVE, _TIMER = int(Kind.SEND), int(Kind.MULTICAST), int(Kind.ARRIVE), int(Kind.TIMER)
_FLUSH_EVERY: Final = 512  # Events: seldom enough to cost nothing, often enough that their records stay in cache.


class Traffic(Struct):
    """What was sent on one channel; a multicast is one message."""

    messages: int = 0
    bytes: int = 0
    hops: int = 0
    hop_bytes: int = 0  # Bytes summed over the links they crossed.
    sizes: list[int] = []  # Of messages over one plain hop that are not counted above yet: later, and all at once.

    def count(self) -> "Traffic":
        count, size = len(self.sizes), sum(self.sizes)
        self.sizes.clear()
        self.messages += count
        self.hops += count
        self.bytes += size
        self.hop_bytes += size
        return self


class _Audience:
    """Who hears a multicast on one channel now, in the order of their indices."""

    __slots__ = ("inlets", "positions")

    def __init__(self, channel: str, nodes: list[SimNode]) -> None:
        self.inlets = [node.ports[channel].hear for node in nodes]
        self.positions = {node.index: i for i, node in enumerate(nodes)}


class Simulation:
    """One run: nodes, a network, and time."""

    def __init__(
        self,
        network: Network,
        streams: Streams,
        *,
        trace: Trace | None = None,
        disk_delay: Duration = 0,
        datagram_max: int = DATAGRAM_MAX,
        wire: bool = False,  # Messages go through the codec and back, as on a real network.
    ) -> None:
        self.network, self.streams = network, streams
        self.trace = trace or Trace()
        self.disk_delay, self.datagram_max, self.wire = disk_delay, datagram_max, wire
        self.now: Instant = 0
        self.nodes: list[SimNode] = []
        self.by_name: dict[NodeId, SimNode] = {}
        self.watchers: list[Watcher] = []  # Told of every fact.
        self.send_watchers: list[Watcher] = []  # Told of every message as it leaves.
        self.checks: list[Callable[[Instant], None]] = []  # Called after every event.
        self.filters: list[Filter] = []  # Asked for every delivery, once there is one.
        self.stopped = False
        self.sent_at: Instant = 0  # When the message being delivered was sent.
        self.event_count = self.delivery_count = 0
        self._traffic: dict[str, Traffic] = {}
        self.sequence = count(1)
        # (at, sequence, port, timer, index of its node), or with None for a port: a plan of the world itself
        self.timers: list[tuple[Any, ...]] = []  # A heap.
        # (at, sequence, receiver or None for all, channel, sender, message, record, sent at, path)
        self.ordered: deque[tuple[Any, ...]] = deque()  # Deliveries in the order of their arrival …
        self._arrivals: list[tuple[Any, ...]] = []  # … and those that came out of it: a heap.
        self._unsettled: list[Host] = []
        self._audiences: dict[str, _Audience] = {}
        self._clogged: list[tuple[SimNode, str, SimNode, Any]] = []
        self._writes: list[tuple[SimNode, Port, bytes]] = []  # On their way to a disk.
        self.encode = Encoder().encode
        self._decoders: dict[str, Decoder[Any]] = {}
        self._overheads: dict[tuple[int, Incarnation, str], int] = {}
        self.network_changed()

    @property
    def traffic(self) -> dict[str, Traffic]:
        """By channel."""
        return {channel: traffic.count() for channel, traffic in self._traffic.items()}

    @property
    def message_count(self) -> int:
        return sum(traffic.messages + len(traffic.sizes) for traffic in self._traffic.values())

    def network_changed(self) -> None:
        """The plain case is decided here, once, and not at every message."""
        config = self.network.config
        self._plain = self.network.plain and not self.filters
        self.delay = config.delay.mean
        self._loaded = config.loss.model == "load"
        # If nobody looks at messages on their way, a node sends them by itself (`SimNode.verbs`).
        self.quick = self._plain and not (self._loaded or self.wire or self.trace.lines is not None)
        for node in self.nodes:
            node.verdicts = iter(())

    # Nodes.

    def add(self, name: NodeId, setup: Setup, *, clock: Clock | None = None) -> SimNode:
        """A node that exists but has not started."""
        if name in self.by_name:
            raise ConfigError(f"two nodes are called {name!r}: names must differ")
        index = len(self.nodes)
        if index >= self.network.topology.size:
            self.network.topology.grow()
        self.network.topology.set_down(index, True)
        node = SimNode(self, name, index, setup, clock)
        self.nodes.append(node)
        self.by_name[name] = node
        return node

    def start(self, node: SimNode) -> None:
        assert node.host is None, f"{node.name} runs already"
        node.incarnation = Incarnation(node.incarnation + 1)
        node.host = host = Host(node.name, node, self._unsettled)
        node.ports = host.ports
        node.setup(node, host)
        if node.clock is not None or node.step_delay:
            node.set_state("slow" if node.step_delay else "up")
        else:
            node.state = "up"
        self._audiences.clear()
        self.network.topology.set_down(node.index, False)
        self._note("start", node)
        host.start(node.now())

    def crash(
        self, node: SimNode, *, disk: Literal["kept", "lost"] = "kept", writes: Literal["lost", "done"] = "lost"
    ) -> None:
        """Stops at once, mid-sentence.  Records on their way to the disk are lost, or done with nobody told."""
        if node.host is None:
            return
        self._note("crash", node)
        for write in [w for w in self._writes if w[0] is node]:
            self._writes.remove(write)
            if writes == "done":
                node.disk[write[1].channel] = write[2]
        for port in node.ports.values():
            port.silence()
        self.inlets_changed(node)
        node.host, node.ports = None, {}
        node.set_state("down")
        if disk == "lost":
            node.disk.clear()
        self._audiences.clear()
        self.network.topology.set_down(node.index, True)

    def command(self, node: SimNode, channel: str, name: str, **arguments: Any) -> None:
        host = node.host
        if host is not None:
            node.enter(lambda now: host.command(channel, name, now, **arguments))

    def tell(self, node: SimNode, fact: Any, *, channel: str | None = None) -> None:
        """A fact from the world: an answer, news of a link, a membership recorded elsewhere."""
        host = node.host
        if host is not None:
            node.enter(lambda now: host.tell(fact, now, channel=channel))

    def pause(self, node: SimNode) -> None:
        """The process is stopped but not dead: inputs pile up, timers are late."""
        if node.state in ("up", "slow"):
            node.set_state("paused")

    def resume(self, node: SimNode) -> None:
        if node.state == "paused":
            node.set_state("slow" if node.step_delay else "up")

    def slow_down(self, node: SimNode, step_delay: Duration) -> None:
        """Every input waits its turn and takes so long; 0 ends it."""
        node.step_delay = step_delay
        if node.state in ("up", "slow"):
            node.set_state("slow" if step_delay else "up")

    def set_clock(self, node: SimNode, clock: Clock) -> None:
        """A clock that is stepped, or begins to drift; only for nodes that were added with one."""
        if node.clock is None:
            raise LocalProtocolError(f"{node.name} was added without a clock of its own: add it with clock=Clock()")
        node.clock = clock

    def inlets_changed(self, node: SimNode) -> None:
        """From this moment on, also for a multicast that is just being delivered."""
        for channel, audience in self._audiences.items():
            position = audience.positions.get(node.index)
            if position is not None:
                audience.inlets[position] = node.ports[channel].hear

    def up(self) -> Iterator[SimNode]:
        return (node for node in self.nodes if node.host is not None)

    # The network's faults.

    def cut(
        self, name: str, links: Iterable[tuple[SimNode, SimNode]], *, both_ways: bool = True, tell: bool = False
    ) -> None:
        """These links carry nothing, what is on them included, until `heal(name)`."""
        pairs = [(a.index, b.index) for a, b in links]
        self.network.cut(name, pairs + [(b, a) for a, b in pairs] if both_ways else pairs)
        self.network_changed()
        if tell:
            self._tell_links(pairs, up=False)

    def partition(self, name: str, *sides: Iterable[SimNode]) -> None:
        """Nobody of one side reaches anybody of another."""
        groups = [list(side) for side in sides]
        self.network.block(
            name, ((a.index, b.index) for g in groups for h in groups if g is not h for a in g for b in h)
        )
        self.network_changed()

    def block(self, name: str, pairs: Iterable[tuple[SimNode, SimNode]]) -> None:
        """One way and end to end: the first of each pair does not reach the second."""
        self.network.block(name, ((a.index, b.index) for a, b in pairs))
        self.network_changed()

    def heal(self, name: str, *, tell: bool = False) -> None:
        healed = self.network.heal(name)
        self.network_changed()
        if tell:
            self._tell_links([(a, b) for a, b in sorted(healed) if a < b], up=True)

    def clog(self, name: str, pairs: Iterable[tuple[SimNode, SimNode]]) -> None:
        """These links hold what they are given, until `release(name)` lets it go."""
        self.network.clog(name, ((a.index, b.index) for a, b in pairs))
        self.network_changed()

    def release(self, name: str) -> None:
        self.network.release(name)
        self.network_changed()
        held, self._clogged = self._clogged, []
        for node, channel, receiver, message in held:
            self._travel(node, channel, receiver, message, 0)

    def _tell_links(self, pairs: Iterable[tuple[int, int]], *, up: bool) -> None:
        for a, b in pairs:
            self.tell(self.nodes[a], LinkChanged(self.nodes[b].name, up))
            self.tell(self.nodes[b], LinkChanged(self.nodes[a].name, up))

    # Effects.

    def send(self, node: SimNode, channel: str, to: NodeId | Address, message: Any) -> None:
        name = NodeId(to.host) if isinstance(to, Address) else to  # In made-up worlds a node's address is its name.
        receiver = self.by_name.get(name)
        if receiver is None:
            self.network.faults["unknown receiver"] += 1
            return
        now, plain = self.now, self._plain and receiver is not node
        at, sequence = (now + self.delay, next(self.sequence)) if plain else (now, 0)
        record = PACK(at, sequence, _SEND, node.index, receiver.index)
        size, message = self._leave(node, channel, message, record, plain=plain)
        if self.trace.lines is not None:
            self.trace.line(now, Kind.SEND, f"{node.name} → {name}", message)
        if receiver is node:
            self._arrive(now, node, channel, node, message)  # To oneself: at once, and surely.
        elif not plain:
            self._travel(node, channel, receiver, message, size)
        elif (self._loaded and self.network.loses_loaded(node.index, now)) or (not self._loaded and not node.next_verdict()):
            self.network.faults["loss"] += 1
        else:
            self.queue((at, sequence, receiver, channel, node, message, record, now, None))

    def multicast(self, node: SimNode, channel: str, message: Any) -> None:
        now, plain = self.now, self._plain
        at, sequence = (now + self.delay, next(self.sequence)) if plain else (now, 0)
        record = PACK(at, sequence, _MULTICAST, node.index, -1)
        size, message = self._leave(node, channel, message, record, plain=plain)
        if self.trace.lines is not None:
            self.trace.line(now, Kind.MULTICAST, f"{node.name} → all", message)
        if plain:
            self.queue((at, sequence, None, channel, node, message, record, now, None))
        else:
            self._spread(node, channel, message, size)

    def _leave(self, node: SimNode, channel: str, message: Any, record: bytes, *, plain: bool) -> tuple[int, Any]:
        data = self.encode(message)
        self.trace.records += (record, data)
        size = self.overhead(node, channel) + len(data)
        if size > self.datagram_max:
            raise LocalProtocolError(
                f"{node.name} sends a {type(message).__name__} of {size:,} bytes; datagrams hold {self.datagram_max:,}"
            )
        traffic = self.traffic_on(channel)
        if plain:
            traffic.sizes.append(size)
        else:
            traffic.messages += 1
            traffic.bytes += size
        if self._loaded:
            self.network.note_send(self.now)
        for watch in self.send_watchers:
            watch(node, channel, message, self.now)
        if self.wire:
            message = self._decoder(node, channel).decode(data)
        return size, message

    def _travel(self, node: SimNode, channel: str, receiver: SimNode, message: Any, size: int) -> None:
        network, extra = self.network, 0
        if network.is_clogged(node.index, receiver.index):
            network.faults["clog"] += 1
            self._clogged.append((node, channel, receiver, message))
            return
        for asked in self.filters:
            verdict = asked(node, channel, receiver, message)
            if verdict == DROP:
                network.faults["filter"] += 1
                return
            extra += verdict
        hops, delays, path = network.route(node.index, receiver.index, self.now)
        self._count_hops(channel, hops, size)
        for delay in delays:
            self._arrive(self.now + delay + extra, node, channel, receiver, message, path)

    def _spread(self, node: SimNode, channel: str, message: Any, size: int) -> None:
        """A multicast where receivers differ: along the tree of shortest paths."""
        network = self.network
        others = [o for o in self.nodes if o is not node and channel in o.ports]
        plain = [o for o in others if not self.filters and not network.is_clogged(node.index, o.index)]
        hops, arrivals = network.tree(node.index, [o.index for o in plain], self.now)
        self._count_hops(channel, hops, size)
        for index, (delays, path) in arrivals.items():
            for delay in delays:
                self._arrive(self.now + delay, node, channel, self.nodes[index], message, path)
        for other in others if self.filters else (o for o in others if network.is_clogged(node.index, o.index)):
            self._travel(node, channel, other, message, size)

    def _arrive(
        self,
        at: Instant,
        node: SimNode,
        channel: str,
        receiver: SimNode,
        message: Any,
        path: list[tuple[int, int]] | None = None,
    ) -> None:
        sequence = next(self.sequence)
        record = PACK(at, sequence, _ARRIVE, receiver.index, node.index)
        self.queue((at, sequence, receiver, channel, node, message, record, self.now, path))

    def queue(self, entry: tuple[Any, ...]) -> None:
        at, ordered = entry[0], self.ordered
        if not ordered or at >= ordered[-1][0]:
            ordered.append(entry)
        else:
            heappush(self._arrivals, entry)

    def _count_hops(self, channel: str, hops: int, size: int) -> None:
        traffic = self.traffic_on(channel)
        traffic.hops += hops
        traffic.hop_bytes += hops * size

    def write(self, node: SimNode, port: Port, data: bytes) -> None:
        entry = (node, port, data)
        self._writes.append(entry)

        def durable() -> None:
            if entry in self._writes:  # Else the node crashed meanwhile.
                self._writes.remove(entry)
                node.disk[port.channel] = data
                node.enter(port.durable)

        self.at(self.now + self.disk_delay, durable, f"{node.name}/{port.channel} durable")

    def traffic_on(self, channel: str) -> Traffic:
        traffic = self._traffic.get(channel)
        if traffic is None:
            traffic = self._traffic[channel] = Traffic()
        return traffic

    def overhead(self, node: SimNode, channel: str) -> int:
        """The envelope's bytes, by the real codec."""
        key = (len(node.name.encode()), node.incarnation, channel)
        overhead = self._overheads.get(key)
        if overhead is None:
            data = Codec("sim", datagram_max=65_507).encode(node.name, node.incarnation, channel, None)
            overhead = self._overheads[key] = len(data) - 1
        return overhead

    def _decoder(self, node: SimNode, channel: str) -> Decoder[Any]:
        if channel not in self._decoders:
            assert node.host is not None
            self._decoders[channel] = Decoder(node.host.ports[channel].machine.MESSAGES)
        return self._decoders[channel]

    # Time.

    def at(self, when: Instant, act: Callable[[], Any], what: str) -> None:
        """Plans something that the world does, to happen after the deliveries of that instant."""
        if when < self.now:
            raise LocalProtocolError(f"{what}: {when} ns is in the past (now is {self.now} ns)")
        heappush(self.timers, (when, next(self.sequence), None, (act, what), -1))

    def run(self, until: Instant = FOREVER) -> None:
        """Runs until that instant (included), until nothing is left, or until a watcher sets `stopped`."""
        # Names are local and calls few: this loop is where large simulations spend their time.
        ordered, arrivals, timers, unsettled = self.ordered, self._arrivals, self.timers, self._unsettled
        checks, note, next_delivery = self.checks, self.trace.records.append, self.ordered.popleft
        lines, last, events, deliveries = self.trace.lines is not None, min(until, FOREVER - 1), 0, 0
        while not self.stopped:
            if arrivals and not (ordered and ordered[0] < arrivals[0]):
                at, in_order = arrivals[0][0], False
            else:
                at, in_order = ordered[0][0] if ordered else FOREVER, True
            if timers and timers[0][0] < at:
                at = timers[0][0]
                if at > last:
                    break
                self.now = at
                _, sequence, port, timer, index = heappop(timers)
                if port is None:
                    self._act(sequence, timer)
                else:
                    note(PACK(at, sequence, _TIMER, index, 0))
                    if lines:
                        self.trace.line(at, Kind.TIMER, f"{port.host.node}/{port.channel}", timer)
                    fire = port.fire  # Python 3.11 calls what a name holds faster than what a slot holds.
                    fire(timer, at)
            else:
                if at > last:
                    break
                self.now = at
                entry = next_delivery() if in_order else heappop(arrivals)
                _, _, receiver, channel, node, message, record, self.sent_at, path = entry
                note(record)
                if receiver is None:
                    self._deliver_to_all(at, channel, node, message)
                elif channel in receiver.ports and self.quick:
                    deliveries += 1
                    hear = receiver.ports[channel].hear
                    hear(node.name, message, at)
                else:
                    self._deliver(at, receiver, channel, node, message, path)
            while unsettled:
                unsettled[-1].settle(at)
            if checks:
                for check in checks:
                    check(at)
            events += 1
            if not events % _FLUSH_EVERY:
                self._take_stock()
        self.event_count += events
        self.delivery_count += deliveries
        if not self.stopped and until < FOREVER:
            self.now = max(self.now, until)

    def _take_stock(self) -> None:
        """What was only noted is hashed, and counted."""
        self.trace.flush()
        for traffic in self._traffic.values():
            traffic.count()

    def _act(self, sequence: int, plan: tuple[Callable[[], Any], str]) -> None:
        act, what = plan
        kind = Kind.DURABLE if what.endswith(" durable") else Kind.WORLD
        self.trace.records.append(PACK(self.now, sequence, kind, -1, 0) + what.encode())
        if self.trace.lines is not None:
            self.trace.line(self.now, kind, "", what)
        act()

    def _note(self, what: str, node: SimNode) -> None:
        """A start or a crash, whoever caused it."""
        self.trace.records.append(PACK(self.now, 0, Kind.WORLD, node.index, node.incarnation) + what.encode())
        if self.trace.lines is not None:
            self.trace.line(self.now, Kind.WORLD, node.name, what)

    def _deliver(
        self,
        at: Instant,
        receiver: SimNode,
        channel: str,
        node: SimNode,
        message: Any,
        path: list[tuple[int, int]] | None,
    ) -> None:
        host = receiver.host
        if host is None:
            self.network.faults["receiver down"] += 1
            return
        if not self._plain and self.network.cut_since(node.index, receiver.index, path):
            self.network.faults["cut in flight"] += 1
            return
        port = host.ports.get(channel)
        if port is None:
            host.unknown_channel_count += 1
            return
        if self.trace.lines is not None:
            self.trace.line(at, Kind.ARRIVE, f"{node.name} → {receiver.name}", message)
        self.delivery_count += 1
        port.hear(node.name, message, at)

    def _deliver_to_all(self, at: Instant, channel: str, node: SimNode, message: Any) -> None:
        audience = self._audiences.get(channel)
        if audience is None:
            audience = self._audiences[channel] = self._audience(channel)
        inlets, network, sent_at = audience.inlets, self.network, self.sent_at
        size = len(inlets)
        position = audience.positions.get(node.index)
        if position is None:  # Its sender is gone, its words are not.
            mask = network.mask(node.index, size, size + 1, sent_at)[:size]
        else:
            mask = network.mask(node.index, position, size, sent_at)
        if not self._plain:
            for index, place in audience.positions.items():
                if mask[place] and network.cut_since(node.index, index, None):
                    network.faults["cut in flight"] += 1
                    mask[place] = 0
        self.trace.records.append(mask)
        heard = size - mask.count(0)
        self.delivery_count += heard
        if self.trace.lines is not None:
            self.trace.line(at, Kind.ARRIVE, f"{node.name} → {heard} of {size}", message)
        sender, unsettled = node.name, self._unsettled
        for hear in compress(inlets, mask):
            hear(sender, message, at)
            while unsettled:
                unsettled[-1].settle(at)

    def _audience(self, channel: str) -> _Audience:
        return _Audience(channel, [node for node in self.nodes if channel in node.ports])
