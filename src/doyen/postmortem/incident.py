"""Lays what several nodes recorded on one clock: lanes, the messages that decided something, and the verdict."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from doyen.core.clock import Instant
from doyen.errors import ConfigError
from doyen.eyes.lanes import Arrow, Lane, Lanes, Mark, Span, Window
from doyen.postmortem.align import Alignment, Passage, align
from doyen.postmortem.picture import ARROWS_MAX, ClockOf, Incident, Said
from doyen.postmortem.recorded import Decided, ElectionOf, Flight
from doyen.postmortem.verdict import Act, Verdict, judge
from doyen.postmortem.watch import Explained

OFF_S: Final = 1.0  # Wall clocks that are less apart are not worth a word.
SHORT_S: Final = 0.001  # A shorter time without a recording is not drawn.


def incident_of(flights: Sequence[Flight], title: str = "") -> Incident:
    """Return what those recordings tell.  Raises `ConfigError` for recordings that do not belong together."""
    return Table(flights).incident(title)


def _check(flights: Sequence[Flight]) -> None:
    first = flights[0]
    seen: dict[tuple[str, int], str] = {}
    for flight in flights:
        if flight.group != first.group:
            raise ConfigError(
                f"{flight.path} is of the group {flight.group!r}, {first.path} of {first.group!r}: give those of one"
            )
        key = flight.node, flight.incarnation
        if key in seen:
            raise ConfigError(f"{flight.path} and {seen[key]} are recordings of one process, {flight.node}: give one")
        seen[key] = flight.path


class Table:
    """The recordings, side by side."""

    def __init__(self, flights: Sequence[Flight]) -> None:
        _check(flights)
        self.flights = sorted(flights, key=lambda flight: (flight.node, flight.incarnation))
        self.clocks = self._aligned()
        self._zero = min(self.clocks.common(n, flight.begin) for n, flight in enumerate(self.flights))
        first = self.flights[0]
        self._epoch = first.at + (self.clocks.rough(self._zero) - first.now) / 1e9
        # A process of a node has ended before the next one of its name begins.
        pairs = pairwise(range(len(self.flights)))
        self._successors = [(one, next_) for one, next_ in pairs if self.flights[one].node == self.flights[next_].node]
        elections = {found.name: found for flight in self.flights for found in flight.elections}
        self.elections = [elections[name] for name in sorted(elections)]

    def _aligned(self) -> Alignment:
        passages = [
            Passage(sender, receiver, sent, received)
            for receiver, flight in enumerate(self.flights)
            for sender, other in enumerate(self.flights)
            if sender != receiver
            for key, received in flight.received.items()
            if (sent := other.sent.get(key)) is not None
        ]
        first = self.flights[0]
        rough = [round((flight.at - first.at) * 1e9) - flight.now + first.now for flight in self.flights]
        return align(len(self.flights), passages, rough, [flight.node for flight in self.flights])

    def at(self, clock: int, instant: Instant) -> float:
        """Return an instant of that recording in seconds on the common clock."""
        return (self.clocks.common(clock, instant) - self._zero) / 1e9

    def own(self, clock: int, at: float) -> Instant:
        """Return what that recording's own clock shows at a second of the common clock."""
        wanted = self._zero + round(at * 1e9)
        found = wanted
        for _ in range(4):  # The offset changes so slowly that this comes near at once.
            found += wanted - self.clocks.common(clock, found)
        return found

    def sender_of(self, identifier: str) -> tuple[int | None, Instant]:
        """Return which recording has sent a message, and when; None where none tells."""
        found = ((n, flight.sent[identifier]) for n, flight in enumerate(self.flights) if identifier in flight.sent)
        return next(found, (None, 0))

    def delays(self) -> Iterable[float]:
        """Yield how long messages took, in seconds."""
        for receiver, flight in enumerate(self.flights):
            for key, received in flight.received.items():
                sender, sent = self.sender_of(key)
                if sender is not None and sender != receiver:
                    yield self.at(receiver, received) - self.at(sender, sent)

    def lane(self, node: str, election: str) -> str:
        return f"{node} / {election or 'own'}" if len(self.elections) > 1 else node

    def incident(self, title: str) -> Incident:
        group = self.flights[0].group
        verdicts = tuple(self.verdict(election) for election in self.elections)
        ends = [self.at(n, flight.end) for n, flight in enumerate(self.flights)]
        names = dict.fromkeys(flight.node for flight in self.flights)
        lanes = Lanes(
            title=title or group,
            epoch=self._epoch,
            begin=0.0,
            end=max(ends),
            lanes=tuple(
                Lane(id=self.lane(name, election.name), note=f"{election.kind}")
                for election in self.elections or [ElectionOf("", "no election", "weak", "")]
                for name in names
            ),
            spans=tuple(self._spans(max(ends))),
            marks=tuple(self._marks()),
            arrows=tuple(self._arrows()),
            windows=tuple(
                Window(begin=begin, end=end, kind="bad", label=f"two acted at once: {who}")
                for verdict in verdicts
                for begin, end, who in verdict.when
            ),
        )
        said = sorted(
            (found for n, flight in enumerate(self.flights) for found in self._said(n, flight.explained)),
            key=lambda found: found.at,
        )
        return Incident(
            title=title or group,
            source="recordings",
            verdicts=verdicts,
            lanes=lanes,
            said=tuple(said),
            clocks=tuple(self._clock(n) for n in range(len(self.flights))),
            notes=tuple(self._notes()),
        )

    # Lanes.

    def _spans(self, end: float) -> Iterable[Span]:
        alone = self.elections or [ElectionOf("", "", "weak", "")]
        before: dict[str, float] = {}
        for n, flight in enumerate(self.flights):
            for stretch in flight.stretches:
                lane = self.lane(flight.node, stretch.election)
                begin, until = self.at(n, stretch.begin), self.at(n, stretch.end)
                word = "leads" if stretch.kind == "leads" else "is named, and does not act"
                lease = None if stretch.lease is None else self.at(n, stretch.lease)
                why = next(
                    (
                        f.sentence
                        for f in reversed(flight.explained)
                        if f.election == stretch.election and f.at <= stretch.begin
                    ),
                    "",
                )
                yield Span(
                    lane=lane,
                    begin=begin,
                    end=until,
                    kind=stretch.kind,
                    why=why,
                    lease=lease,
                    label=f"{flight.node} {word}, term {stretch.term}",
                )
            for election in alone:
                lane = self.lane(flight.node, election.name)
                for began, resumed in flight.pauses:
                    yield Span(
                        lane=lane,
                        begin=self.at(n, began),
                        end=self.at(n, resumed),
                        kind="paused",
                        label=f"{flight.node} did not run: its timers fired this much too late",
                    )
                gap = before.get(lane, 0.0), self.at(n, flight.begin)
                if gap[1] - gap[0] > SHORT_S:
                    yield Span(
                        lane=lane, begin=gap[0], end=gap[1], kind="down", label=f"{flight.node}: nothing is recorded"
                    )
                before[lane] = self.at(n, flight.end)
        for lane, last in before.items():
            if end - last > SHORT_S:
                yield Span(lane=lane, begin=last, end=end, kind="down", label="its recording ends here")

    def _marks(self) -> Iterable[Mark]:
        for n, flight in enumerate(self.flights):
            for found in flight.noted:
                yield Mark(
                    lane=self.lane(flight.node, found.election),
                    at=self.at(n, found.at),
                    kind=found.kind,
                    label=found.label,
                    why=found.why,
                )

    def _said(self, number: int, explained: Iterable[Explained]) -> Iterable[Said]:
        node = self.flights[number].node
        for found in explained:
            yield Said(self.lane(node, found.election), self.at(number, found.at), found.sentence, found.lines)

    def _arrows(self) -> Iterable[Arrow]:
        """Yield the messages that decided something, and those that steps sent that did."""
        drawn: set[tuple[str, int]] = set()
        by_name = {flight.node: flight.node for flight in self.flights}
        by_name |= {flight.address: flight.node for flight in self.flights if flight.address}
        every = [(number, message) for number, flight in enumerate(self.flights) for message in flight.decided]
        for number, message in sorted(every, key=lambda found: found[1].to is not None):  # Receivers know the type.
            sender, sent = self.sender_of(message.identifier)
            if len(drawn) >= ARROWS_MAX or sender is None:
                continue
            receivers = [number] if message.to is None else self._receivers(message, number, by_name)
            for receiver in receivers:
                if (message.identifier, receiver) in drawn or sender == receiver:
                    continue
                heard = self.flights[receiver].received.get(message.identifier)
                if heard is None and not self._covers(receiver, number, message.at):
                    continue
                drawn.add((message.identifier, receiver))
                yield Arrow(
                    sender=self.lane(self.flights[sender].node, message.election),
                    receiver=self.lane(self.flights[receiver].node, message.election),
                    sent=self.at(sender, sent),
                    heard=None if heard is None else self.at(receiver, heard),
                    label=message.label,
                )

    def _receivers(self, message: Decided, sender: int, by_name: dict[str, str]) -> list[int]:
        name = by_name.get(message.to or "")
        return [
            n
            for n, flight in enumerate(self.flights)
            if n != sender and (flight.node == name if message.to else flight.node != self.flights[sender].node)
        ]

    def _covers(self, receiver: int, sender: int, at: Instant) -> bool:
        """Return whether the receiver recorded at that instant, so that a message it has not received was lost."""
        flight, x = self.flights[receiver], self.at(sender, at)
        return self.at(receiver, flight.begin) <= x <= self.at(receiver, flight.end) - 1.0

    # Who acted.

    def verdict(self, election: ElectionOf, until: float = float("inf")) -> Verdict:
        """Return the verdict about an election, up to that second of the common clock."""
        clock_of: dict[int, int] = {}
        acts = []
        for n, flight in enumerate(self.flights):
            for stretch in flight.stretches:
                if stretch.election == election.name and stretch.kind == "leads":
                    begin, end, latest = (
                        min(self.at(n, t), until) for t in (stretch.begin, stretch.end, stretch.latest)
                    )
                    if begin < until:
                        acts.append(Act(flight.node, stretch.term, begin, end, latest))
                        clock_of[id(acts[-1])] = n

        def apart(one: Act, other: Act) -> float:
            a, b = clock_of[id(one)], clock_of[id(other)]
            return 0.0 if a == b or self._ended_before(a, one, b, other) else self._apart(a, b, one, other)

        lacks = tuple(self._lacks(election.name))
        return judge(acts, apart, election=election.name, kind=election.kind, sort=election.sort, lacks=lacks)

    def _lacks(self, election: str) -> Iterable[str]:
        """Yield what the recordings do not tell of an election, and its verdict should not be read without."""
        named = {found.leader for flight in self.flights for found in flight.explained if found.election == election}
        unheard = sorted(filter(None, named - {flight.node for flight in self.flights}))
        if unheard:
            yield f"no recording was given of {', '.join(unheard)}, named leader, which may have acted at any time"
        for number, flight in enumerate(self.flights):
            led = [stretch for stretch in flight.stretches if stretch.election == election and stretch.kind == "leads"]
            if not flight.cut_off_bytes:
                continue
            cut = f"{flight.path} is cut off at {self.at(number, flight.end):.2f} s"
            if any(stretch.end == flight.end for stretch in led):
                yield f"{cut}, while {flight.node} leads"
            elif (named_at := self._named_after(number, election)) is not None:
                yield f"{cut}, and {flight.node} was named leader at {named_at:.2f} s, when it may have acted"

    def _named_after(self, number: int, election: str) -> float | None:
        """Return when others first named the node of that recording after its end, where no recording of it tells."""
        node, end = self.flights[number].node, self.at(number, self.flights[number].end)
        told = [(self.at(n, own.begin), self.at(n, own.end)) for n, own in enumerate(self.flights) if own.node == node]
        named = []
        for other, flight in enumerate(self.flights):
            before: str | None = None
            for found in flight.explained:
                if found.election != election:
                    continue
                at = self.at(other, found.at)
                if before != node == found.leader and at > end and not any(a <= at <= b for a, b in told):
                    named.append(at)
                before = found.leader
        return min(named, default=None)

    def _ended_before(self, clock: int, act: Act, later: int, begun: Act) -> bool:
        """Return whether an act had ended before another began, as the processes of some node followed each other."""
        if act.end > begun.begin:
            return False
        for ended, next_ in self._successors:
            first, last = self.flights[ended], self.flights[next_]
            left, left_error = self.clocks.between(clock, self.own(clock, act.latest), ended, first.end)
            since, since_error = self.clocks.between(next_, last.begin, later, self.own(later, begun.begin))
            if (clock == ended or left >= left_error) and since >= since_error:
                return True
        return False

    def _apart(self, a: int, b: int, one: Act, other: Act) -> float:
        """Return by how many seconds two acts may be nearer to each other, or further, than the common clock says."""
        at = max(one.begin, other.begin)
        x, y = self.own(a, at), self.own(b, at)
        by_reference = self.clocks.error(a, x) + self.clocks.error(b, y)
        between, error = self.clocks.between(a, x, b, y)  # The same instant, if the common clock were right.
        return min(by_reference, abs(between) + error) / 1e9

    def _clock(self, number: int) -> ClockOf:
        flight = self.flights[number]
        error = self._error_max(number)
        begin = self.at(number, flight.begin)
        return ClockOf(
            node=flight.node,
            path=flight.path,
            doyen=flight.doyen,
            inputs=flight.inputs,
            begin=begin,
            end=self.at(number, flight.end),
            error_s=None if error == float("inf") else error / 1e9,
            wall_off_s=flight.wall(flight.begin) - self._epoch - begin,
            contradicts_s=self.clocks.contradiction(number) / 1e9,
        )

    def _error_max(self, number: int) -> float:
        return self.clocks.error_max(number, self.flights[number].begin, self.flights[number].end)

    def _notes(self) -> Iterable[str]:
        found = (self._clock(number) for number in range(len(self.flights)))
        off = {clock.node: clock.wall_off_s for clock in found if clock.error_s is not None}
        shown = min(off, key=lambda node: abs(off[node]))
        for node, wrong in off.items():
            if abs(wrong - off[shown]) >= OFF_S:
                side = "ahead of" if wrong > 0 else "behind"
                yield f"the wall clock of {node} is {_long(abs(wrong))} {side} that of {shown}, which is shown here"
        for number, flight in enumerate(self.flights):
            if not flight.gates_known:
                yield f"{flight.path} does not tell from when on {flight.node} could act: it is taken to act at once"
            if flight.cut_off_bytes:
                yield f"{flight.path} ends within an input: its process was killed while it wrote, or the file was cut"
            if flight.left_off:
                yield f"{flight.path} has {flight.left_off:,} more marks, messages and explanations than are shown"
            if self._error_max(number) == float("inf"):
                yield f"{flight.path}: no messages both ways tell its clock; its wall clock is taken"
            elif self.clocks.contradiction(number) > 1e6:
                yield (
                    f"{flight.path}: its clock was set, or drifts too fast: messages contradict each other by "
                    f"{self.clocks.contradiction(number) / 1e9:.3f} s"
                )


def _long(span_s: float) -> str:
    return f"{span_s / 3600:.1f} h" if span_s >= 7200 else f"{span_s:.0f} s"
