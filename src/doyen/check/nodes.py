"""Nodes as values: a node's whole state has a number, and a step from one number to the next is run once.

    (state, input, now) ─▶ (state, what it sent, timers, records, facts)

The machines are those that a node runs, built by the agent's own `Stack`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from doyen.check.frozen import Draws, Shared, digest
from doyen.check.views import Told
from doyen.core.clock import NEVER, Instant
from doyen.core.commands import Resign
from doyen.core.host import Host, Port, Verbs
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.leadership import HandOverDue
from doyen.core.link import LinkBroken
from doyen.core.rank import ScoreGiven, ScoreWanted
from doyen.core.view import Member
from doyen.election.churn.machine import CTolerant
from doyen.election.pole.machine import Pole
from doyen.node.config import NodeConfig
from doyen.node.stack import ELECTION, LEADER, MEMBERSHIP, NOTES, Site, Stack

Tamper = Callable[[Any], None]  # Breaks a machine that was just built, on purpose.
Disk = tuple[tuple[str, bytes], ...]  # What is durable, by channel.
Sent = tuple[tuple[NodeId | None, str, Any], ...]  # (to or None for all others, channel, message)


class Came(NamedTuple):
    """A message that comes in."""

    sender: NodeId
    channel: str
    message: Any


class Fired(NamedTuple):
    """A timer."""

    channel: str
    timer: Any


class Written(NamedTuple):
    """A record of that channel is durable."""

    channel: str


class Ordered(NamedTuple):
    """A command."""

    channel: str
    command: Any


Input = Came | Fired | Written | Ordered


class Step(NamedTuple):
    """The result of one input."""

    state: int
    sent: Sent
    timers: tuple[tuple[Instant, Fired], ...]
    records: tuple[tuple[str, bytes], ...]
    facts: tuple[Any, ...]  # Of the election.


class _Recorder:
    """The world of all nodes: it keeps what the node under way does."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.sent: list[tuple[NodeId | None, str, Any]] = []
        self.timers: list[tuple[Instant, Fired]] = []
        self.records: list[tuple[str, bytes]] = []
        self.facts: list[Any] = []
        self.asked: list[tuple[str, Any]] = []

    def verbs(self, port: Port) -> Verbs:
        def send(to: NodeId | Address, message: Any) -> None:
            self.sent.append((NodeId(to.host) if isinstance(to, Address) else to, port.channel, message))

        def multicast(message: Any) -> None:
            self.sent.append((None, port.channel, message))

        def set_timer(timer: Any, at: Instant) -> None:
            if at < NEVER:
                self.timers.append((at, Fired(port.channel, timer)))

        return Verbs(send, multicast, set_timer)

    def persist(self, port: Port, record: Any) -> None:
        self.records.append((port.channel, msgspec.msgpack.encode(record)))

    def observe(self, port: Port, fact: Any, now: Instant) -> None:
        if isinstance(fact, ScoreWanted | HandOverDue):
            self.asked.append((port.channel, fact))
        elif port.channel == ELECTION:
            self.facts.append(fact)


class Nodes:
    """All states that any node was ever in, and the steps between them."""

    def __init__(
        self,
        config: NodeConfig,
        names: tuple[NodeId, ...],
        *,
        draw: float = 0.5,
        tamper: Tamper | None = None,
        told: bool = False,  # The world tells who is here, and no membership runs.
    ) -> None:
        self.config, self.names, self.told = config, names, told
        self._draws, self._tamper = Draws(draw), tamper
        self._world = _Recorder()
        self._shared = Shared(self._world)
        self._numbers: dict[bytes, int] = {}
        self._copies: list[bytes] = []
        self._steps: dict[tuple[int, Input, Instant], Step] = {}
        self._leads: dict[tuple[int, Instant], bool] = {}
        self._named: dict[int, NodeId | None] = {}
        self._finals: dict[int, tuple[Any, NodeId] | None] = {}
        self._standings: dict[int, tuple[NodeId | None, bool]] = {}
        self._batons: dict[int, int] = {}
        kind = config.election_kind()
        self.promise = None if kind is None else config.promise(kind)
        self.is_weak = self.promise is not None and self.promise.sort == "weak"  # Two may lead, in two regions.

    @property
    def count(self) -> int:
        """Return how many states of single nodes there are."""
        return len(self._copies)

    def start(
        self, index: int, disk: Disk, incarnation: int, now: Instant, *, newcomer: bool, up: tuple[int, ...] = ()
    ) -> Step:
        """Build a node from what is on its disk, and start it; `up` is who is here, where the world tells that."""
        host = Host(self.names[index], self._world)
        present = [Member(node=self.names[other], incarnation=Incarnation(n)) for other, n in enumerate(up) if n]
        self._world.clear()
        records = dict(disk)
        Stack(
            msgspec.structs.replace(self.config, newcomer=newcomer, name=self.names[index]),
            Site(
                node=self.names[index],
                incarnation=Incarnation(incarnation),
                address=Address(self.names[index], 0),
                seeds=self._seeds(index, incarnation),
                add=lambda channel, build, **follows: self._add(host, channel, build, present, **follows),
                rng=lambda channel: self._draws,
                restored=lambda channel, kind: _read(records.get(channel), kind),
                durable=True,
                tell=lambda fact, channel: None,
                wall=lambda: 0.0,
            ),
        )
        host.start(now)
        return self._ended(host, index, now)

    def _seeds(self, index: int, incarnation: int) -> tuple[Address, ...]:
        """Return whom a node looks for: the first node begins the group, and the others join it there."""
        if index == 0 and incarnation == 1:
            return ()
        return tuple(Address(name, 0) for name in self.names[: 1 if index else 2] if name != self.names[index])

    def _add(
        self, host: Host, channel: str, build: Callable[[Port], Any], present: list[Member], **follows: Any
    ) -> None:
        is_told = self.told and channel == MEMBERSHIP
        if is_told or channel in (LEADER, NOTES):  # The latter only describe members, and decide nothing.
            port = Port(host, channel, ())
            port.machine = build(port)
            if is_told:
                host.add(channel, lambda port: Told(port, present))
            return
        port = host.add(channel, build, **follows)
        if self._tamper is not None:
            self._tamper(port.machine)
            port.hear, port.fire = port.machine.on_message, port.machine.on_timer

    def step(self, index: int, state: int, given: Input, now: Instant) -> Step:
        """Return what comes of an input; the same one is run once."""
        found = self._steps.get((state, given, now))
        if found is None:
            host = self._shared.restored(self._copies[state])
            self._world.clear()
            match given:
                case Came():
                    host.on_message(given.channel, given.sender, given.message, now)
                case Fired():
                    host.on_timer(host.ports[given.channel], given.timer, now)
                case Written():
                    host.on_durable(host.ports[given.channel], now)
                case Ordered():
                    host.tell(given.command, now, channel=given.channel)
            found = self._steps[state, given, now] = self._ended(host, index, now)
        return found

    def _ended(self, host: Host, index: int, now: Instant) -> Step:
        world = self._world
        while world.asked:  # The world answers at once.
            channel, fact = world.asked.pop(0)
            if isinstance(fact, ScoreWanted):
                host.tell(ScoreGiven(fact.number, 0), now, channel=channel)
            else:
                host.tell(Resign(fact.to, 0, fact.because), now, channel=channel)
        key = digest(host)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._copies)
            self._copies.append(self._shared.copy(host))
        return Step(number, tuple(world.sent), tuple(world.timers), tuple(world.records), tuple(world.facts))

    def leads(self, state: int, now: Instant) -> bool:
        """Return whether a node in that state may act as leader now, by its own machine."""
        found = self._leads.get((state, now))
        if found is None:
            host = self._shared.restored(self._copies[state])
            machine: Any = host.ports[ELECTION].machine
            found = self._leads[state, now] = bool(machine.leads(now))
        return found

    def final(self, state: int) -> tuple[Any, NodeId] | None:
        """Return the decision of an election, and its leader, that a node in that state holds for final.

        An initiator whose choice seems dead decides once more: a later decision of one election is another one.
        """
        if state not in self._finals:
            machine: Any = self._shared.restored(self._copies[state]).ports[ELECTION].machine
            held = machine.held if isinstance(machine, CTolerant) else None
            is_final = held is not None and held.final
            self._finals[state] = ((held.election, held.sequence), held.leader) if held and is_final else None
        return self._finals[state]

    def standing(self, state: int) -> tuple[NodeId | None, bool]:
        """Return whom a node in that state names, and whether that is final."""
        if state not in self._standings:
            machine: Any = self._shared.restored(self._copies[state]).ports[ELECTION].machine
            self._standings[state] = machine.named, machine.final
        return self._standings[state]

    def named(self, state: int) -> NodeId | None:
        """Return whom a node in that state names, if its election hears of a leader that is gone."""
        if state not in self._named:
            machine: Any = self._shared.restored(self._copies[state]).ports[ELECTION].machine
            self._named[state] = machine.named if LinkBroken in machine.HEARS else None
        return self._named[state]

    def baton(self, state: int) -> int:
        """Return the number of the baton that a node in that state has; 0: none, or its election has no batons."""
        if state not in self._batons:
            machine: Any = self._shared.restored(self._copies[state]).ports[ELECTION].machine
            self._batons[state] = int(machine.baton or b"0") if isinstance(machine, Pole) else 0
        return self._batons[state]

    def will(self, state: int) -> Any:
        """Return what is sent to all others when a node in that state is known to be dead; None: nothing."""
        machine: Any = self._shared.restored(self._copies[state]).ports[ELECTION].machine
        return machine.will() if isinstance(machine, Pole) else None

    def other_voters(self, state: int) -> list[frozenset[NodeId]]:
        """Return by which voters a leader in that state may replace its own now."""
        machine: Any = self._shared.restored(self._copies[state]).ports[ELECTION].machine
        if not isinstance(machine, Pole) or machine.keeper.is_changing or not (machine.is_leader and machine.voting):
            return []
        now, spare = machine.electorate.voters, frozenset(self.names) - machine.electorate.voters
        found = [now - {gone} for gone in sorted(now)] + [now | {new} for new in sorted(spare)]
        found += [now - {gone} | {new} for gone in sorted(now) for new in sorted(spare)]
        return [voters for voters in found if voters]


def _read(data: bytes | None, kind: Any) -> Any:
    return None if data is None else msgspec.msgpack.decode(data, type=kind)
