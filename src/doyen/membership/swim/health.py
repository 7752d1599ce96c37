"""Keeps local health: a node that doubts itself is slower to accuse others.  [Lifeguard §IV-A]

The count goes up when a probe fails, when helpers do not even answer with a nack, and when the node has to refute a
suspicion of itself; it goes down with every probe that succeeds.  Period and timeout are count + 1 times longer.

Extension: lateness of the node itself counts, too.  A timer that comes late shows that this node is slow, whatever its
peers do; a probe that ends with a late timer proves nothing about its target.
"""

from doyen.core.clock import Duration
from doyen.membership.swim.config import SwimConfig


class LocalHealth:
    """The degree to which a node doubts itself."""

    __slots__ = ("_late_by", "_max", "count", "was_late")

    def __init__(self, config: SwimConfig) -> None:
        self.count = 0  # 0 is healthy.
        self.was_late = False  # Within the present period.
        self._max = config.health_max
        self._late_by = config.ack_timeout // 4

    def worsen(self, by: int = 1) -> None:
        self.count = min(self._max, self.count + by)

    def improve(self) -> None:
        if self.count > 0 and not self.was_late:
            self.count -= 1

    def note_lateness(self, late: Duration) -> None:
        """Worsen if a timer came late, at most once per period: one hiccup delays several timers."""
        if late > self._late_by and not self.was_late and self._max:
            self.was_late = True
            self.worsen()

    def scaled(self, duration: Duration) -> Duration:
        return duration * (self.count + 1)
