"""A histogram of durations with fixed buckets, so that its memory does not grow."""

from bisect import bisect_left
from itertools import accumulate
from typing import Final

from doyen.core.clock import Duration, ms, to_seconds

# From a killed process, which the kernel reports at once, to a host that vanished on a slow network.
BOUNDS: Final[tuple[Duration, ...]] = tuple(
    map(ms, (10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000))
)


class Histogram:
    """Counts how many durations were at most as long as each of `BOUNDS`."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)  # The last one is for what is longer than every bound.
        self.sum: Duration = 0

    def observe(self, duration: Duration) -> None:
        self._counts[bisect_left(BOUNDS, duration)] += 1
        self.sum += duration

    @property
    def count(self) -> int:
        return sum(self._counts)

    def cumulated(self) -> list[tuple[str, int]]:
        """Return for each bound, in seconds as text, how many durations were not longer."""
        bounds = [*(str(to_seconds(bound)) for bound in BOUNDS), "+Inf"]
        return list(zip(bounds, accumulate(self._counts), strict=True))
