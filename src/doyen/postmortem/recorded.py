"""Reads recordings for a picture: each is run again on its own machines, which tell who led, when, and why.

A recording may be of anybody: it is data, read frame by frame, with bounds on memory and time (`net.recording`).
"""

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from doyen.core.clock import FOREVER, NEVER, Duration, Instant, ms
from doyen.core.codec import Codec, Envelope
from doyen.core.ids import Term
from doyen.core.reasons import Reasons
from doyen.errors import ConfigError, TransportError
from doyen.net.recording.effects import channel_of
from doyen.net.recording.format import (
    DATAGRAM_MAX,
    Commanded,
    Effect,
    Fired,
    Given,
    Header,
    Heard,
    Input,
    MayAct,
    Origin,
    Started,
    identifier,
)
from doyen.net.recording.limits import bounded
from doyen.net.recording.reader import Reader
from doyen.net.recording.replay import Diverged, Foundation, replay
from doyen.node.config import NodeConfig
from doyen.node.gate import Gate
from doyen.node.rebuilt import Rebuilt
from doyen.postmortem.watch import Explained, Noted, Stretch, Watch

LATE: Final[Duration] = ms(300)  # A timer that fires later than this: the process did not run.
DECIDED_MAX: Final = 5_000  # Messages of one node that are kept; what is left off is counted.


class Decided(Struct, frozen=True):
    """A message that decided something, at its receiver; or one that was sent by a step that did."""

    identifier: str
    at: Instant
    election: str
    label: str
    to: str | None = None  # Sent: the name or the address of the receiver, "" for everybody; None: it was received.


class ElectionOf(Struct, frozen=True):
    """An election, and what it promises."""

    name: str
    kind: str
    sort: str
    promise: str


class Flight(Struct, kw_only=True):
    """One incarnation of one node, as it recorded itself.  Instants are of its own clock."""

    path: str
    segments: list[str]
    node: str
    address: str
    group: str
    incarnation: int
    doyen: str
    at: float  # Wall clock, in seconds,
    now: Instant  # and the node's own clock at the same moment.
    begin: Instant
    end: Instant
    started: bool  # Whether the recording begins with the node's start.
    gates_known: bool = True  # Whether it tells from when on the node could act.
    elections: list[ElectionOf] = []
    stretches: list[Stretch] = []
    pauses: list[tuple[Instant, Instant]] = []
    noted: list[Noted] = []
    explained: list[Explained] = []
    decided: list[Decided] = []
    left_off: int = 0  # Marks, explanations and messages that were too many.
    sent: dict[str, Instant] = {}  # By identifier; what was sent twice is ambiguous, and not here.
    received: dict[str, Instant] = {}
    inputs: int = 0
    cut_off_bytes: int = 0

    def go_on(self, later: "Flight") -> None:
        """Add the next segment of the same recording."""
        begun = {
            (stretch.election, stretch.kind, stretch.term): stretch
            for stretch in later.stretches
            if stretch.begin == later.begin
        }
        kept = []
        for stretch in self.stretches:
            after = begun.get((stretch.election, stretch.kind, stretch.term)) if stretch.end == self.end else None
            if after is not None:
                after.begin = stretch.begin
            else:
                stretch.latest = stretch.end  # It was not killed there: it went on to record.
                kept.append(stretch)
        self.stretches = kept + later.stretches
        ambiguous = (self.sent.keys() & later.sent.keys()) | (self.received.keys() & later.received.keys())
        self.sent = {key: at for key, at in (self.sent | later.sent).items() if key not in ambiguous}
        self.received = {key: at for key, at in (self.received | later.received).items() if key not in ambiguous}
        self.segments, self.path = self.segments + later.segments, later.path
        self.pauses, self.noted = self.pauses + later.pauses, self.noted + later.noted
        self.explained, self.decided = self.explained + later.explained, self.decided + later.decided
        self.elections = later.elections
        self.end, self.inputs, self.left_off = later.end, self.inputs + later.inputs, self.left_off + later.left_off
        self.gates_known, self.cut_off_bytes = self.gates_known and later.gates_known, later.cut_off_bytes

    def wall(self, at: Instant) -> float:
        """Return the wall clock of the node at an instant of its own clock."""
        return self.at + (at - self.now) / 1e9


def fly(segment: Path) -> Flight:
    """Run one segment of a recording; return what its node did in it.  Raises `TransportError` for a bad file."""
    with bounded(segment.stat().st_size):
        with Reader(segment) as reader:
            header = reader.header
        try:
            return _Follower(segment, header).flight()
        except Diverged as error:  # It would not come through to another process.
            raise TransportError(
                f"{error} (it was recorded by doyen {header.doyen[:100]}: run doyen postmortem with that)"
            ) from None


def joined(parts: Iterable[Flight]) -> list[Flight]:
    """Put the segments of each process together."""
    found: dict[tuple[str, int], Flight] = {}
    for part in sorted(parts, key=lambda part: part.begin):
        before = found.setdefault((part.node, part.incarnation), part)
        if before is part:
            continue
        if part.begin < before.end:
            raise ConfigError(f"{part.path} and {before.path} are recordings of one process, {part.node}: give one")
        before.go_on(part)
    return [*found.values()]


class Watched(Rebuilt):
    """The machines of a recorded node, watched."""

    def __init__(
        self,
        origin: Origin,
        site: Foundation,
        header: Header,
        change: Callable[[NodeConfig], NodeConfig] = lambda config: config,
    ) -> None:
        self._header, self.now = header, header.now  # The own clock, as far as it went.
        super().__init__(origin, site, wall=lambda: header.at + (self.now - header.now) / 1e9, change=change)
        self._fitted = 0
        self.watch = Watch(self.stack)

    def fit(self) -> None:
        """Give each election that is new its gate, and what was known of it when the segment began."""
        if len(self.stack.reigns) == self._fitted:
            return
        known = self._header.reigns
        self._fitted = len(self.stack.reigns)
        for name, reign in self.stack.reigns.items():
            if reign.gate is not None or known is None:
                continue
            config = self.stack.config
            if not (config.promise(reign.kind).strong and config.expect <= 1):
                reign.gate = Gate(0, settle=0, notice=0, alone_after=FOREVER, expect=2, quorum=False)
                reign.gate.why = "its first act waits until the election has settled"
            before = known.get(name)
            if before is None:
                continue
            if reign.gate is not None:
                reign.gate.open = before.may_act
            if before.leader is not None:
                reign.term = Term(before.term, before.leader)
                reign.mine = reign.term if before.mine else None
                reign.why = Reasons("named before this part of the recording begins")

    def may_act(self, election: str) -> None:
        """Note that the first act in an election has nothing left to wait for."""
        reign = self.stack.reigns.get(election)
        if reign is not None and reign.gate is not None:
            reign.gate.open = True

    def observe(self, channel: str, fact: Any, now: Instant) -> None:
        self.now = now
        super().observe(channel, fact, now)
        reign = self.stack.reign_on(channel)
        if reign is not None:
            reign.note(fact, now)
        self.watch.observe(channel, fact, now)


class _Follower:
    """Runs one segment, and notes what is to be seen."""

    def __init__(self, path: Path, header: Header) -> None:
        self._path, self._header = path, header
        origin, state = header.origin, header.state
        self._me, self._codec = origin, Codec(origin.group, datagram_max=DATAGRAM_MAX)
        self._envelopes: dict[str, bytes] = {}
        self._watched: Watched | None = None
        self._begin: Instant | None = None
        self._last: Instant = 0
        self._timers = {} if state is None else {number: at for number, at, _, _ in state.timers}
        # A heap; those that have fired are not among the timers any more.
        self._due = sorted((at, number) for number, at in self._timers.items())
        self._next_timer = 0 if state is None else state.next_timer
        self._pauses: list[tuple[Instant, Instant]] = []
        self._sent: dict[str, Instant] = {}
        self._received: dict[str, Instant] = {}
        self._ambiguous: set[str] = set()
        self._decided: list[Decided] = []
        self._left_off = self._inputs = 0
        self._started = False

    def _build(self, origin: Origin, site: Foundation) -> Watched:
        self._watched = Watched(origin, site, self._header)
        return self._watched

    def flight(self) -> Flight:
        """Run all; return what was seen."""
        cut_off = replay(self._path, self._build, self._follow).cut_off_bytes
        assert self._watched is not None
        watch, config = self._watched.watch, self._watched.stack.config
        watch.stop(self._last, max(self._last, self._earliest_due() or self._last))
        elections = []
        for name, reign in self._watched.stack.reigns.items():
            promise = reign.kind.promise(config.table(reign.kind.table), config.rank)
            elections.append(ElectionOf(name, reign.kind.title, promise.sort, promise.in_short))
        header = self._header
        return Flight(
            path=str(self._path),
            segments=[str(self._path)],
            node=self._me.node,
            address="" if self._me.address is None else str(self._me.address),
            group=self._me.group,
            incarnation=self._me.incarnation,
            doyen=header.doyen,
            at=header.at,
            now=header.now,
            begin=header.now if self._begin is None else self._begin,
            end=self._last if self._begin is not None else header.now,
            started=self._started,
            gates_known=header.reigns is not None,
            elections=elections,
            stretches=watch.stretches,
            pauses=self._pauses,
            noted=watch.noted,
            explained=watch.explained,
            decided=self._decided,
            left_off=self._left_off + watch.left_off,
            sent={key: at for key, at in self._sent.items() if key not in self._ambiguous},
            received={key: at for key, at in self._received.items() if key not in self._ambiguous},
            inputs=self._inputs,
            cut_off_bytes=cut_off,
        )

    def _follow(self, item: Input, envelope: Envelope | None) -> None:
        assert self._watched is not None
        now, given, effects, timers, due = item.now, item.given, item.effects, self._timers, self._due
        kind = given.__class__
        watch = self._watched.watch
        self._inputs += 1
        if self._begin is None:
            self._begin = now
            self._watched.fit()
        while due and due[0][1] not in timers:
            heappop(due)
        if due and now - due[0][0] > LATE:
            begin = max(due[0][0], self._last)
            if now > begin:
                self._pauses.append((begin, now))
                watch.pause(begin)
        self._last = now
        if kind is Fired:
            timers.pop(given.number, None)  # type: ignore[union-attr]
            if len(effects) == 1 and effects[0].verb == "set timer" and not item.failure:
                self._set_timer(effects[0])
                return  # Every second input: a deadline that was moved on meanwhile.  Nothing has happened.
        elif kind is not Heard:
            self._watched.fit()
            self._note(given, now, watch)
        if item.failure:
            watch.note(now, "bad", f"{self._me.node} stops", item.failure)
        watch.step(now)
        self._keep_effects(item, envelope, watch)
        watch.decided = ""

    def _set_timer(self, effect: Effect) -> None:
        if effect.at < NEVER:
            self._timers[self._next_timer] = effect.at
            heappush(self._due, (effect.at, self._next_timer))
            self._next_timer += 1

    def _note(self, given: Given, now: Instant, watch: Watch) -> None:
        assert self._watched is not None
        match given:
            case Started():
                self._started = True
                watch.note(now, "started", f"{self._me.node} starts")
            case MayAct(election) if (reign := watch.stack.reigns.get(election)) is not None:
                self._watched.may_act(election)
                if reign.mine is not None:
                    watch.explain(reign, now)
            case Commanded(_, name, _) if name in ("resign", "leave"):
                watch.note(now, "resigned" if name == "resign" else "left", f"{self._me.node} is told to {name}")

    def _earliest_due(self) -> Instant | None:
        while self._due and self._due[0][1] not in self._timers:
            heappop(self._due)
        return self._due[0][0] if self._due else None

    def _keep_effects(self, item: Input, envelope: Envelope | None, watch: Watch) -> None:
        """Note the timers, and the messages by their identifiers; of those that decided something, also what."""
        now, what, given, stack = item.now, watch.decided, item.given, watch.stack
        sent, me = self._sent, self._me.node
        if not what and given.__class__ is not Fired:
            for effect in item.effects:
                if effect.verb == "persist" and stack.reign_on(channel_of(effect)) is not None:
                    what = f"{me} wrote down what it promised"
        if given.__class__ is Heard and envelope is not None and envelope.sender != me:
            key = identifier(given.data)
            if key in self._received:
                self._ambiguous.add(key)
            self._received[key] = now
            if what:
                on = stack.reign_on(envelope.channel)
                label = f"{type(envelope.message).__name__}: {what}"
                self._keep(Decided(key, now, "" if on is None else on.name, label))
        for effect in item.effects:
            verb = effect.verb
            if verb == "set timer":
                self._set_timer(effect)
            elif verb == "send" or verb == "multicast":
                datagram = self._envelope(effect.channel) + effect.data
                if len(datagram) > DATAGRAM_MAX:
                    continue  # It was too large to be sent.
                key = identifier(datagram)
                if key in sent:
                    self._ambiguous.add(key)
                sent[key] = now
                if what and (on := stack.reign_on(channel_of(effect))) is not None:
                    self._keep(Decided(key, now, on.name, what, effect.what))

    def _envelope(self, channel: str) -> bytes:
        """Return what stands in a datagram of this node before the message."""
        found = self._envelopes.get(channel)
        if found is None:
            whole = self._codec.encode(self._me.node, self._me.incarnation, channel, None)
            found = self._envelopes[channel] = whole[:-1]  # Without the None.
        return found

    def _keep(self, message: Decided) -> None:
        if len(self._decided) < DECIDED_MAX:
            self._decided.append(message)
        else:
            self._left_off += 1
