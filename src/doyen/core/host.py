"""One node's machines, each on a channel: the same in driver, simulator and tests.

A node runs several machines (a membership, two elections, …).  Each gets a *channel*, a name that is in the
envelope of its messages, and a `Port`: its `Out`, bound to that channel.  The host routes what comes in to the
machine it is meant for, and carries facts between machines, which never call each other:

    input ─▶ machine step ─▶ effects leave through the port
                   └─ emit ─▶ queue ─▶ after the step, same `now`: on_<fact> of every other subscriber ─▶ …

`persist` is a barrier.  While a record is on its way to the disk, the port *holds* every later effect of its
channel, facts and timers included; `durable()` lets them go in order.  A crash drops record and effects alike.

Everything real is behind `World`, supplied by the driver or the simulator.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, Protocol

from doyen.core.clock import Instant
from doyen.core.ids import Address, NodeId
from doyen.core.machine import Machine
from doyen.errors import ConfigError, LocalProtocolError

CHANNEL_MAX = 48
FACTS_PER_STEP_MAX = 10_000  # Two machines that answer each other's facts for ever are a bug: stop, do not hang.


class Verbs(NamedTuple):
    """The three verbs that leave the node, bound to one port."""

    send: Callable[[NodeId | Address, Any], None]
    multicast: Callable[[Any], None]
    set_timer: Callable[[Any, Instant], None]


class World(Protocol):
    """What a node needs of where it runs: the driver's sockets, or the simulator's made-up ones."""

    def verbs(self, port: "Port") -> Verbs: ...

    def persist(self, port: "Port", record: Any) -> None:
        """Make it durable, then call `port.durable(now)`."""

    def observe(self, port: "Port", fact: Any, now: Instant) -> None:
        """A fact, after the machines of the node have seen it: for the application, logs and checkers."""


class Port:
    """One machine's place in its node, and the `Out` it writes to."""

    __slots__ = (
        "_held",
        "channel",
        "emit",
        "fire",
        "hear",
        "host",
        "machine",
        "multicast",
        "persist",
        "send",
        "set_timer",
    )

    send: Callable[[NodeId | Address, Any], None]
    multicast: Callable[[Any], None]
    set_timer: Callable[[Any, Instant], None]
    emit: Callable[[Any], None]
    persist: Callable[[Any], None]

    # Its inlets: the machine's own methods, unless the world puts itself in between (a paused node, a skewed clock).
    hear: Callable[[NodeId, Any, Instant], None]
    fire: Callable[[Any, Instant], None]

    def __init__(self, host: "Host", channel: str) -> None:
        self.host, self.channel = host, channel
        self.machine: Machine
        self._held: list[tuple[str, tuple[Any, ...]]]  # While closed.
        self._open()

    def _open(self) -> None:
        """The verbs go straight to the world."""
        facts = self.host.facts
        self.send, self.multicast, self.set_timer = self.host.world.verbs(self)
        self.emit = lambda fact: facts.append((self, fact))
        self.persist = self._close

    def _close(self, record: Any) -> None:
        """The verbs are held until the record is durable, `persist` included, so that order is kept."""
        self._held = []
        hold = self._held.append
        self.send = lambda to, message: hold(("send", (to, message)))
        self.multicast = lambda message: hold(("multicast", (message,)))
        self.set_timer = lambda timer, at: hold(("set_timer", (timer, at)))
        self.emit = lambda fact: hold(("emit", (fact,)))
        self.persist = lambda record: hold(("persist", (record,)))
        self.host.world.persist(self, record)

    def durable(self, now: Instant) -> None:
        """The world's word that the last `persist` reached the disk: what was held leaves, in order."""
        if self.persist == self._close:
            raise LocalProtocolError(f"channel {self.channel!r} was not waiting for its disk")
        held = self._held
        self._open()
        for verb, arguments in held:
            getattr(self, verb)(*arguments)  # Another `persist` among them closes the port again, and holds the rest.
        self.host.settle(now)


class Host:
    """One node: its name, its machines, and the way facts travel between them."""

    __slots__ = ("_subscribers", "facts", "node", "ports", "unknown_channel_count", "world")

    def __init__(self, node: NodeId, world: World, facts: list[tuple[Port, Any]] | None = None) -> None:
        self.node, self.world = node, world
        self.ports: dict[str, Port] = {}
        # Emitted in this step, not yet carried.  The simulator shares one list among its nodes: one step at a time.
        self.facts: list[tuple[Port, Any]] = [] if facts is None else facts
        self.unknown_channel_count = 0
        self._subscribers: dict[type, list[tuple[Port, Callable[[Any, Instant], None]]]] = {}

    def add(self, channel: str, build: Callable[[Port], Machine]) -> Port:
        """Gives a machine a channel; `build` makes the machine around its port."""
        if channel in self.ports or not 0 < len(channel) <= CHANNEL_MAX:
            raise ConfigError(
                f"channel {channel!r} is taken, empty or longer than {CHANNEL_MAX}: give each machine its own"
            )
        port = Port(self, channel)
        port.machine = build(port)
        port.hear, port.fire = port.machine.on_message, port.machine.on_timer
        self.ports[channel] = port
        self._subscribers.clear()
        return port

    def start(self, now: Instant) -> None:
        for port in list(self.ports.values()):
            port.machine.start(now)
            self.settle(now)

    def on_message(self, channel: str, sender: NodeId, message: Any, now: Instant) -> None:
        port = self.ports.get(channel)
        if port is None:
            self.unknown_channel_count += 1
            return
        port.hear(sender, message, now)
        self.settle(now)

    def on_timer(self, port: Port, timer: Any, now: Instant) -> None:
        port.fire(timer, now)
        self.settle(now)

    def command(self, channel: str, name: str, now: Instant, **arguments: Any) -> None:
        """Runs one of a machine's commands (`resign`, `leave`) as an input of its own."""
        getattr(self.ports[channel].machine, name)(now=now, **arguments)
        self.settle(now)

    def tell(self, fact: Any, now: Instant, *, channel: str | None = None) -> None:
        """A fact from the world: an answer to what a machine asked (to its channel), or news for all."""
        for port, handle in self._subscribers_of(type(fact)):
            if channel is None or port.channel == channel:
                handle(fact, now)
                self.settle(now)

    def settle(self, now: Instant) -> None:
        """Carries the facts of a step to their subscribers, and those of the steps that follow from it."""
        facts = self.facts
        if not facts:
            return
        alone = len(self.ports) == 1  # The usual case in large simulations: nobody else to tell.
        if alone and len(facts) == 1:
            port, fact = facts.pop()
            self.world.observe(port, fact, now)
        carried = 0
        while carried < len(facts):
            port, fact = facts[carried]
            carried += 1
            assert carried <= FACTS_PER_STEP_MAX, f"machines of {self.node} answer each other's facts for ever: {fact}"
            if not alone:
                for subscriber, handle in self._subscribers_of(type(fact)):
                    if subscriber is not port:
                        handle(fact, now)
            self.world.observe(port, fact, now)
        facts.clear()

    def _subscribers_of(self, kind: type) -> list[tuple[Port, Callable[[Any, Instant], None]]]:
        found = self._subscribers.get(kind)
        if found is None:
            name = handler_name(kind)
            found = [(p, getattr(p.machine, name)) for p in self.ports.values() if hasattr(p.machine, name)]
            self._subscribers[kind] = found
        return found


@cache
def handler_name(fact: type) -> str:
    """`ViewChanged` → `on_view_changed`."""
    return "on_" + re.sub(r"(?<!^)(?=[A-Z])", "_", fact.__name__).lower()
