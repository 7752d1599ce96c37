"""Timers and the world's own plans, in the order in which they are due.

Most timers of a simulation are set for one of a few durations: a period, a timeout.  What is set for the same
duration is due in the order in which it was set, so each duration that comes again gets a *lane*, a queue, and only
the first of each lane is in the heap, and in no queue.  The heap of a group of thousands is then a handful of entries.
"""

from collections import deque
from heapq import heappop, heappush, heapreplace
from typing import Any, Final

from doyen.core.clock import Duration, Instant
from doyen.core.host import Port

# (at, sequence, port, timer, index of its node, lane); a plan of the world has no port, and (what to do, its name).
Entry = tuple[Instant, int, Port | None, Any, int, "deque[Any] | None"]

LANE_COUNT_MAX: Final = 64
SEEN_COUNT_MAX: Final = 4096  # Durations kept in mind, to see which come again.


class Timers:
    """All that is due later; the engine and ports use `heap` and `lanes` directly, for speed."""

    __slots__ = ("_durations", "_idle", "_seen", "heap", "lanes")

    def __init__(self) -> None:
        self.heap: list[Entry] = []
        self.lanes: dict[Duration, deque[Entry]] = {}  # Those whose first is in the heap; here are the rest of them.
        self._idle: dict[Duration, deque[Entry]] = {}
        self._durations: dict[int, Duration] = {}  # By the id of the lane.
        self._seen: set[Duration] = set()

    def push(self, at: Instant, sequence: int, port: Port | None, timer: Any, index: int, now: Instant) -> None:
        duration = at - now
        lane = self.lanes.get(duration)
        if lane is not None:
            lane.append((at, sequence, port, timer, index, lane))
            return
        lane = self._idle.pop(duration, None)
        if lane is None and duration in self._seen and len(self._durations) < LANE_COUNT_MAX:
            lane = deque()
            self._durations[id(lane)] = duration
        if lane is not None:
            self.lanes[duration] = lane
        else:
            if len(self._seen) >= SEEN_COUNT_MAX:
                self._seen.clear()
            self._seen.add(duration)
        heappush(self.heap, (at, sequence, port, timer, index, lane))

    def pop(self) -> Entry:
        entry = self.heap[0]
        lane = entry[5]
        if lane:
            heapreplace(self.heap, lane.popleft())
        else:
            heappop(self.heap)
            if lane is not None:
                self.retire(lane)
        return entry

    def is_due(self, index: int, at: Instant) -> bool:
        """Return whether a timer of that node fires by then."""
        queues = (self.heap, *self.lanes.values())
        return any(entry[0] <= at and entry[4] == index for queue in queues for entry in queue)

    def retire(self, lane: deque[Entry]) -> None:
        """Set a lane aside whose last entry left the heap."""
        duration = self._durations[id(lane)]
        self._idle[duration] = self.lanes.pop(duration)
