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
from heapq import heapify, heappush
from itertools import compress, count, takewhile
from typing import Any, Final, Literal

from msgspec import Raw
from msgspec.msgpack import Decoder, Encoder

from doyen.core.clock import FOREVER, Duration, Instant
from doyen.core.codec import DATAGRAM_MAX
from doyen.core.host import Host, Port
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.errors import ConfigError, LocalProtocolError
from doyen.sim.channel import Channel, Everybody, Inlet
from doyen.sim.channel import Traffic as Traffic
from doyen.sim.inflight import lose_what_is_cut
from doyen.sim.loop import run
from doyen.sim.network import Network, Obstacle
from doyen.sim.node import Clock, Setup, SimNode
from doyen.sim.streams import Streams
from doyen.sim.timers import Timers
from doyen.sim.trace import Trace

Watcher = Callable[[SimNode, str, Any, Instant], None]  # (node, channel, fact or message, now)
Listener = Callable[[SimNode, str, NodeId, Any], None]  # (node, channel, sender, message)
DROP: Final = -1  # A filter's verdict.
# (sender, channel, receiver, message) → extra delay, or DROP.
Filter = Callable[[SimNode, str, SimNode, Any], Duration]
Pair = tuple[SimNode, SimNode]


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
        self.watchers: list[Watcher] = []  # Called with every fact.
        self.send_watchers: list[Watcher] = []  # Called with every message as it leaves.
        self.hear_watchers: list[Listener] = []  # Called with every message as a machine takes it in.
        # Called with what is done to a node: crash, pause, slow, clock just before it; start, resume, corrupt after.
        self.deed_watchers: list[Callable[[str, SimNode], None]] = []
        self.network_watchers: list[Callable[[], None]] = []  # Called after every change of the network.
        self.disturbed_at: Instant = 0  # When anything was last done to a node or to the network,
        self.network_changed_at: Instant = 0  # and when to the network.
        self.checks: list[Callable[[Instant], None]] = []  # Called after every event.
        self.filters: list[Filter] = []  # Asked for every delivery, once there is one.
        # A heap of what is called once all of that instant is done.
        self.looks: list[tuple[Instant, int, Callable[[], None]]] = []
        self.stopped = False
        self.sent_at: Instant = 0  # When the message being delivered was sent.
        self.event_count = self.delivery_count = self.record_count = 0
        self.sequence = count(1)
        self._look_numbers = count()
        self.timers = Timers()
        # Deliveries: (at, sequence, inlet, sender, message, sent at, path); those in `ordered`, while all is quick,
        # go without the last two, which `complete` adds.
        self.ordered: deque[tuple[Any, ...]] = deque()  # In the order of their arrival …
        self.arrivals: list[tuple[Any, ...]] = []  # … and those that came out of it: a heap.
        self.unsettled: list[Host] = []
        self._channels: dict[str, Channel] = {}
        self._clogged: list[tuple[SimNode, Channel, SimNode, Any]] = []
        self._writes: list[tuple[SimNode, Port, bytes]] = []  # On their way to a disk.
        self.encode = Encoder().encode
        self._decoders: dict[str, Decoder[Any]] = {}
        self.network_changed()

    def channel(self, name: str) -> Channel:
        channel = self._channels.get(name)
        if channel is None:
            channel = self._channels[name] = Channel(self, name)
        return channel

    @property
    def traffic(self) -> dict[str, Traffic]:
        """Return what was sent, by channel, of those on which anything was."""
        return {name: channel.traffic for name, channel in self._channels.items() if channel.message_count}

    @property
    def message_count(self) -> int:
        return sum(channel.message_count for channel in self._channels.values())

    def network_changed(self) -> None:
        """Decide whether the network is plain: here, once, and not at every message."""
        self.disturbed_at = self.network_changed_at = self.now
        self.arrivals += map(self.complete, self.ordered)  # By the delay that they were sent with.
        heapify(self.arrivals)
        self.ordered.clear()
        config = self.network.config
        self._plain = self.network.plain and not self.filters
        self.delay = config.delay.mean
        self._loaded = config.loss.model == "load"
        # Ports may send by themselves (see channel.py).  What they add to `ordered` is in order: their delay is the
        # same for all, and what came from other times is out of it.
        seen_through = self._loaded or self.wire or self.trace.lines is not None
        self.quick = self._plain and not seen_through
        # Likewise hop by hop, where all hops are alike; there all deliveries are in `arrivals`.
        even = not self.network.plain and self.network.unbroken and self.network.is_even()
        self.by_hops = even and not (self.filters or seen_through)
        self.trace.records.append(self.delay)  # Arrivals over a plain network note no instant of their own.
        for channel in self._channels.values():
            channel.network_changed()
        for watch in self.network_watchers:
            watch()

    def complete(self, entry: tuple[Any, ...]) -> tuple[Any, ...]:
        return entry if len(entry) == 7 else (*entry, entry[0] - self.delay, None)

    # Nodes.

    def add(self, name: NodeId, setup: Setup, *, clock: Clock | None = None) -> SimNode:
        """Add a node that has not started."""
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

    def start(self, node: SimNode, *, ran: bool = False) -> None:
        """Start a node; `ran`: its machines have run elsewhere, and go on."""
        assert node.host is None, f"{node.name} runs already"
        node.incarnation = Incarnation(node.incarnation + 1)
        node.host = host = Host(node.name, node, self.unsettled)
        node.ports = host.ports
        node.setup(node, host)
        if node.clock is not None or node.step_delay or self.hear_watchers:
            node.set_state("slow" if node.step_delay else "up")
        else:
            node.state = "up"
            for port in host.ports.values():
                self.channel(port.channel).connect(node, port.hear)
        self.network.topology.set_down(node.index, False)
        self._note("start", node)
        if not ran:
            host.start(node.now())
        self.note_deed("start", node)

    def note_deed(self, deed: str, node: SimNode) -> None:
        """Notify those who watch what is done to nodes."""
        for watch in self.deed_watchers:
            watch(deed, node)
        self.disturbed_at = self.now

    def crash(self, node: SimNode, *, disk: Literal["kept", "lost"] = "kept") -> None:
        """Stop a node at once.  Records on their way to the disk are lost."""
        if node.host is None:
            return
        self.note_deed("crash", node)
        self._note("crash", node)
        self._writes = [write for write in self._writes if write[0] is not node]
        for port in node.ports.values():
            port.silence()
            self.channel(port.channel).disconnect(node, port.hear)
        node.host, node.ports = None, {}
        node.set_state("down")
        if disk == "lost":
            node.disk.clear()
        self.network.topology.set_down(node.index, True)

    def tell(self, node: SimNode, fact: Any, *, channel: str | None = None) -> None:
        """Give a node a command, or a fact: an answer, news of a link, a membership recorded elsewhere."""
        host = node.host
        if host is not None:
            node.enter(lambda now: host.tell(fact, now, channel=channel))

    def pause(self, node: SimNode) -> None:
        """Stop the process without killing it: inputs pile up, timers are late."""
        self.note_deed("pause", node)
        if node.state in ("up", "slow"):
            node.set_state("paused")

    def resume(self, node: SimNode) -> None:
        """Let a paused process go on: it takes what has piled up."""
        if node.state == "paused":
            node.set_state(node.able_state())
            self.note_deed("resume", node)

    def slow_down(self, node: SimNode, step_delay: Duration) -> None:
        """Have every input of a node wait its turn and take that long; 0 ends it."""
        if node.step_delay != step_delay:
            self.note_deed("slow", node)
        node.step_delay = step_delay
        if node.state in ("up", "slow"):
            node.set_state(node.able_state())

    def set_clock(self, node: SimNode, clock: Clock) -> None:
        """Step a node's clock, or let it drift; only for nodes that were added with a clock of their own."""
        self.note_deed("clock", node)
        if node.clock is None:
            raise LocalProtocolError(f"{node.name} was added without a clock of its own: add it with clock=Clock()")
        node.clock = clock

    def up(self) -> Iterator[SimNode]:
        return (node for node in self.nodes if node.host is not None)

    # The network's faults.

    def cut(self, name: str, links: Iterable[Pair]) -> None:
        """Have these links carry nothing, both ways, what is on them included, until `heal(name)`."""
        self._obstruct("cut", name, [both for a, b in links for both in ((a, b), (b, a))])

    def partition(self, name: str, *sides: Iterable[SimNode]) -> None:
        """Cut the sides apart: nobody of one side reaches anybody of another."""
        groups = [list(side) for side in sides]
        self.block(name, [(a, b) for g in groups for h in groups if g is not h for a in g for b in h])

    def block(self, name: str, pairs: Iterable[Pair]) -> None:
        """Cut one way, end to end: the first of each pair does not reach the second."""
        self._obstruct("block", name, pairs)

    def heal(self, name: str) -> None:
        lose_what_is_cut(self)
        self.network.clear(name)
        self.network_changed()

    def clog(self, name: str, pairs: Iterable[Pair]) -> None:
        """Have these links hold what they are given, until `release(name)` lets it go."""
        self._obstruct("clog", name, pairs)

    def release(self, name: str) -> None:
        self.network.clear(name)
        self.network_changed()
        held, self._clogged = self._clogged, []
        for node, channel, receiver, message in held:
            self.travel(node, channel, receiver, message, 0)

    def _obstruct(self, kind: Obstacle, name: str, pairs: Iterable[Pair]) -> None:
        self.network.obstruct(kind, name, ((a.index, b.index) for a, b in pairs))
        self.network_changed()

    # Effects.

    def send(self, node: SimNode, channel: Channel, to: NodeId | Address, message: Any) -> None:
        name = NodeId(to.host) if isinstance(to, Address) else to  # In made-up worlds a node's address is its name.
        receiver = self.by_name.get(name)
        if receiver is None:
            self.network.faults["unknown receiver"] += 1
            return
        plain = self._plain and receiver is not node
        size, message = self._leave(node, channel, receiver.index, message, plain=plain)
        if self.trace.lines is not None:
            self.trace.line(self.now, "send", f"{node.name} → {name}", message)
        if receiver is node:
            self._arrive(self.now, node, channel, node, message)  # To oneself: at once, and surely.
        elif not plain:
            self.travel(node, channel, receiver, message, size)
        elif not self._loaded:
            inlet = channel.inlet(receiver)
            if channel.inlet(node).next_is_heard(inlet):
                self._arrive(self.now + self.delay, node, channel, receiver, message)
        elif self.network.loses_loaded(node.index, self.now):
            self.count_loss(receiver.index)
        else:
            self._arrive(self.now + self.delay, node, channel, receiver, message)

    def count_loss(self, receiver: int) -> None:
        """Count a unicast that was lost over a plain network."""
        self.network.faults["loss"] += 1
        self.trace.records.append(-1 - receiver)

    def multicast(self, node: SimNode, channel: Channel, message: Any) -> None:
        size, message = self._leave(node, channel, -1, message, plain=self._plain)
        if self.trace.lines is not None:
            self.trace.line(self.now, "multicast", f"{node.name} → all", message)
        if self._plain:
            everybody = channel.everybody
            self._queue((self.now + self.delay, next(self.sequence), everybody, node.name, message, self.now, None))
        else:
            self._spread(node, channel, message, size)

    def _leave(self, node: SimNode, channel: Channel, peer: int, message: Any, *, plain: bool) -> tuple[int, Any]:
        outbox, data = channel.outbox(node), self.encode(message)
        if len(data) > outbox.room:
            raise LocalProtocolError(
                f"{node.name} sends a {type(message).__name__} of {outbox.overhead + len(data):,} bytes; "
                f"datagrams hold {self.datagram_max:,}"
            )
        size = outbox.overhead + len(data)
        if plain:
            outbox.messages.append(Raw(data))
        else:
            self.trace.records += (peer, data)
            channel.counts.messages += 1
            channel.counts.bytes += size
        if self._loaded:
            self.network.note_send(self.now)
        for watch in self.send_watchers:
            watch(node, channel.name, message, self.now)
        if self.wire:
            message = self._decoder(node, channel.name).decode(data)
        return size, message

    def travel(self, node: SimNode, channel: Channel, receiver: SimNode, message: Any, size: int) -> None:
        network, extra = self.network, 0
        if not network.unbroken and network.is_clogged(node.index, receiver.index):
            network.faults["clog"] += 1
            self._clogged.append((node, channel, receiver, message))
            return
        for asked in self.filters:
            verdict = asked(node, channel.name, receiver, message)
            if verdict == DROP:
                network.faults["filter"] += 1
                return
            extra += verdict
        hops, delays, path = network.route(node.index, receiver.index, self.now)
        counts = channel.counts
        counts.hops += hops
        counts.hop_bytes += hops * size
        for delay in delays:
            self._arrive(self.now + delay + extra, node, channel, receiver, message, path)

    def _spread(self, node: SimNode, channel: Channel, message: Any, size: int) -> None:
        """Send a multicast along the tree of shortest paths, where receivers differ."""
        network = self.network
        others = [o for o in self.nodes if o is not node and channel.name in o.ports]
        plain = [o for o in others if not self.filters and not network.is_clogged(node.index, o.index)]
        hops, arrivals = network.tree(node.index, [o.index for o in plain], self.now)
        channel.counts.count_hops(hops, size)
        for index, (delays, path) in arrivals.items():
            for delay in delays:
                self._arrive(self.now + delay, node, channel, self.nodes[index], message, path)
        for other in others if self.filters else (o for o in others if network.is_clogged(node.index, o.index)):
            self.travel(node, channel, other, message, size)

    def _arrive(
        self,
        at: Instant,
        node: SimNode,
        channel: Channel,
        receiver: SimNode,
        message: Any,
        path: list[tuple[int, int]] | None = None,
    ) -> None:
        self._queue((at, next(self.sequence), channel.inlet(receiver), node.name, message, self.now, path))

    def _queue(self, entry: tuple[Any, ...]) -> None:
        if not self._plain:
            self.trace.records.append(entry[0])
        ordered = self.ordered
        if self.quick:
            entry = entry[:5]
        if self.by_hops:
            heappush(self.arrivals, entry)
        elif not ordered or entry[0] >= ordered[-1][0]:
            ordered.append(entry)
        elif self.quick and entry[0] == self.now:  # To oneself; the loop counts on it that no machine adds arrivals.
            ordered.insert(sum(1 for _ in takewhile(lambda earlier: earlier[0] == self.now, ordered)), entry)
        else:
            heappush(self.arrivals, self.complete(entry))

    def write(self, node: SimNode, port: Port, data: bytes) -> None:
        entry = (node, port, data)
        self.record_count += 1
        self._writes.append(entry)

        def durable() -> None:
            if entry in self._writes:  # Else the node crashed meanwhile.
                self._writes.remove(entry)
                node.disk[port.channel] = data
                node.enter(port.durable)

        self.at(self.now + self.disk_delay, durable, f"{node.name}/{port.channel} durable")

    def _decoder(self, node: SimNode, channel: str) -> Decoder[Any]:
        if channel not in self._decoders:
            assert node.host is not None
            self._decoders[channel] = Decoder(node.host.ports[channel].machine.MESSAGES)
        return self._decoders[channel]

    # Time.

    def at(self, when: Instant, act: Callable[[], Any], what: str) -> None:
        """Plan something that the world does, to happen after the deliveries of that instant."""
        if when < self.now:
            raise LocalProtocolError(f"{what}: {when} ns is in the past (now is {self.now} ns)")
        heappush(self.timers.heap, (when, next(self.sequence), None, (act, what), -1, None))

    def look(self, when: Instant, look: Callable[[], None]) -> None:
        """Plan a look that changes nothing and leaves no trace, once everything of that instant has happened."""
        heappush(self.looks, (when, next(self._look_numbers), look))

    def run(self, until: Instant = FOREVER) -> None:
        """Run until that instant (included), until nothing is left, or until a watcher sets `stopped`."""
        run(self, until)
        if not self.stopped and until < FOREVER:
            self.now = max(self.now, until)

    def settle(self, at: Instant) -> None:
        while self.unsettled:
            self.unsettled[-1].settle(at)

    def act(self, plan: tuple[Callable[[], Any], str]) -> None:
        act, what = plan
        self.trace.records.append(what)
        if self.trace.lines is not None:
            self.trace.line(self.now, "durable" if what.endswith(" durable") else "world", "", what)
        act()

    def _note(self, what: str, node: SimNode) -> None:
        """Write a start or a crash to the trace."""
        self.trace.records += (self.now, node.index, node.incarnation, what)
        if self.trace.lines is not None:
            self.trace.line(self.now, "world", node.name, what)

    def deliver(
        self, at: Instant, inlet: Inlet | Everybody, node: SimNode, message: Any, path: list[tuple[int, int]] | None
    ) -> None:
        """Deliver a message to one node, in whatever state it and the network are; or to all."""
        if isinstance(inlet, Everybody):
            self._deliver_to_all(at, inlet.channel, node, message)
            return
        self.trace.records.append(inlet.index)
        receiver, host = inlet.node, inlet.node.host
        if host is None:
            self.network.faults["receiver down"] += 1
            return
        if not self.network.unbroken and self.network.cut_since(node.index, receiver.index, path):
            self.network.faults["cut in flight"] += 1
            return
        port = host.ports.get(inlet.channel.name)
        if port is None:
            host.unknown_channel_count += 1
            return
        if self.trace.lines is not None:
            self.trace.line(at, "arrive", f"{node.name} → {receiver.name}", message)
        self.delivery_count += 1
        port.hear(node.name, message, at)

    def _deliver_to_all(self, at: Instant, channel: Channel, node: SimNode, message: Any) -> None:
        audience, network, sent_at = channel.audience, self.network, self.sent_at
        size = len(audience.hears)
        position = audience.positions.get(node.index)
        if position is None:  # Its sender is gone, its message is not.
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
            self.trace.line(at, "arrive", f"{node.name} → {heard} of {size}", message)
        sender, unsettled = node.name, self.unsettled
        for hear in compress(audience.hears, mask):
            hear(sender, message, at)
            if unsettled:
                self.settle(at)
