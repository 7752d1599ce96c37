"""A deadline that moves, with one timer that is set again: long timers never pile up.

    self._deadline.move(now + timeout, SilenceIsNoticed(), out)      on every sign of life: costs no timer
    case SilenceIsNoticed() if self._deadline.is_over(timer, now, out):      in on_timer: it has not moved since

A machine that may set a second timer, because a deadline moved to an earlier instant, tells them apart by `number`:
it sets `Timer(deadline.number + 1)`, and heeds a timer only if its number is `deadline.number`.
"""

from typing import Any

from doyen.core.clock import FOREVER, Instant
from doyen.core.effects import Out


class Deadline:
    """The instant at which something is due, and the one at which its timer fires."""

    __slots__ = ("armed_at", "at", "number")

    def __init__(self) -> None:
        self.at: Instant = FOREVER
        self.armed_at: Instant = FOREVER  # When the timer fires; FOREVER: none is set.
        self.number = 0  # How many timers were set.

    def move(self, at: Instant, timer: Any, out: Out, *, now: Instant = -FOREVER) -> None:
        """Set the deadline, and a timer, unless one fires before it.

        With `now`, a timer that ought to have fired by then does not count: this step may have come first.
        """
        self.at = at
        if not now < self.armed_at <= at:
            self.armed_at = at
            self.number += 1
            out.set_timer(timer, at)

    def is_over(self, timer: Any, now: Instant, out: Out) -> bool:
        """Return whether the deadline has passed, now that its timer fires; if it has moved, the timer is set again."""
        self.fired()
        if now < self.at:
            self.move(self.at, timer, out)
            return False
        return True

    def fired(self) -> None:
        """Forget the timer: it has fired, or does not matter any more."""
        self.armed_at = FOREVER
