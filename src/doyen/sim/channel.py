"""One channel of a simulation: who listens on it, what was sent on it, and the quick way to send on it.

Everything here is about speed.  What a message meets on its way is decided by `Simulation.send`, in general; over a
plain network, where nobody watches messages leave, all is decided beforehand, and the port of a node sends by itself.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from doyen.core.clock import NEVER, Instant
from doyen.core.codec import Codec
from doyen.core.host import Port, Verbs
from doyen.core.ids import Address, NodeId
from doyen.sim.node import SimNode

if TYPE_CHECKING:
    from doyen.sim.engine import Simulation

Hear = Callable[[NodeId, Any, Instant], None]
To = NodeId | Address  # Named here: what annotates an inner function is evaluated each time that one is made.


class Traffic(Struct):
    """What was sent on one channel; a multicast is one message."""

    messages: int = 0
    bytes: int = 0
    hops: int = 0
    hop_bytes: int = 0  # Bytes summed over the links they crossed.
    sizes: list[int] = []  # Of messages over one plain hop that are not counted above yet: later, and all at once.

    def count_hops(self, hops: int, size: int) -> None:
        self.hops += hops
        self.hop_bytes += hops * size

    def count(self) -> "Traffic":
        count, size = len(self.sizes), sum(self.sizes)
        self.sizes.clear()
        self.messages += count
        self.hops += count
        self.bytes += size
        self.hop_bytes += size
        return self


class Inlet:
    """One node on one channel, whether it is up or down: all that messages to it and from it touch, in one place."""

    __slots__ = ("channel", "hear", "index", "node", "verdicts")

    def __init__(self, channel: "Channel", node: SimNode) -> None:
        self.channel, self.node, self.index = channel, node, node.index
        self.hear: Hear | None = None  # None: nobody is there, or somebody new whom the engine has to look up.
        self.verdicts: Iterator[int] = iter(())  # Which of its next unicasts over a plain network are heard.

    def next_verdict(self) -> int:
        verdict = next(self.verdicts, None)
        if verdict is None:
            self.verdicts = self.node.sim.network.verdicts(self.index)
            verdict = next(self.verdicts)
        return verdict


class Audience:
    """Who hears a multicast on one channel now, in the order of their indices."""

    __slots__ = ("hears", "positions")

    def __init__(self, ports: list[tuple[SimNode, Port]]) -> None:
        self.hears = [port.hear for _, port in ports]
        self.positions = {node.index: i for i, (node, _) in enumerate(ports)}


class Channel:
    """Made by `Simulation.channel`."""

    __slots__ = ("_audience", "_overheads", "_sim", "_verbs", "inlets", "name", "traffic")

    def __init__(self, sim: "Simulation", name: str) -> None:
        self._sim, self.name = sim, name
        self.traffic = Traffic()
        self.inlets: dict[To, Inlet] = {}
        self._audience: Audience | None = None
        self._overheads: dict[tuple[int, int], int] = {}
        self._verbs = _outlets(sim, self)

    def verbs(self, node: SimNode, port: Port) -> Verbs:
        """Of a new port."""
        self._audience = None
        return self._verbs(node, port)

    def inlet(self, node: SimNode) -> Inlet:
        inlet = self.inlets.get(node.name)
        if inlet is None:
            inlet = self.inlets[node.name] = Inlet(self, node)
        return inlet

    def network_changed(self) -> None:
        """Verdicts on what is not sent yet are void."""
        for inlet in self.inlets.values():
            inlet.verdicts = iter(())

    def connect(self, node: SimNode, hear: Hear) -> None:
        """The node's machine hears by this function from now on, also a multicast that is just being delivered."""
        self.inlet(node).hear = hear
        position = None if self._audience is None else self._audience.positions.get(node.index)
        if position is not None:
            assert self._audience is not None
            self._audience.hears[position] = hear

    def disconnect(self, node: SimNode, hear: Hear) -> None:
        """The node is down."""
        self.connect(node, hear)
        self.inlet(node).hear = None
        self._audience = None

    @property
    def audience(self) -> Audience:
        if self._audience is None:
            name = self.name
            self._audience = Audience([(node, node.ports[name]) for node in self._sim.nodes if name in node.ports])
        return self._audience

    def overhead(self, node: SimNode) -> int:
        """The envelope's bytes, by the real codec."""
        key = (len(node.name.encode()), node.incarnation)
        overhead = self._overheads.get(key)
        if overhead is None:
            data = Codec("sim", datagram_max=65_507).encode(node.name, node.incarnation, self.name, None)
            overhead = self._overheads[key] = len(data) - 1
        return overhead


def _outlets(sim: "Simulation", channel: Channel) -> Callable[[SimNode, Port], Verbs]:
    """The verbs of a channel's ports are closures over what they all share: a message or a timer costs one call,
    few look-ups, and little cache."""
    inlets, sizes, watchers = channel.inlets, channel.traffic.sizes, sim.send_watchers
    sequence, ordered, timers, lanes = sim.sequence, sim.ordered, sim.timers, sim.timers.lanes
    encode, faults, numbers, texts = sim.encode, sim.network.faults, sim.trace.numbers, sim.trace.texts

    def verbs(node: SimNode, port: Port) -> Verbs:
        index, name, overhead, own = node.index, node.name, channel.overhead(node), channel.inlet(node)

        def send(to: To, message: Any) -> None:
            """`Simulation.send`, where nothing is left to decide but chance: the same draws, records and counts."""
            inlet = inlets.get(to)
            data = encode(message)
            size = overhead + len(data)
            if inlet is None or watchers or not sim.quick or size > sim.datagram_max or inlet is own:
                sim.send(node, channel, to, message)
                return
            numbers.append(inlet.index)
            texts.append(data)
            sizes.append(size)
            heard = next(own.verdicts, None)
            if heard or (heard is None and own.next_verdict()):
                now = sim.now
                ordered.append((now + sim.delay, next(sequence), inlet, name, message, now, None))
            else:
                faults["loss"] += 1

        def multicast(message: Any) -> None:
            """`Simulation.multicast`, likewise."""
            data = encode(message)
            size = overhead + len(data)
            if watchers or not sim.quick or size > sim.datagram_max:
                sim.multicast(node, channel, message)
                return
            numbers.append(-1)
            texts.append(data)
            sizes.append(size)
            now = sim.now
            ordered.append((now + sim.delay, next(sequence), None, name, message, now, channel))

        def set_timer(timer: Any, at: Instant) -> None:
            now = sim.now
            lane = lanes.get(at - now)
            if lane:
                lane.append((at, next(sequence), port, timer, index, lane))
            elif at < NEVER:
                timers.push(at if at > now else now, next(sequence), port, timer, index, now)

        if node.clock is not None:
            return Verbs(send, multicast, partial(node.set_skewed_timer, port))
        return Verbs(send, multicast, set_timer)

    return verbs
