"""Made-up time: the same machines, a queue of events, and a network that can do anything on request.

Events are ordered by (time, deliveries before timers, sequence), so that an arrival at the very instant of a
deadline wins, and two runs of one seed are the same to the last byte of their trace.

Where the speed comes from: a multicast over a plain network is *one* queue entry, whose hearers are chosen by a
mask when it arrives; deliveries that are sent in the order of their arrival (any fixed delay) need no heap, only
a queue; a node's state (down, paused, slow, skewed clock) is not asked for at each event, it replaces the port's
inlets while it lasts; records are hashed in large pieces and never formatted unless a trace is asked for.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from heapq import heappop, heappush
from itertools import compress, count
from typing import Any, Literal

from msgspec.msgpack import Encoder

from doyen.core.clock import FOREVER, Duration, Instant
from doyen.core.codec import Codec
from doyen.core.host import Host, Port, Verbs
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.errors import ConfigError, LocalProtocolError
from doyen.sim.network import Network
from doyen.sim.streams import Stream, Streams
from doyen.sim.trace import PACK, Kind, Trace

Watcher = Callable[["SimNode", str, Any, Instant], None]  # (node, channel, fact, now): told of every fact.
State = Literal["down", "up", "paused", "slow"]

_SEND, _MULTICAST, _ARRIVE, _TIMER = int(Kind.SEND), int(Kind.MULTICAST), int(Kind.ARRIVE), int(Kind.TIMER)
_DURABLE, _WORLD, _FACT = int(Kind.DURABLE), int(Kind.WORLD), int(Kind.FACT)


class Clock:
    """A node's own clock: offset from true time, and a rate that is not quite one."""

    __slots__ = ("offset", "rate")

    def __init__(self, offset: Duration = 0, drift: float = 0.0) -> None:
        self.offset, self.rate = offset, 1.0 + drift

    def local(self, true: Instant) -> Instant:
        return self.offset + true if self.rate == 1.0 else self.offset + int(true * self.rate)

    def true(self, local: Instant) -> Instant:
        """The first true instant at which this clock shows at least `local`."""
        if self.rate == 1.0:
            return local - self.offset
        guess = int((local - self.offset) / self.rate)
        while self.local(guess) < local:
            guess += 1
        return guess


class SimNode:
    """One simulated node: the world of its host."""

    __slots__ = (
        "backlog",
        "busy_until",
        "clock",
        "disk",
        "host",
        "incarnation",
        "index",
        "name",
        "setup",
        "sim",
        "state",
        "step_delay",
    )

    def __init__(self, sim: "Simulation", name: NodeId, index: int, setup: "Setup", clock: Clock | None) -> None:
        self.sim, self.name, self.index, self.setup = sim, name, index, setup
        self.clock = clock
        self.host: Host | None = None
        self.state: State = "down"
        self.incarnation = Incarnation(0)
        self.disk: dict[str, Any] = {}  # What is durable, by channel.
        self.backlog: list[Callable[[Instant], None]] = []  # Inputs that wait while the node is paused.
        self.step_delay: Duration = 0  # slow: how long each input takes.
        self.busy_until: Instant = 0

    def rng(self, purpose: str = "protocol") -> Stream:
        """The chance of this node for one purpose; a restarted node goes on to other draws."""
        purpose = purpose if self.incarnation == 1 else f"{purpose}#{self.incarnation}"
        return self.sim.streams.of(purpose, self.index)

    def now(self) -> Instant:
        return self.sim.now if self.clock is None else self.clock.local(self.sim.now)

    # The world of a host.

    def verbs(self, port: Port) -> Verbs:
        sim, channel, clock = self.sim, port.channel, self.clock
        timers, sequence = sim._timers, sim._sequence

        def set_timer(timer: Any, at: Instant) -> None:
            if at < FOREVER:
                heappush(timers, (at if at > sim.now else sim.now, next(sequence), port, timer))

        def set_skewed_timer(timer: Any, at: Instant) -> None:
            assert clock is not None
            if at < FOREVER:
                heappush(timers, (max(clock.true(at), sim.now), next(sequence), port, timer))

        return Verbs(
            partial(sim._send, self, channel),
            partial(sim._multicast, self, channel),
            set_timer if clock is None else set_skewed_timer,
        )

    def persist(self, port: Port, record: Any) -> None:
        self.sim._persist(self, port, record)

    def observe(self, port: Port, fact: Any, now: Instant) -> None:
        sim = self.sim
        if sim.trace.lines is not None:
            sim.trace.line(sim.now, Kind.FACT, self.name, fact)
        for watch in sim.watchers:
            watch(self, port.channel, fact, sim.now)


Setup = Callable[[SimNode, Host], None]  # Adds a node's machines to its host; called at each (re)start.


class _Audience:
    """Who hears a multicast on one channel now, in order of their indices."""

    __slots__ = ("hears", "nodes", "positions")

    def __init__(self, ports: list[tuple[SimNode, Port]]) -> None:
        self.nodes = [node for node, _ in ports]
        self.hears = [port.hear for _, port in ports]
        self.positions = {node.index: i for i, node in enumerate(self.nodes)}


class Simulation:
    """One run."""

    def __init__(
        self, network: Network, streams: Streams, *, trace: Trace | None = None, disk_delay: Duration = 0
    ) -> None:
        self.network, self.streams = network, streams
        self.trace = trace or Trace()
        self.disk_delay = disk_delay
        self.now: Instant = 0
        self.nodes: list[SimNode] = []
        self.by_name: dict[NodeId, SimNode] = {}
        self.watchers: list[Watcher] = []
        self.send_watchers: list[Callable[[SimNode, str, Any, Instant], None]] = []
        self.checks: list[Callable[[Instant], None]] = []  # Called after every event.
        self.stopped = False
        self.sent_at: Instant = 0  # Of the message being delivered.
        self.event_count = self.delivery_count = self.message_count = self.byte_count = self.hop_count = 0
        self._sequence = count(1)
        self._ordered: deque[tuple[Any, ...]] = deque()  # Deliveries in the order of their arrival …
        self._arrivals: list[tuple[Any, ...]] = []  # … and those that came out of it: a heap.
        self._timers: list[tuple[Any, ...]] = []  # Timers and the world's own plans: a heap.
        self._facts: list[tuple[Port, Any]] = []
        self._audiences: dict[str, _Audience] = {}
        self._held: list[tuple[SimNode, str, SimNode, Any]] = []  # On clogged links.
        self._encode = Encoder().encode
        self._overheads: dict[tuple[str, str], int] = {}
        self.set_network(network)

    def set_network(self, network: Network) -> None:
        """Also to be called when the network's faults changed: the plain case is decided here, once."""
        self.network, self._plain = network, network.plain
        self._delay = network.config.delay.mean
        self._loaded = network.config.loss.model == "load"
        self._loss = 0.0 if network.config.loss.model == "none" else network.config.loss.prob

    # Nodes.

    def add(self, name: NodeId, setup: Setup, *, clock: Clock | None = None) -> SimNode:
        """A node that exists but has not started."""
        if name in self.by_name:
            raise ConfigError(f"two nodes are called {name!r}: names must differ")
        index = len(self.nodes)
        if index >= self.network.topology.size:
            self.network.topology.grow()
        node = SimNode(self, name, index, setup, clock)
        self.nodes.append(node)
        self.by_name[name] = node
        return node

    def start(self, node: SimNode) -> None:
        assert node.state == "down"
        node.incarnation = Incarnation(node.incarnation + 1)
        node.state = "up"
        node.host = host = Host(node.name, node, self._facts)
        node.setup(node, host)
        self._audiences.clear()
        self.network.topology.set_down(node.index, False)
        if node.clock is not None:
            self._reconnect(node)
        host.start(node.now())

    def crash(self, node: SimNode, *, keep_disk: bool = True) -> None:
        """Stops at once, mid-sentence: what is not durable is lost; so is the disk, unless it is kept."""
        if node.host is None:
            return
        for port in node.host.ports.values():
            port.hear, port.fire = _deaf, _deaf_timer
            port.send = port.multicast = port.set_timer = port.emit = port.persist = (
                _mute  # A held effect must not leave.
            )
        node.host, node.state = None, "down"
        node.backlog.clear()
        if not keep_disk:
            node.disk.clear()
        self._audiences.clear()
        self.network.topology.set_down(node.index, True)

    def command(self, node: SimNode, channel: str, name: str, **arguments: Any) -> None:
        if node.host is not None:
            node.host.command(channel, name, node.now(), **arguments)

    def pause(self, node: SimNode) -> None:
        """The process is stopped but not dead: inputs pile up, timers are late."""
        if node.state in ("up", "slow"):
            node.state = "paused"
            self._reconnect(node)

    def resume(self, node: SimNode) -> None:
        if node.state == "paused":
            node.state = "slow" if node.step_delay else "up"
            backlog, node.backlog = node.backlog, []
            self._reconnect(node)
            for entry in backlog:
                entry(self.now)

    def slow_down(self, node: SimNode, step_delay: Duration) -> None:
        """Every input waits its turn and takes so long; 0 ends it."""
        node.step_delay = step_delay
        if node.state in ("up", "slow"):
            node.state = "slow" if step_delay else "up"
            self._reconnect(node)

    def _reconnect(self, node: SimNode) -> None:
        """Puts the world between the network and the machines while the node is not itself."""
        assert node.host is not None
        self._audiences.clear()
        for port in node.host.ports.values():
            machine = port.machine
            if node.state == "up" and node.clock is None:
                port.hear, port.fire = machine.on_message, machine.on_timer
            else:
                port.hear, port.fire = self._inlets(node, port)

    def _inlets(self, node: SimNode, port: Port) -> tuple[Callable[..., None], Callable[..., None]]:
        host, machine = node.host, port.machine
        assert host is not None

        def enter(step: Callable[[Instant], None]) -> None:
            if node.state == "paused":
                self.network.faults["late by pause"] += 1
                node.backlog.append(lambda now: enter(step))
            elif node.state == "slow":
                self.network.faults["slow step"] += 1
                node.busy_until = max(node.busy_until, self.now) + node.step_delay
                self.at(node.busy_until, lambda: take(step), f"{node.name} gets to it")
            else:
                take(step)

        def take(step: Callable[[Instant], None]) -> None:
            if node.host is host:
                now = node.now()
                step(now)
                host.settle(now)

        def hear(sender: NodeId, message: Any, now: Instant) -> None:
            enter(lambda now: machine.on_message(sender, message, now))

        def fire(timer: Any, now: Instant) -> None:
            enter(lambda now: machine.on_timer(timer, now))

        return hear, fire

    # Effects.

    def _note_send(self, kind: int, node: SimNode, peer: int, channel: str, message: Any) -> None:
        data = self._encode(message)
        buffer = self.trace.buffer
        buffer += PACK(self.now, 0, kind, node.index, peer)
        buffer += data
        self.message_count += 1
        overhead = self._overheads.get((node.name, channel))
        if overhead is None:
            codec = Codec("sim", datagram_max=65_507)
            overhead = len(codec.encode(node.name, node.incarnation, channel, None)) - 1
            self._overheads[node.name, channel] = overhead
        self.byte_count += overhead + len(data)
        for watch in self.send_watchers:
            watch(node, channel, message, self.now)

    def _send(self, node: SimNode, channel: str, to: NodeId | Address, message: Any) -> None:
        if isinstance(to, Address):
            to = NodeId(to.host)  # In made-up worlds a node's address is its name.
        receiver = self.by_name.get(to)
        if receiver is None:
            self.network.faults["unknown receiver"] += 1
            return
        self._note_send(_SEND, node, receiver.index, channel, message)
        if self.trace.lines is not None:
            self.trace.line(self.now, Kind.SEND, f"{node.name} → {to}", message)
        if self._plain:
            self.hop_count += 1
            if self._loaded:
                self.network.note_send(self.now)
            if self._loss and self.network._lost_on(node.index, receiver.index, node.index, self.now):
                return
            self._arrive(self.now + self._delay, node, channel, receiver, message)
        else:
            self._route(node, channel, receiver, message)

    def _route(self, node: SimNode, channel: str, receiver: SimNode, message: Any) -> None:
        network = self.network
        if self._loaded:
            network.note_send(self.now)
        if network.is_clogged(node.index, receiver.index):
            network.faults["clog"] += 1
            self._held.append((node, channel, receiver, message))
            return
        hops, delays = network.route(node.index, receiver.index, self.now)
        self.hop_count += hops
        for delay in delays:
            self._arrive(self.now + delay, node, channel, receiver, message)

    def _multicast(self, node: SimNode, channel: str, message: Any) -> None:
        self._note_send(_MULTICAST, node, -1, channel, message)
        if self.trace.lines is not None:
            self.trace.line(self.now, Kind.MULTICAST, f"{node.name} → all", message)
        network = self.network
        if self._loaded:
            network.note_send(self.now)
        if self._plain:
            self.hop_count += 1
            self._arrive(self.now + self._delay, node, channel, None, message)
            return
        others = [other for other in self.nodes if other is not node and other.host is not None]
        for other in others:
            if network.is_clogged(node.index, other.index):
                network.faults["clog"] += 1
                self._held.append((node, channel, other, message))
        open_to = [o.index for o in others if not network.is_clogged(node.index, o.index)]
        hops, arrivals = network.tree(node.index, open_to, self.now)
        self.hop_count += hops
        for index, delays in arrivals.items():
            for delay in delays:
                self._arrive(self.now + delay, node, channel, self.nodes[index], message)

    def _arrive(self, at: Instant, node: SimNode, channel: str, receiver: SimNode | None, message: Any) -> None:
        entry = (at, next(self._sequence), node, channel, receiver, message, self.now)
        ordered = self._ordered
        if not ordered or at >= ordered[-1][0]:
            ordered.append(entry)
        else:
            heappush(self._arrivals, entry)

    def _persist(self, node: SimNode, port: Port, record: Any) -> None:
        host = node.host

        def durable() -> None:
            if node.host is host:
                node.disk[port.channel] = record
                port.durable(node.now())

        heappush(
            self._timers,
            (self.now + self.disk_delay, next(self._sequence), None, (durable, f"{node.name}/{port.channel} durable")),
        )

    def release_held(self) -> None:
        """What clogged links held goes on its way, as far as they are open now."""
        held, self._held = self._held, []
        for node, channel, receiver, message in held:
            if self.network.is_clogged(node.index, receiver.index):
                self._held.append((node, channel, receiver, message))
            else:
                self._route(node, channel, receiver, message)

    # Time.

    def at(self, when: Instant, act: Callable[[], Any], what: str) -> None:
        """Plans something that the world does, to happen after the deliveries of that instant."""
        if when < self.now:
            raise LocalProtocolError(f"{what}: {when} ns is in the past (now is {self.now} ns)")
        heappush(self._timers, (when, next(self._sequence), None, (act, what)))

    def run(self, until: Instant = FOREVER) -> None:
        """Runs until that instant (included), until nothing is left, or until a watcher sets `stopped`."""
        ordered, arrivals, timers, facts = self._ordered, self._arrivals, self._timers, self._facts
        trace, checks, buffer = self.trace, self.checks, self.trace.buffer
        lines = trace.lines is not None
        pack, events = PACK, 0
        delivery: deque[tuple[Any, ...]] | list[tuple[Any, ...]] | None
        while not self.stopped:
            if ordered and (not arrivals or ordered[0] < arrivals[0]):
                delivery, at = ordered, ordered[0][0]
            elif arrivals:
                delivery, at = arrivals, arrivals[0][0]
            else:
                delivery, at = None, FOREVER
            if timers and timers[0][0] < at:
                at = timers[0][0]
                delivery = None
            if at > until or at == FOREVER:
                break
            self.now = at
            events += 1
            if delivery is None:
                _, sequence, port, timer = heappop(timers)
                if port is None:
                    self._act(sequence, timer)
                else:
                    buffer += pack(at, sequence, _TIMER, port.host.world.index, 0)
                    if lines:
                        trace.line(at, Kind.TIMER, f"{port.host.node}/{port.channel}", timer)
                    port.fire(timer, at)
                    if facts:
                        facts[0][0].host.settle(at)
            else:
                entry = ordered.popleft() if delivery is ordered else heappop(arrivals)
                self._deliver(*entry)
            if checks:
                for check in checks:
                    check(at)
            if len(buffer) > 65536:
                trace.flush()
        self.event_count += events
        if not self.stopped and until < FOREVER:
            self.now = max(self.now, until)

    def _act(self, sequence: int, plan: tuple[Callable[[], Any], str]) -> None:
        act, what = plan
        kind = Kind.DURABLE if what.endswith("durable") else Kind.WORLD
        self.trace.buffer += PACK(self.now, sequence, kind, -1, 0) + what.encode()
        if self.trace.lines is not None:
            self.trace.line(self.now, kind, "", what)
        act()
        if self._facts:
            host = self._facts[0][0].host
            host.settle(host.world.now())  # type: ignore[attr-defined]

    def _deliver(
        self,
        at: Instant,
        sequence: int,
        node: SimNode,
        channel: str,
        receiver: SimNode | None,
        message: Any,
        sent_at: Instant,
    ) -> None:
        self.sent_at = sent_at
        facts, sender = self._facts, node.name
        if receiver is None:
            audience = self._audiences.get(channel)
            if audience is None:
                audience = self._audiences[channel] = self._audience(channel)
            hears = audience.hears
            position = audience.positions.get(node.index)
            if position is None:  # Its sender is gone, its words are not.
                mask = self.network.mask(node.index, len(hears), len(hears) + 1, sent_at)[:-1]
            else:
                mask = self.network.mask(node.index, position, len(hears), sent_at)
            self.trace.buffer += PACK(at, sequence, _ARRIVE, node.index, -1) + mask
            heard = len(mask) - mask.count(0)
            self.delivery_count += heard
            if self.trace.lines is not None:
                self.trace.line(at, Kind.ARRIVE, f"{sender} → {heard} of {len(mask)}", message)
            for hear in compress(hears, mask):
                hear(sender, message, at)
                if facts:
                    facts[0][0].host.settle(at)
            return
        self.trace.buffer += PACK(at, sequence, _ARRIVE, receiver.index, node.index)
        host = receiver.host
        if host is None:
            self.network.faults["receiver down"] += 1
            return
        if not self._plain and self.network.is_cut(node.index, receiver.index):
            self.network.faults["cut in flight"] += 1
            return
        port = host.ports.get(channel)
        if port is None:
            host.unknown_channel_count += 1
            return
        if self.trace.lines is not None:
            self.trace.line(at, Kind.ARRIVE, f"{sender} → {receiver.name}", message)
        self.delivery_count += 1
        port.hear(sender, message, at)
        if facts:
            host.settle(at)

    def _audience(self, channel: str) -> _Audience:
        return _Audience(
            [(n, n.host.ports[channel]) for n in self.nodes if n.host is not None and channel in n.host.ports]
        )

    def up(self) -> Iterable[SimNode]:
        return (node for node in self.nodes if node.host is not None)


def _deaf(sender: NodeId, message: Any, now: Instant) -> None:
    pass


def _deaf_timer(timer: Any, now: Instant) -> None:
    pass


def _mute(*arguments: Any) -> None:
    pass
