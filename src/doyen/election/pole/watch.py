"""One deadline that moves, with one timer that re-arms itself: long timers never pile up."""

from msgspec import Struct

from doyen.core.clock import FOREVER, Instant
from doyen.core.effects import Out


class WatchDue(Struct, frozen=True, gc=False):
    number: int


class Deadline:
    def __init__(self, out: Out) -> None:
        self._out = out
        self._at: Instant = FOREVER
        self._armed_at: Instant = FOREVER
        self._number = 0

    def move(self, at: Instant) -> None:
        self._at = at
        if at < self._armed_at:
            self._number += 1
            self._armed_at = at
            self._out.set_timer(WatchDue(self._number), at)

    def is_over(self, timer: WatchDue, now: Instant) -> bool:
        """Whether this timer means the deadline as it is now; if that has moved, it is waited for again."""
        if timer.number != self._number:
            return False
        self._armed_at = FOREVER
        if now < self._at:
            self.move(self._at)
            return False
        return True
