"""Counts what the traffic that is there shows of a network: losses, round trips, late timers, slow writes.

A machine says which of its messages are questions, answers or parts of a series (`core.traffic`).  Nothing is sent from
here, and memory is bounded: three histograms of 60 buckets, the last questions, and the last message of each sender.
All counts only grow, so the difference of two snapshots is what happened between them.
"""

from bisect import bisect_left
from collections import OrderedDict
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from doyen.core.clock import Duration, Instant, seconds
from doyen.core.ids import NodeId
from doyen.core.kinds import Election, Membership
from doyen.core.traffic import Exchange, Series

BUCKETS: Final = 60
PER_DOUBLING: Final = 3  # So a bucket ends 26 % above its beginning.
FIRST_NS: Final = 20_000  # Where the first bucket ends; the last one has everything above 13 s.
BOUNDS: Final[tuple[Duration, ...]] = tuple(round(FIRST_NS * 2 ** (i / PER_DOUBLING)) for i in range(BUCKETS - 1))
QUESTIONS_MAX: Final = 256  # Questions whose answers are waited for; the oldest is forgotten, and counts for nothing.
SENDERS_MAX: Final = 1024
LATE: Final[Duration] = seconds(2)  # A question this old is lost once its target answers a later one.
GAP_MAX: Final = 20  # Messages missing in a row; more of them, and the sender was gone.

Count: Any = Annotated[int, Meta(ge=0, le=2**62)]


class Spread(Struct, frozen=True, array_like=True):
    """A histogram of durations: the count and the sum of each bucket, in microseconds."""

    buckets: Annotated[dict[Annotated[int, Meta(ge=0, lt=BUCKETS)], Count], Meta(max_length=BUCKETS)]
    sum_us: Count
    squares_us: Count


class Snapshot(Struct, frozen=True, array_like=True):
    """The counts of one node, at one instant of its clock."""

    at: Count
    answered: Count  # Questions that were answered,
    unanswered: Count  # and those that were not, by members that answered later ones.
    came: Count  # Messages of series that came,
    missing: Count  # and those that were lost between two that came.
    round_trips: Spread
    lateness: Spread
    writes: Spread
    sent_bytes: Count


class Histogram:
    """Durations in buckets that grow by the same factor."""

    __slots__ = ("_counts", "_squares_us", "_sum_us")

    def __init__(self) -> None:
        self._counts = [0] * BUCKETS
        self._sum_us = self._squares_us = 0

    def note(self, took: Duration) -> None:
        us = took // 1000 if took > 0 else 0
        self._counts[bisect_left(BOUNDS, took)] += 1
        self._sum_us += us
        self._squares_us += us * us

    def spread(self) -> Spread:
        return Spread(
            {i: count for i, count in enumerate(self._counts) if count}, self._sum_us, min(self._squares_us, 2**62)
        )


class _Questions:
    """One kind of question, and those that were not answered yet."""

    __slots__ = ("about", "machine", "open")

    def __init__(self, about: Exchange, machine: Any) -> None:
        self.about, self.machine = about, machine
        self.open: OrderedDict[tuple[int, NodeId], Instant] = OrderedDict()  # (number, target) → when it was asked


class _Repeated:
    """One kind of repeated messages, and the last of each sender."""

    __slots__ = ("interval", "last")

    def __init__(self, about: Series, machine: Any) -> None:
        self.interval: Duration = about.interval(machine)
        self.last: OrderedDict[NodeId, Instant] = OrderedDict()


class Tallies:
    """The counts of one node; its driver notifies it of messages, and of timers that came late."""

    def __init__(self) -> None:
        self.answered = self.unanswered = self.came = self.missing = 0
        self.round_trips, self.lateness = Histogram(), Histogram()
        self._asks: dict[tuple[str, type], _Questions] = {}  # By channel and class of message.
        self._hears: dict[tuple[str, type], _Questions | _Repeated] = {}

    def watch(self, channel: str, machine: Any) -> None:
        """Take note of what a machine's messages show, if its class says so (`MEASURED`)."""
        for about in machine.MEASURED if isinstance(machine, Election | Membership) else ():
            if isinstance(about, Exchange):
                questions = _Questions(about, machine)
                self._asks[channel, about.question] = self._hears[channel, about.answer] = questions
            else:
                self._hears[channel, about.message] = _Repeated(about, machine)

    @property
    def open_count(self) -> int:
        """Return how many questions wait for an answer."""
        return sum(len(questions.open) for questions in self._asks.values())

    def on_sent(self, channel: str, message: Any, now: Instant) -> None:
        questions = self._asks.get((channel, message.__class__))
        if questions is not None:
            about, waiting = questions.about, questions.open
            number = about.number(message)
            for target in about.targets(questions.machine, message):
                waiting[number, target] = now
                if len(waiting) > QUESTIONS_MAX:
                    waiting.popitem(last=False)

    def on_heard(self, channel: str, sender: NodeId, message: Any, now: Instant) -> None:
        found = self._hears.get((channel, message.__class__))
        if found is None:
            return
        if isinstance(found, _Repeated):
            self._on_repeated(found, sender, now)
        else:
            self._on_answer(found, sender, found.about.number(message), now)

    def _on_answer(self, questions: _Questions, sender: NodeId, number: int, now: Instant) -> None:
        waiting = questions.open
        asked_at = waiting.pop((number, sender), None)
        if asked_at is None:
            return
        self.round_trips.note(now - asked_at)
        self.answered += 1
        lost = [key for key, at in waiting.items() if key[1] == sender and at < asked_at and now - at > LATE]
        for earlier in lost:
            del waiting[earlier]
        self.unanswered += len(lost)

    def _on_repeated(self, series: _Repeated, sender: NodeId, now: Instant) -> None:
        last = series.last
        before = last.get(sender)
        if before is None:
            last[sender] = now
            if len(last) > SENDERS_MAX:
                last.popitem(last=False)
            return
        step = round((now - before) / series.interval)
        if step > 0:  # Else it came twice, or outside its turn.
            last[sender] = now
            if step <= GAP_MAX:
                self.came += 1
                self.missing += step - 1

    def snapshot(self, at: Instant, writes: Histogram | None, sent_bytes: int) -> Snapshot:
        """Return the counts as they are now."""
        return Snapshot(
            at,
            self.answered,
            self.unanswered,
            self.came,
            self.missing,
            self.round_trips.spread(),
            self.lateness.spread(),
            (writes or Histogram()).spread(),
            sent_bytes,
        )
