"""Runs a recording: the same machines, the same inputs, and every effect compared with the one recorded.

Nothing reaches the world: messages, timers and records are compared, and dropped.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from doyen import __version__
from doyen.core.clock import Instant
from doyen.core.codec import Codec, Envelope
from doyen.core.host import Host, Port, Verbs
from doyen.core.leadership import LeaderElected
from doyen.errors import DoyenError, RemoteProtocolError, TransportError
from doyen.net.recording.built import Built
from doyen.net.recording.declared import fact_of
from doyen.net.recording.effects import DescribingWorld, effect_text, failure_text
from doyen.net.recording.format import (
    DATAGRAM_MAX,
    Added,
    Commanded,
    Durable,
    Effect,
    Fired,
    Heard,
    Input,
    MayAct,
    Origin,
    Started,
    State,
    Told,
    kind_of,
)
from doyen.net.recording.loader import Loader
from doyen.net.recording.reader import Reader


class Diverged(DoyenError):
    """The machines did something else than was recorded: another version, a damaged memory, or a bug in doyen."""

    def __init__(self, path: Path, input_no: int, what: str, recorded: str, replayed: str) -> None:
        super().__init__(
            f"{path}, input {input_no} ({what}): recorded {recorded or 'nothing more'}, "
            f"but replayed {replayed or 'nothing more'}"
        )
        self.input_no, self.recorded, self.replayed = input_no, recorded, replayed


class Malformed(TransportError):
    """A recording holds what no recorder would have written."""


class Replayed(Struct, frozen=True, kw_only=True):
    """The result of running one segment."""

    path: str
    node: str
    group: str
    doyen: str
    inputs: int
    effects: int
    kinds: dict[str, int]
    began_at: float  # Wall clock, in seconds.
    lasted_s: float
    leaders: list[str]  # As the elections named them, in order.
    failure: str = ""  # What stopped the node, if it was stopped.
    cut_off_bytes: int = 0  # Bytes at the end that are no whole input.


class Foundation(Protocol):
    """The place where machines are built again."""

    def add(
        self, channel: str, build: Callable[[Port], Any], *, follows: Iterable[str] | None = None
    ) -> Any: ...  # The machine.
    def restored(self, channel: str, kind: Any) -> Any: ...
    def tell(self, fact: Any, *, channel: str | None = None) -> None: ...


class Rebuilt(Protocol):
    """The machines of a recorded node, as the caller puts them together."""

    view: Any  # The last view that the membership emitted.

    def observe(self, channel: str, fact: Any, now: Instant) -> None:
        """Take note of a fact that the machines emitted."""

    def add(self, what: dict[str, str]) -> None:
        """Add machines that were added to the running node."""


Build = Callable[[Origin, Foundation], Rebuilt]
Follow = Callable[[Input, Envelope | None], None]


def replay(path: Path, build: Build, follow: Follow | None = None) -> Replayed:
    """Run one segment, on the machines that `build` makes of its origin.

    `follow` is called after each input, with the message if it was one.
    Raises `Diverged` at the first effect that differs, `TransportError` for a file that is damaged, or of another
    format, or holds anything that a recorder would not have written.
    """
    with Reader(path) as reader:
        world = Replaying(path, reader, build)
        first: Instant | None = None
        last: Instant = 0
        for number, item in enumerate(reader.inputs(), start=1):
            first = item.now if first is None else first
            last = item.now
            world.run(number, item)
            if follow is not None:
                follow(item, world.envelope)
        header, cut_off_bytes, kinds = reader.header, reader.cut_off_bytes, world.kinds
    return Replayed(
        path=str(path),
        node=header.origin.node,
        group=header.origin.group,
        doyen=header.doyen,
        inputs=sum(kinds.values()),
        effects=world.effect_count,
        kinds=kinds,
        began_at=header.at,
        lasted_s=0.0 if first is None else (last - first) / 1e9,
        leaders=world.leaders,
        failure=world.failure,
        cut_off_bytes=cut_off_bytes,
    )


class Replaying:
    """Runs one segment: gives the host its inputs, and compares the effects."""

    def __init__(self, path: Path, reader: Reader, build: Build) -> None:
        self.path, self.header = path, reader.header
        self._counts: dict[Any, int] = {}  # Inputs, by their type.
        self.effect_count = 0
        self.leaders: list[str] = []
        self.failure = ""
        self.envelope: Envelope | None = None  # The message, if the input under way is one.
        self._restored = dict(self.header.restored)
        self.world = DescribingWorld(self)
        self._nested: list[tuple[int, Commanded | Told]] = []
        self._input_no = 0
        self._instants: Iterator[Instant] | None = None  # While machines are added to the running node.
        self.built = Built()
        origin = self.header.origin
        try:
            self.codec = Codec(origin.group, datagram_max=DATAGRAM_MAX)
            self.host = Host(origin.node, self.world)
            self.rebuilt = build(origin, self)
            for what in self.header.additions:
                self.rebuilt.add(what)
        except MemoryError:
            raise
        except Exception as error:
            raise TransportError(
                f"{path} was recorded by doyen {self.header.doyen[:100]}, and doyen {__version__} cannot build its "
                f"machines: {failure_text(error)}"
            ) from error
        if self.header.state is not None:
            self._load(self.header.state, reader)

    def _load(self, state: State, reader: Reader) -> None:
        try:
            loader = Loader(self.built, state.classes, state.built)
            for entries in reader.state():
                loader.add(entries)
            loader.load()
            self.rebuilt.view = loader.value(state.view)
            for number, at, channel, timer in state.timers:
                self.world.timers[number] = (at, channel, loader.value(timer))
        except TransportError as error:
            raise TransportError(f"{self.path}, recorded by doyen {self.header.doyen[:100]}: {error}") from None
        self.world.next_timer = state.next_timer

    @property
    def kinds(self) -> dict[str, int]:
        """Return how many inputs there were, by their kind."""
        return {kind_of(given): count for given, count in self._counts.items()}

    # Where machines are built.

    def add(self, channel: str, build: Callable[[Port], Any], *, follows: Iterable[str] | None = None) -> Any:
        port = self.host.add(channel, build, follows=follows)
        self.codec.speak(channel, port.machine.MESSAGES)
        self.built.add(port.machine)
        if self._instants is not None:
            self.host.start_late(port, self._instant())
        return port.machine

    def restored(self, channel: str, kind: Any) -> Any:
        found = self._restored.get(channel)
        return None if found is None else msgspec.msgpack.decode(found, type=kind)

    def tell(self, fact: Any, *, channel: str | None = None) -> None:
        if self._instants is not None:
            self.host.tell(fact, self._instant(), channel=channel)

    def _instant(self) -> Instant:
        assert self._instants is not None
        found = next(self._instants, None)
        if found is None:
            raise Malformed(f"{self.path}: more was added than the recording says")
        return found

    # Inputs.

    def run(self, number: int, item: Input) -> None:
        """Take one input, and compare everything that follows from it."""
        kind = item.given.__class__
        self._counts[kind] = self._counts.get(kind, 0) + 1
        effects, failure = self.take(number, item)
        if item.effects != effects:
            recorded, replayed = next(pair for pair in zip_longest(item.effects, effects) if pair[0] != pair[1])
            raise Diverged(self.path, number, kind_of(item.given), effect_text(recorded), effect_text(replayed))
        if failure or item.failure:
            if failure != item.failure:
                raise Diverged(self.path, number, kind_of(item.given), item.failure, failure)
            self.failure = failure
        self.effect_count += len(effects)

    def take(self, number: int, item: Input) -> tuple[list[Effect], str]:
        """Take one input; return everything that follows from it, and what the machines raised."""
        self._nested, self._input_no = item.nested, number
        effects = self.world.effects = []
        try:
            self._enter(item)
        except (Diverged, Malformed, MemoryError):
            raise
        except Exception as error:
            return effects, failure_text(error)
        return effects, ""

    def _enter(self, item: Input) -> None:
        host, now = self.host, item.now
        self.envelope = None
        given = item.given
        if given.__class__ is Fired:  # Nearly all are timers or messages.
            found = self.world.timers.pop(given.number, None)
            if found is None:
                raise Malformed(f"{self.path}, input {self._input_no}: no timer {given.number} was set")
            port = host.ports.get(found[1])
            host.on_timer(self._port(found[1]) if port is None else port, found[2], now)
            return
        if given.__class__ is Heard:
            try:
                envelope = self.envelope = self.codec.decode(given.data)
            except RemoteProtocolError as error:
                raise Malformed(f"{self.path}, input {self._input_no}: {error}") from None
            host.on_message(envelope.channel, envelope.sender, envelope.message, now)
            return
        match given:
            case Started():
                host.start(now)
            case MayAct():
                pass
            case Durable(channel):
                host.on_durable(self._port(channel), now)
            case Added(what, instants, restored):
                self._restored |= restored
                self._instants = iter(instants)
                try:
                    self.rebuilt.add(what)
                finally:
                    self._instants = None
            case Commanded() | Told() as order:
                self._order(order, now)

    def _order(self, order: Commanded | Told, now: Instant) -> None:
        try:
            fact = fact_of(order)
        except TransportError as error:
            raise Malformed(f"{self.path}, input {self._input_no}: {error}") from None
        if order.channel is not None:
            self._port(order.channel)
        self.host.tell(fact, now, channel=order.channel)

    def _port(self, channel: str) -> Port:
        if channel not in self.host.ports:
            raise Malformed(f"{self.path}, input {self._input_no}: there is no machine on {channel[:100]!r}")
        return self.host.ports[channel]

    # The world beyond the one that describes effects.

    def verbs(self, port: Port) -> Verbs:
        return Verbs(lambda to, message: None, lambda message: None, lambda timer, at: None)

    def persist(self, port: Port, record: Any) -> None:
        """Keep nothing."""

    def observe(self, port: Port, fact: Any, now: Instant) -> None:
        self.rebuilt.observe(port.channel, fact, now)
        if isinstance(fact, LeaderElected) and self.leaders[-1:] != [fact.term.leader]:
            self.leaders.append(fact.term.leader)
        seen = len(self.world.effects or ())
        for after, order in self._nested:  # What the application did on hearing this.
            if after == seen:
                self._order(order, now)


def loaded(path: Path, build: Build) -> Host:
    """Return the machines of a segment as they were when it began."""
    with Reader(path) as reader:
        return Replaying(path, reader, build).host
