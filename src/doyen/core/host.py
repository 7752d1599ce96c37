"""One node's machines, each on a channel: the same in driver, simulator and tests.

A node runs several machines (a membership, two elections, …).  Each gets a *channel*, a name that is in the
envelope of its messages, and a `Port`: its `Out`, bound to that channel.  The host routes what comes in to the
machine it is meant for, and carries facts between machines, which never call each other:

    input ─▶ machine step ─▶ effects leave through the port
                   └─ emit ─▶ queue ─▶ after the step, same `now`: the handlers of every other that hears it ─▶ …

A machine's class says which facts it hears (decision 4): `HEARS = hears(ViewChanged, on_view_changed)`.  Whatever
the world tells it (an answer, news, a command) while facts are being carried waits until they all are.

`persist` is a barrier.  While a record is on its way to the disk, the port *holds* what would tell others of it:
messages, facts and further records of its channel; `durable()` lets them go in order.  A crash drops record and
effects alike.  Timers are not held, they reach only the machine itself; and a fact that takes something back
(an `UrgentFact`) is reported at once, and again in its turn, for a leader whose disk hangs must still stop in time.

Everything real is behind `World`, supplied by the driver or the simulator.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, Protocol

from doyen.core.clock import Instant
from doyen.core.commands import Command
from doyen.core.effects import RecordDurable, UrgentFact
from doyen.core.ids import Address, NodeId
from doyen.core.machine import Machine
from doyen.errors import ConfigError, LocalProtocolError

CHANNEL_MAX = 48
FACTS_PER_STEP_MAX = 10_000  # Two machines that answer each other's facts forever are a bug: stop, do not hang.

Handler = Callable[[Any, Instant], None]


class Verbs(NamedTuple):
    """The three verbs that leave the node, bound to one port."""

    send: Callable[[NodeId | Address, Any], None]
    multicast: Callable[[Any], None]
    set_timer: Callable[[Any, Instant], None]


class World(Protocol):
    """The world that a node runs in: the driver's sockets, or the simulator's made-up ones."""

    def verbs(self, port: "Port") -> Verbs: ...

    def persist(self, port: "Port", record: Any) -> None:
        """Make it durable, then call `port.durable(now)`.  The record is taken as it is now."""

    def observe(self, port: "Port", fact: Any, now: Instant) -> None:
        """A fact, after the machines of the node have seen it: for the application, logs and checkers."""


class Port:
    """One machine's place in its node, and the `Out` it writes to."""

    __slots__ = (
        "channel",
        "emit",
        "fire",
        "follows",
        "hear",
        "held",
        "host",
        "machine",
        "multicast",
        "persist",
        "send",
        "set_timer",
        "waits_for_disk",
    )

    send: Callable[[NodeId | Address, Any], None]
    multicast: Callable[[Any], None]
    set_timer: Callable[[Any, Instant], None]
    emit: Callable[[Any], None]
    persist: Callable[[Any], None]

    # Its inlets: the machine's own methods, unless the world puts itself in between (a paused node, a skewed clock).
    hear: Callable[[NodeId, Any, Instant], None]
    fire: Callable[[Any, Instant], None]

    def __init__(self, host: "Host", channel: str, follows: Iterable[str] | None) -> None:
        self.host, self.channel = host, channel
        self.follows = None if follows is None else frozenset(follows)  # Whose facts it hears; None: everybody's.
        self.machine: Machine
        self.held: list[tuple[str, tuple[Any, ...]]]  # While closed: verbs, and what they were given.
        self._open()

    def _open(self) -> None:
        """The verbs go straight to the world."""
        self.send, self.multicast, self.set_timer = self.host.world.verbs(self)
        self.emit = self._emit
        self.persist = self._close
        self.waits_for_disk = False

    def _emit(self, fact: Any) -> None:
        host = self.host
        if not host.facts:
            host.unsettled.append(host)
        host.facts.append((self, fact))

    def _emit_urgent(self, fact: Any) -> None:
        if isinstance(fact, UrgentFact):  # Decision 1.
            self._emit(fact)
        self.held.append(("emit", (fact,)))

    def _close(self, record: Any) -> None:
        """Hold what would tell of the record until it is durable, `persist` included, so that order is kept."""
        self.host.world.persist(self, record)  # First: if it refuses, the port stays open.
        self.hold([])

    def hold(self, held: list[tuple[str, tuple[Any, ...]]]) -> None:
        """Wait for the disk, with what is held already."""
        self.held = held
        self.send = lambda *given: held.append(("send", given))
        self.multicast = lambda *given: held.append(("multicast", given))
        self.emit = self._emit_urgent
        self.persist = lambda *given: held.append(("persist", given))
        self.waits_for_disk = True

    def durable(self, now: Instant) -> None:
        """The world's word that the last `persist` reached the disk: what was held leaves, in order."""
        if not self.waits_for_disk:
            raise LocalProtocolError(f"channel {self.channel!r} was not waiting for its disk")
        held = self.held
        self._open()
        handle = self.machine.HEARS.get(RecordDurable)
        if handle is not None:
            handle(self.machine, RecordDurable(), now)
        for verb, given in held:  # Another `persist` among them closes the port again, and holds the rest.
            match verb:
                case "send":
                    self.send(*given)
                case "multicast":
                    self.multicast(*given)
                case "emit":
                    self.emit(*given)
                case _:
                    self.persist(*given)
        self.host.settle(now)

    def silence(self) -> None:
        """Nothing comes in, nothing leaves: the node is dead, whatever its machine goes on to say."""
        self.send = self.multicast = self.set_timer = self.emit = self.persist = _nothing
        self.hear = self.fire = _nothing


class Host:
    """One node: its name, its machines, and the way facts travel between them."""

    def __init__(self, node: NodeId, world: World, unsettled: "list[Host] | None" = None) -> None:
        self.node, self.world = node, world
        self.ports: dict[str, Port] = {}
        self.facts: list[tuple[Port, Any]] = []  # Emitted, not yet carried.
        # Hosts that have facts: the simulator shares one list, to see at a glance whether a step told anything.
        self.unsettled: list[Host] = [] if unsettled is None else unsettled
        self.unknown_channel_count = 0
        self._subscribers: dict[tuple[type, str], list[Handler]] = {}
        self._later: list[Callable[[Instant], None]] = []
        self._settling = False

    def add(self, channel: str, build: Callable[[Any], Machine], *, follows: Iterable[str] | None = None) -> Port:
        """Gives a machine a channel; `build` makes the machine around its port.

        `follows` names the channels whose facts it hears, where a node has several that tell the same kind.
        """
        if channel in self.ports or not 0 < len(channel) <= CHANNEL_MAX:
            raise ConfigError(
                f"channel {channel!r} is taken, empty or longer than {CHANNEL_MAX}: give each machine its own"
            )
        port = Port(self, channel, follows)
        port.machine = build(port)
        port.hear, port.fire = port.machine.on_message, port.machine.on_timer
        self.ports[channel] = port
        self._subscribers.clear()
        return port

    @property
    def settling(self) -> bool:
        """Facts are being carried: what comes now from an observer waits its turn."""
        return self._settling

    @property
    def is_writing(self) -> bool:
        """Return whether anything that a machine said still waits for a disk."""
        return any(port.waits_for_disk for port in self.ports.values())

    # Inputs.

    def start(self, now: Instant) -> None:
        """Starts every machine; only then are the facts of their first steps carried."""
        for port in list(self.ports.values()):
            port.machine.start(now)
        self.settle(now)

    def start_late(self, port: Port, now: Instant) -> None:
        """A machine that was added to a node that runs already."""
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

    def on_durable(self, port: Port, now: Instant) -> None:
        """The last record of that port has reached the disk."""
        port.durable(now)

    def tell(self, fact: Any, now: Instant, *, channel: str | None = None) -> None:
        """Give a fact or a command of the world's to one machine, or to all that hear it, each as an input of its own.

        Raises `LocalProtocolError` where there is no machine on that channel, or it does not take that command.
        """
        if channel is not None and channel not in self.ports:
            raise LocalProtocolError(
                f"{self.node} has no machine on channel {channel!r}: one of {', '.join(self.ports)}"
            )
        for port in list(self.ports.values()) if channel is None else [self.ports[channel]]:
            handle = port.machine.HEARS.get(fact.__class__)
            if handle is not None:
                self._input(partial(handle, port.machine, fact), now)
            elif channel is not None and isinstance(fact, Command):
                raise LocalProtocolError(f"the machine on channel {channel!r} of {self.node} cannot take {fact}")

    def _input(self, step: Callable[[Instant], None], now: Instant) -> None:
        if self._settling:
            self._later.append(step)  # From within an observer: after the facts that it reacts to.
        else:
            step(now)
            self.settle(now)

    # Facts.

    def settle(self, now: Instant) -> None:
        """Carries the facts of a step to their subscribers, and those of the steps that follow from it."""
        facts = self.facts
        if self._settling or not facts:
            return
        self._settling = True
        try:
            alone = len(self.ports) == 1  # The usual case in large simulations: nobody else to tell.
            carried, observe, subscribers = 0, self.world.observe, self._subscribers
            while True:
                for port, fact in islice(facts, carried, None):  # And those that are added meanwhile.
                    carried += 1
                    assert carried <= FACTS_PER_STEP_MAX, f"machines of {self.node} answer each other forever: {fact}"
                    if not alone:
                        found = subscribers.get((fact.__class__, port.channel))
                        for handle in self._subscribers_of(fact.__class__, port) if found is None else found:
                            handle(fact, now)
                    observe(port, fact, now)
                if not self._later:
                    break
                self._later.pop(0)(now)
        finally:
            facts.clear()
            self._later.clear()
            self._settling = False
            self.unsettled.remove(self)

    def _subscribers_of(self, kind: type, teller: Port) -> list[Handler]:
        found = self._subscribers[kind, teller.channel] = [
            partial(port.machine.HEARS[kind], port.machine)
            for port in self.ports.values()
            if port is not teller
            and kind in port.machine.HEARS
            and (port.follows is None or teller.channel in port.follows)
        ]
        return found


def _nothing(*_: Any) -> None:
    pass
