"""One channel of a simulation: who listens on it, what was sent on it, and the quick way to send on it.

Everything here is about speed.  What a message meets on its way is decided by `Simulation.send`, in general; over a
plain network, where nobody watches messages leave, all is decided beforehand, and the port of a node sends by itself.
"""

from collections.abc import Callable
from functools import partial
from heapq import heappush
from math import inf
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from msgspec import Raw, Struct

from doyen.core.clock import NEVER, Instant
from doyen.core.codec import Codec
from doyen.core.host import Port, Verbs
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.sim.node import SimNode
from doyen.sim.trace import Hashed

if TYPE_CHECKING:
    from doyen.sim.engine import Simulation

Hear = Callable[[NodeId, Any, Instant], None]
To = NodeId | Address  # Named here: what annotates an inner function is evaluated each time that one is made.


class Traffic(Struct):
    """The count of what was sent on one channel; a multicast is one message."""

    messages: int = 0
    bytes: int = 0
    hops: int = 0
    hop_bytes: int = 0  # Bytes summed over the links they crossed.

    def count_hops(self, hops: int, size: int) -> None:
        self.hops += hops
        self.hop_bytes += hops * size


class Tally:
    """The same, of what goes hop by hop, until `Channel.traffic` is asked for: slots count faster than structs."""

    __slots__ = ("bytes", "hop_bytes", "hops", "messages")

    def __init__(self) -> None:
        self.messages = self.bytes = self.hops = self.hop_bytes = 0

    def flush(self, traffic: Traffic) -> None:
        traffic.messages += self.messages
        traffic.bytes += self.bytes
        traffic.hops += self.hops
        traffic.hop_bytes += self.hop_bytes
        self.messages = self.bytes = self.hops = self.hop_bytes = 0


class Outbox:
    """Messages that left over a plain network, and wait to be encoded, hashed and counted: many in one call, at half
    the price.  There is one outbox for all senders on a channel whose envelopes have the same size."""

    __slots__ = ("_encode", "_hashed", "_traffic", "kinds", "messages", "overhead", "room")

    def __init__(self, encode: Callable[[Any], bytes], traffic: Traffic, overhead: int, room: int) -> None:
        self._encode, self._traffic, self._hashed = encode, traffic, Hashed()
        self.overhead, self.room = overhead, room  # Bytes of the envelope, and left for a message.
        self.messages = self._hashed.items
        self.kinds: dict[type, bool] = {}  # Those of whom it is known whether they can wait.

    def leave(self, message: Any) -> bool:
        """Keep a message to be encoded later, or encode it now if it may change; return False if it does not fit."""
        kind = message.__class__
        can_wait = self.kinds.get(kind)
        if can_wait is None:
            can_wait = self.kinds[kind] = size_max(kind) <= self.room
        if not can_wait:
            message = Raw(self._encode(message))
            if len(bytes(message)) > self.room:
                return False
        self.messages.append(message)
        return True

    def flush(self) -> None:
        count = len(self.messages)
        if count:
            traffic, size = self._traffic, self._hashed.flush() + count * self.overhead
            traffic.messages += count
            traffic.bytes += size
            traffic.hops += count
            traffic.hop_bytes += size

    def digest(self) -> bytes:
        return self._hashed.digest()


def size_max(kind: type) -> float:
    """Return the bytes of the largest encoding of an immutable type whose fields are numbers; else no bound."""
    config = getattr(kind, "__struct_config__", None)
    if config is None or not config.frozen:
        return inf
    hints = get_type_hints(kind)
    fields: tuple[str, ...] = kind.__struct_fields__  # type: ignore[attr-defined]
    if any(not set(get_args(hints[name]) or (hints[name],)) <= {int, float, bool, NoneType} for name in fields):
        return inf
    return 10 + len(str(config.tag)) + len(str(config.tag_field)) + sum(len(name) + 5 + 9 for name in fields)


class Inlet:
    """One node on one channel, whether it is up or down: all that messages to it and from it touch, in one place."""

    __slots__ = ("channel", "hear", "index", "left", "node")

    def __init__(self, channel: "Channel", node: SimNode) -> None:
        self.channel, self.node, self.index = channel, node, node.index
        self.hear: Hear | None = None  # None: nobody is there, or the engine has to look twice.
        # How many more of its unicasts over a plain network are heard before one is lost; -1: yet to be drawn.
        self.left = -1

    def next_is_heard(self, receiver: "Inlet") -> bool:
        sim = self.node.sim
        if self.left < 0:
            self.left = sim.network.heard_in_a_row(self.index)
        self.left -= 1
        if self.left >= 0:
            return True
        sim.count_loss(receiver.index)
        return False


class Everybody:
    """The inlet of a multicast: its audience is looked up when it arrives."""

    __slots__ = ("channel", "hear")

    def __init__(self, channel: "Channel") -> None:
        self.channel, self.hear = channel, None


class Audience:
    """The nodes that hear a multicast on one channel now, in the order of their indices."""

    __slots__ = ("hears", "positions")

    def __init__(self, ports: list[tuple[SimNode, Port]]) -> None:
        self.hears = [port.hear for _, port in ports]
        self.positions = {node.index: i for i, (node, _) in enumerate(ports)}


class Channel:
    """The ports of all nodes on one channel; made by `Simulation.channel`."""

    __slots__ = (
        "_audience",
        "_outbox_of",
        "_outboxes",
        "_sim",
        "_verbs",
        "counts",
        "everybody",
        "inlets",
        "name",
        "tally",
    )

    def __init__(self, sim: "Simulation", name: str) -> None:
        self._sim, self.name = sim, name
        self.counts, self.tally = Traffic(), Tally()  # Without what still waits in an outbox.
        self.everybody = Everybody(self)
        self.inlets: dict[str | Address, Inlet] = {}
        self._audience: Audience | None = None
        self._outboxes: dict[tuple[int, int], Outbox] = {}
        self._outbox_of: dict[NodeId, tuple[Incarnation, Outbox]] = {}  # By sender: that of its last incarnation.
        self._verbs = _outlets(sim, self)

    def verbs(self, node: SimNode, port: Port) -> Verbs:
        """Return what a new port does to send and to set timers."""
        self._audience = None
        return self._verbs(node, port)

    def inlet(self, node: SimNode) -> Inlet:
        inlet = self.inlets.get(node.name)
        if inlet is None:
            inlet = self.inlets[node.name] = Inlet(self, node)
        return inlet

    def network_changed(self) -> None:
        """Forget what was drawn for messages that are not sent yet, and decide anew which ports hear directly."""
        for inlet in self.inlets.values():
            inlet.left = -1
            port = inlet.node.ports.get(self.name)
            inlet.hear = port.hear if port is not None and (self._sim.quick or self._sim.by_hops) else None

    def connect(self, node: SimNode, hear: Hear) -> None:
        """Have the node's machine hear by this function from now on, also a multicast that is just being delivered."""
        self.inlet(node).hear = hear if self._sim.quick or self._sim.by_hops else None
        position = None if self._audience is None else self._audience.positions.get(node.index)
        if position is not None:
            assert self._audience is not None
            self._audience.hears[position] = hear

    def disconnect(self, node: SimNode, hear: Hear) -> None:
        """Take a node that is down out of the audience."""
        self.connect(node, hear)
        self.inlet(node).hear = None
        self._audience = None

    @property
    def audience(self) -> Audience:
        if self._audience is None:
            name = self.name
            self._audience = Audience([(node, node.ports[name]) for node in self._sim.nodes if name in node.ports])
        return self._audience

    def outbox(self, node: SimNode) -> Outbox:
        """Return the outbox of all senders whose envelope has the same size, by the real codec."""
        found = self._outbox_of.get(node.name)
        if found is not None and found[0] == node.incarnation:
            return found[1]
        key = (len(node.name.encode()), node.incarnation)
        outbox = self._outboxes.get(key)
        if outbox is None:
            sim = self._sim
            envelope = Codec("sim", datagram_max=65_507).encode(node.name, node.incarnation, self.name, None)
            overhead = len(envelope) - 1
            outbox = Outbox(sim.encode, self.counts, overhead, sim.datagram_max - overhead)
            self._outboxes[key] = outbox
            sim.trace.parts.append(outbox)
        self._outbox_of[node.name] = node.incarnation, outbox
        return outbox

    @property
    def traffic(self) -> Traffic:
        for outbox in self._outboxes.values():
            outbox.flush()
        self.tally.flush(self.counts)
        return self.counts

    @property
    def message_count(self) -> int:
        return (
            self.counts.messages + self.tally.messages + sum(len(outbox.messages) for outbox in self._outboxes.values())
        )


def _outlets(sim: "Simulation", channel: Channel) -> Callable[[SimNode, Port], Verbs]:
    """Return what makes the verbs of a channel's ports: closures over what they all share, so that a message or a timer
    costs one call, few look-ups, and little cache."""
    inlets, everybody, watchers = channel.inlets, channel.everybody, sim.send_watchers
    sequence, ordered, timers, lanes = sim.sequence, sim.ordered, sim.timers, sim.timers.lanes
    arrivals, records, network, encode = sim.arrivals, sim.trace.records, sim.network, sim.encode
    tally = channel.tally

    def verbs(node: SimNode, port: Port) -> Verbs:
        index, name, own, outbox = node.index, node.name, channel.inlet(node), channel.outbox(node)
        kinds, messages, leave = outbox.kinds, outbox.messages, outbox.leave
        overhead, room = outbox.overhead, outbox.room
        send_slowly = partial(sim.send, node, channel)

        def send(to: To, message: Any) -> None:
            """Do what `Simulation.send` does where only loss is left to decide: the same draws, records and counts."""
            if watchers or not sim.quick:
                (send_by_hops if sim.by_hops else send_slowly)(to, message)
                return
            try:
                inlet, can_wait = inlets[to], kinds[type(message)]
            except KeyError:
                inlet, can_wait = inlets.get(to, own), False
            if inlet is own:
                send_slowly(to, message)
                return
            if can_wait:
                messages.append(message)
            elif not leave(message):
                send_slowly(to, message)  # It will say why.
                return
            left = own.left
            if left > 0:
                own.left = left - 1
            elif not own.next_is_heard(inlet):
                return
            ordered.append((sim.now + sim.delay, next(sequence), inlet, name, message))

        def send_by_hops(to: To, message: Any) -> None:
            """Do what `Simulation.send` does where all hops are alike: the same draws, records and counts."""
            by_hops = sim.by_hops
            if not by_hops:
                send(to, message)
                return
            inlet, data = inlets.get(to.host if isinstance(to, Address) else to), encode(message)
            size = len(data)
            if inlet is None or inlet is own or size > room:
                send_slowly(to, message)
                return
            size += overhead
            receiver, now = inlet.index, sim.now
            records.append(receiver)
            records.append(data)
            tally.messages += 1
            tally.bytes += size
            for watch in watchers:
                watch(node, channel.name, message, now)
            if not sim.by_hops:  # A watcher has changed the network.
                sim.travel(node, channel, inlet.node, message, size)
                return
            hops, delay, path = network.route_evenly(index, receiver)
            tally.hops += hops
            tally.hop_bytes += hops * size
            if delay >= 0:
                at = now + delay
                records.append(at)
                heappush(arrivals, (at, next(sequence), inlet, name, message, now, path))

        def multicast(message: Any) -> None:
            """Do what `Simulation.multicast` does, likewise."""
            if watchers or not sim.quick or not leave(message):
                sim.multicast(node, channel, message)
                return
            ordered.append((sim.now + sim.delay, next(sequence), everybody, name, message))

        def set_timer(timer: Any, at: Instant) -> None:
            now = sim.now
            lane = lanes.get(at - now)
            if lane is not None:
                lane.append((at, next(sequence), port, timer, index, lane))
            elif at < NEVER:
                timers.push(at if at > now else now, next(sequence), port, timer, index, now)

        if node.clock is not None:
            return Verbs(send, multicast, partial(node.set_skewed_timer, port))
        return Verbs(send_by_hops if sim.by_hops else send, multicast, set_timer)

    return verbs
