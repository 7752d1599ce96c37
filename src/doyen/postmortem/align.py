"""Aligns the clocks of several hosts by the messages between them, and states the error.

A message is received after it was sent.  So each message from A to B says by how much B's clock is ahead of A's at the
most, and each one back by how much at the least.  Between messages two clocks may drift apart, by `DRIFT_MAX` at the
most: the bounds widen with the time to the nearest message.  Nothing else is assumed: no symmetric delay, no constant
drift.  Bounds are also taken over third hosts.  The estimate is the middle of the bounds, and half their width its
error: the truth lies within, unless a clock was stepped or drifts faster than that.  Then the bounds contradict each
other, and the error says by how much.

    a, b = 0, 1
    clocks = align(2, [Passage(a, b, sent, received), …], rough=[0, 0])
    clocks.common(b, at)         the same instant on the common clock
    clocks.error(b, at)          by how much that may be wrong
    clocks.between(a, one, b, other)         how much later the other instant is, and the error of that
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from doyen.core.clock import Duration, Instant

DRIFT_MAX: Final = 200e-6  # Between two clocks: crystals are good to 50 parts in a million, each, or better.
POINTS_MAX: Final = 2000  # Instants at which bounds are kept.
HUBS_MAX: Final = 8  # Third hosts over which bounds are taken.
NO_BOUND: Final = float("inf")


class Passage(Struct, frozen=True, gc=False):
    """A message between two clocks, by their numbers, with its instant on each."""

    sender: int
    receiver: int
    sent: Instant
    received: Instant


class Alignment:
    """The clocks of several hosts on one common clock, which is that of the host with the most messages."""

    def __init__(
        self, reference: int, shifts: Sequence[Duration], points: list[float], upper: "list[_Bounds]", slack: float
    ) -> None:
        self.reference, self._shifts, self._points, self._upper = reference, shifts, points, upper
        self._slack = slack  # Clocks are compared at instants that differ by what they are apart.

    def common(self, clock: int, at: Instant) -> Instant:
        """Return an instant of that clock on the common clock."""
        x = at + self._shifts[clock]
        ahead, _ = self._offset(self.reference, clock, x)
        return round(x - ahead) - self._shifts[self.reference]

    def error(self, clock: int, at: Instant) -> float:
        """Return by how many nanoseconds `common` may be wrong; infinite where no messages tell."""
        return self._offset(self.reference, clock, at + self._shifts[clock])[1]

    def between(self, clock: int, at: Instant, other: int, other_at: Instant) -> tuple[Duration, float]:
        """Return how much later an instant of the other clock is, and the error of that."""
        x, y = at + self._shifts[clock], other_at + self._shifts[other]
        if clock == other:
            return y - x, 0.0
        ahead, error = self._offset(clock, other, y)
        return round(y - ahead - x), error

    def error_max(self, clock: int, begin: Instant, end: Instant) -> float:
        """Return the largest error of a clock between two instants of it."""
        first, last = begin + self._shifts[clock], end + self._shifts[clock]
        within = [x for x in self._points if first < x < last]
        return max(self._offset(self.reference, clock, x)[1] for x in (first, *within, last))

    def rough(self, common: Instant) -> Instant:
        """Return an instant of the common clock on the scale of the rough shifts, as most of the hosts have it."""
        return common + self._shifts[self.reference]

    def contradiction(self, clock: int) -> float:
        """Return by how many nanoseconds the bounds of a clock contradict each other at the worst; 0: they do not."""
        if clock == self.reference:
            return 0.0
        over = [bounds[self.reference][clock] + bounds[clock][self.reference] for bounds in self._upper]
        return max(0.0, -min(over, default=0.0))

    def _offset(self, base: int, clock: int, x: float) -> tuple[float, float]:
        """Return how far a clock is ahead of the base, near that instant, and the error of that."""
        if base == clock:
            return 0.0, 0.0
        right = min(bisect_right(self._points, x), len(self._points) - 1)
        most = least = NO_BOUND
        for point in {max(right - 1, 0), right}:
            bounds, widened = self._upper[point], abs(x - self._points[point]) * DRIFT_MAX
            most, least = min(most, bounds[base][clock] + widened), min(least, bounds[clock][base] + widened)
        if most == NO_BOUND or least == NO_BOUND:
            return (most if most < NO_BOUND else -least if least < NO_BOUND else 0.0), NO_BOUND
        return (most - least) / 2, abs(most + least) / 2 + self._slack


_Bounds = list[list[float]]  # [i][j]: the most that clock j may be ahead of clock i.
_Known = dict[tuple[int, int], list[tuple[Instant, Instant]]]  # (sent, received), by sender and receiver.


def align(
    count: int, passages: Iterable[Passage], rough: Sequence[Duration], hosts: Sequence[str] | None = None
) -> Alignment:
    """Align `count` clocks; `rough` are the shifts that bring them near each other, such as by their wall clocks.

    Messages correct the rough shifts, however wrong they are; a clock without messages keeps its own, with no bound.
    `hosts` says where each clock is: the rough shifts of one host are wrong by the same.
    """
    known: _Known = {}
    for p in passages:
        known.setdefault((p.sender, p.receiver), []).append((p.sent, p.received))
    heard = [sum(len(times) for pair, times in known.items() if clock in pair) for clock in range(count)]
    hubs = sorted(range(count), key=lambda clock: -heard[clock])
    reference = hubs[0]
    shifts = _shifted(known, rough, hubs, hosts or [str(clock) for clock in range(count)])
    instants = sorted(r + shifts[pair[1]] for pair, times in known.items() for _, r in times) or [0]
    number = max(1, min(POINTS_MAX, len(instants), 4_000_000 // (count * count * min(count, HUBS_MAX))))
    points: list[float] = [*instants[:: -(-len(instants) // number)], instants[-1] + 1]
    upper: list[_Bounds] = [[[NO_BOUND] * count for _ in range(count)] for _ in points]
    for (sender, receiver), times in known.items():
        tightest = [NO_BOUND] * len(points)
        for sent, received in times:
            x = received + shifts[receiver]
            delta = x - sent - shifts[sender]
            after = bisect_right(points, x)
            for point in (after - 1, after):
                bound = delta + abs(points[point] - x) * DRIFT_MAX
                if bound < tightest[point]:
                    tightest[point] = bound
        for bounds, bound in zip(upper, tightest, strict=True):
            bounds[sender][receiver] = bound
    for (one, earlier), (other, later) in pairwise(zip(points, upper, strict=True)):
        _widen(earlier, later, (other - one) * DRIFT_MAX)
    for (one, later), (other, earlier) in pairwise(zip(reversed(points), reversed(upper), strict=True)):
        _widen(later, earlier, (one - other) * DRIFT_MAX)
    for every in upper:
        _close(every, hubs[:HUBS_MAX])
    found = Alignment(reference, shifts, points, upper, 0.0)
    apart = max(abs(found._offset(reference, clock, x)[0]) for x in points for clock in range(count))
    return Alignment(reference, shifts, points, upper, 2 * apart * DRIFT_MAX)


def _shifted(known: _Known, rough: Sequence[Duration], hubs: Sequence[int], hosts: Sequence[str]) -> list[Duration]:
    """Return shifts that bring all clocks near each other: by messages where there are some, else by their host's."""
    least = {
        (sender, receiver): min(received - sent for sent, received in times) + rough[receiver] - rough[sender]
        for (sender, receiver), times in known.items()
    }
    moved: dict[int, Duration] = {}
    while len(moved) < len(hubs):
        by_host = {hosts[clock]: moved[clock] for clock in moved}
        left = [clock for clock in hubs if clock not in moved]
        hub = next((clock for clock in left if hosts[clock] in by_host), left[0])
        moved[hub] = by_host.get(hosts[hub], 0)
        todo = [hub]
        while todo:
            base = todo.pop(0)
            for clock in hubs:
                there, back = least.get((base, clock)), least.get((clock, base))
                if clock in moved or (there is None and back is None):
                    continue
                ahead = there if back is None else -back if there is None else (there - back) // 2
                assert ahead is not None
                moved[clock] = moved[base] - ahead
                todo.append(clock)
        if hub == hubs[0]:  # Most of the hosts have it right; of two, nobody knows which.
            usual = _middle([*{hosts[clock]: shift for clock, shift in moved.items()}.values()])
            moved = {clock: shift - usual for clock, shift in moved.items()}
    return [shift + moved[clock] for clock, shift in enumerate(rough)]


def _middle(values: list[Duration]) -> Duration:
    """Return the value in the middle; of two, the lesser one by its size."""
    ordered = sorted(values)
    return min(ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2], key=abs)


def _widen(source: _Bounds, target: _Bounds, by: float) -> None:
    for known, wanted in zip(source, target, strict=True):
        for clock, bound in enumerate(known):
            if bound + by < wanted[clock]:
                wanted[clock] = bound + by


def _close(bounds: _Bounds, hubs: Sequence[int]) -> None:
    """Take bounds over third clocks, where those are tighter."""
    for hub in hubs:
        onward = bounds[hub]
        for i, own in enumerate(bounds):
            over = own[hub]
            if i == hub or over == NO_BOUND:
                continue
            for j, bound in enumerate(onward):
                if j != i and over + bound < own[j]:
                    own[j] = over + bound
