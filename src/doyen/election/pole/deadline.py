"""A deadline that moves, with one timer that re-arms itself, so that long timers never pile up."""

from msgspec import Struct

from doyen.core.clock import FOREVER, Instant
from doyen.core.effects import Out


class DeadlineReached(Struct, frozen=True, gc=False):
    """The machine acts, unless the deadline has moved."""

    number: int


class Deadline:
    """The one deadline of a machine, for whatever it waits for at present."""

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
            self._out.set_timer(DeadlineReached(self._number), at)

    def is_over(self, timer: DeadlineReached, now: Instant) -> bool:
        """Whether the deadline is over; if it has moved, the timer is set again."""
        if timer.number != self._number:
            return False
        self._armed_at = FOREVER
        if now < self._at:
            self.move(self._at)
            return False
        return True
