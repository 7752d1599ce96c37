"""The parts that elections share whose leader holds a lease that only its own clock ends."""

from typing import Annotated, TypeAlias

from msgspec import Meta

from doyen.core.clock import Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId, Term
from doyen.core.kinds import Election
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.errors import LocalProtocolError

Drift: TypeAlias = Annotated[float, Meta(ge=0, le=0.1)]


def guard(lease: Duration, drift_max: float) -> Duration:
    """Return how long another waits for a lease to end: by the slowest against the fastest clock."""
    return int(lease * (1.0 + drift_max) / (1.0 - drift_max)) + 1


class Held(Election):
    """A member's leadership: the term that it names, and its own lease."""

    me: NodeId
    out: Out
    term: Term | None  # That of the last `LeaderElected`, unless lost since.
    _lease_end: Instant

    @property
    def leading(self) -> bool:
        """Return whether this member has begun to lead, and has not stopped."""
        raise NotImplementedError

    @property
    def named(self) -> NodeId | None:
        return None if self.term is None else self.term.leader

    def leads(self, now: Instant) -> bool:
        """Return whether this member may act at this instant, even where timers are late."""
        return self.leading and now < self._lease_end

    def lease_until(self) -> Instant | None:
        return self._lease_end if self.leading else None

    def check_heir(self, to: NodeId | None) -> None:
        if to == self.me:
            raise LocalProtocolError(f"cannot hand over to {to}: it is this member itself")

    def _name(self, term: Term) -> None:
        if self.term != term:
            self._lose("outranked")
            self.term = term
            self.out.emit(LeaderElected(term))

    def _lose(self, reason: str) -> None:
        """Lose the leader that is named."""
        if self.term is not None:
            term, self.term = self.term, None
            self.out.emit(LeaderLost(term, reason))
