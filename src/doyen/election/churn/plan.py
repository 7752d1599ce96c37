"""Plans to begin an election within some time, unless another node does first."""

from random import Random

from doyen.core.clock import Duration, Instant
from doyen.core.effects import Out
from doyen.election.churn.messages import ElectionBegins


class Plan:
    """When this node begins an election, if it is to."""

    def __init__(self, out: Out, rng: Random) -> None:
        self._out, self._rng = out, rng
        self._at: Instant | None = None

    def make(self, number: int, spread: Duration, now: Instant) -> None:
        """Plan to begin within `spread`, at random, if the term is still that number; an earlier plan stays."""
        if self._at is None:
            self._at = now + int(self._rng.random() * spread)
            self._out.set_timer(ElectionBegins(number), self._at)

    def drop(self) -> None:
        self._at = None

    def is_due(self, timer: ElectionBegins, number: int, now: Instant) -> bool:
        """Drop the plan if its time has come; return whether to begin."""
        if self._at is None or now < self._at:
            return False
        self._at = None
        return timer.number == number
