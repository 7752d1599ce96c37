"""Replays a recording with another setting, up to the first output that differs.

Messages, commands and answers come as they were recorded.  A timer that the other machines set for the same instant
fires when it was recorded to fire; one that they set for another instant fires then, and its recorded firing is left
out.  Outputs are what leaves a machine: messages, facts and records.  The first one that is not the recorded one ends
the replay: from there on, nothing that was recorded would have happened as it did.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

from msgspec import Struct

from doyen.core.clock import NEVER, Instant
from doyen.net.recording.effects import effect_text
from doyen.net.recording.format import Added, Effect, Fired, Input, MayAct, Origin
from doyen.net.recording.reader import Reader
from doyen.net.recording.replay import Foundation, Replaying
from doyen.node.config import NodeConfig
from doyen.postmortem.recorded import Flight, Watched

Change = Callable[[NodeConfig], NodeConfig]


class Difference(Struct, frozen=True):
    """The first output that differs."""

    at: Instant  # On the node's own clock.
    recorded: str
    other: str


class Other:
    """The machines of one recording with another setting; `run` goes as far as their outputs are the recorded ones."""

    def __init__(self, flight: Flight, change: Change) -> None:
        self.flight = flight
        self._paths = [Path(path) for path in flight.segments]
        self._reader = Reader(self._paths[0])
        header = self.header = self._reader.header
        self.watched: Watched

        def build(origin: Origin, site: Foundation) -> Watched:
            self.watched = Watched(origin, site, header, change=change)
            return self.watched

        try:
            self.replaying = Replaying(self._paths[0], self._reader, build)
        except BaseException:
            self._reader.__exit__()
            raise
        timers = self.replaying.world.timers
        self._same: dict[int, int] = {number: number for number in timers}  # By the recorded number: the other one.
        self._own: list[tuple[Instant, int]] = []  # Timers that are set for another instant: a heap.
        self._next_recorded = 0 if header.state is None else header.state.next_timer
        self.additions: list[dict[str, str]] = [*header.additions]
        self.disk: dict[str, bytes] = dict(header.restored)
        self.at: Instant = header.now  # Until when it ran.

    def run(self, until: Instant = NEVER) -> Difference | None:
        """Take the inputs before that instant of the node's own clock; return the first output that differs."""
        try:
            for number, item in enumerate(self._inputs(), start=1):
                if item.now >= until:
                    return self._fire_own(until - 1)
                found = self._fire_own(item.now) or self._take(number, item)
                if found is not None:
                    return found
                self.at = item.now
        finally:
            self._reader.__exit__()
        return None

    def _inputs(self) -> Iterator[Input]:
        yield from self._reader.inputs()
        for path in self._paths[1:]:
            with Reader(path) as reader:
                for _ in reader.state():
                    pass
                yield from reader.inputs()

    def _fire_own(self, now: Instant) -> Difference | None:
        """Fire the timers that are due by then, and were not recorded to fire then."""
        while self._own and self._own[0][0] <= now:
            at, number = heappop(self._own)
            effects, failure = self._effects(0, Input(at, Fired(number), []))
            found = _first_difference([], effects, at, failure)
            if found is not None:
                return found
            self._keep_own(effects, self._numbers_of(effects))
            self.at = at
        return None

    def _take(self, number: int, item: Input) -> Difference | None:
        given: Any = item.given
        if isinstance(given, Fired):
            other = self._same.pop(given.number, None)
            if other is None:  # It was set for another instant, or not at all.
                self._next_recorded += len(_timers(item.effects))
                return _first_difference(item.effects, [], item.now, "")
            given = Fired(other)
        elif isinstance(given, Added):
            self.additions.append(given.what)
        elif isinstance(given, MayAct):
            self.watched.may_act(given.election)
        effects, failure = self._effects(number, Input(item.now, given, [], item.nested))
        found = _first_difference(item.effects, effects, item.now, "" if failure == item.failure else failure)
        if found is None:
            self._pair(item.effects, effects)
        return found

    def _effects(self, number: int, item: Input) -> tuple[list[Effect], str]:
        self.watched.fit()
        effects, failure = self.replaying.take(number, item)
        for effect in effects:
            if effect.verb == "persist":
                self.disk[effect.channel] = effect.data
        return [*effects], failure

    def _pair(self, recorded: list[Effect], effects: list[Effect]) -> None:
        """Find for each recorded timer the one that was set instead."""
        theirs, ours = _timers(recorded), _timers(effects)
        numbers = self._numbers_of(effects)
        alike = [(a.channel, a.what) for a in theirs] == [(b.channel, b.what) for b in ours]
        for place, number in enumerate(numbers):
            if alike and theirs[place].at == ours[place].at:
                self._same[self._next_recorded + place] = number
            else:
                heappush(self._own, (self._able(ours[place].at), number))
        self._next_recorded += len(theirs)

    def _keep_own(self, effects: list[Effect], numbers: list[int]) -> None:
        for effect, number in zip(_timers(effects), numbers, strict=True):
            heappush(self._own, (self._able(effect.at), number))

    def _able(self, at: Instant) -> Instant:
        """Return when a timer for that instant fires: once the process runs again, if it was stopped."""
        return next((end for begin, end in self.flight.pauses if begin <= at < end), at)

    def _numbers_of(self, effects: list[Effect]) -> list[int]:
        """Return the numbers of the timers that were just set."""
        last = self.replaying.world.next_timer
        return [*range(last - len(_timers(effects)), last)]


def _timers(effects: list[Effect]) -> list[Effect]:
    return [effect for effect in effects if effect.verb == "set timer" and effect.at < NEVER]


def _first_difference(recorded: list[Effect], effects: list[Effect], at: Instant, failure: str) -> Difference | None:
    theirs = [effect for effect in recorded if effect.verb != "set timer"]
    ours = [effect for effect in effects if effect.verb != "set timer"]
    for place in range(max(len(theirs), len(ours))):
        one = theirs[place] if place < len(theirs) else None
        other = ours[place] if place < len(ours) else None
        if one != other:
            return Difference(at, effect_text(one) or "nothing", effect_text(other) or "nothing")
    return Difference(at, "", failure) if failure else None
