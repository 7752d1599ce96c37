"""Decides how long answers are waited for: longer, once some have come too late."""

from doyen.core.clock import Duration, Instant
from doyen.core.ids import NodeId
from doyen.election.spanning.config import STRAIN_MAX, SpanningConfig
from doyen.election.spanning.messages import ElectionId, newer


class Patience:
    """The factor by which a node's waits for answers are stretched.

    An answer from a node that was given up, or an election initiated right after another, shows that δ may be too
    short here: the waits double.  Joining an election after a calm time halves them.  Where hops take at most δ no
    answer is late, so nothing changes.  The wait for a declaration does not grow: it bounds how long memory that makes
    no sense can last (decision 46).
    """

    __slots__ = ("_config", "_given_up", "_initiated_at", "_joined_at", "strain")

    def __init__(self, config: SpanningConfig) -> None:
        self._config = config
        self.strain = 0
        self._given_up: dict[NodeId, ElectionId] = {}  # By neighbour: the first election in which it was given up.
        self._initiated_at: Instant | None = None
        self._joined_at: Instant | None = None

    @property
    def answer_wait(self) -> Duration:
        return self._config.answer_wait * (1 + min(max(self.strain, 0), STRAIN_MAX))

    def give_up(self, peer: NodeId, election: ElectionId) -> None:
        self._given_up.setdefault(peer, election)

    def hear(self, peer: NodeId, election: ElectionId) -> None:
        """Grow if this is an answer from a peer that was given up in the same election."""
        given_up = self._given_up.get(peer)
        if given_up == election or newer(election, given_up):
            self._given_up.pop(peer, None)
            if given_up == election:
                self._grow()

    def initiate(self, now: Instant) -> None:
        if self._initiated_at is not None and now - self._initiated_at < self._config.declaration_wait:
            self._grow()
        self._initiated_at = now

    def join(self, now: Instant) -> None:
        if self._joined_at is None or now - self._joined_at >= self._config.declaration_wait:
            self.strain = max(self.strain, 0) // 2
        self._joined_at = now

    def repair(self, now: Instant) -> None:
        """Make sense of whatever memory holds: nothing was done later than now."""
        self._initiated_at = None if self._initiated_at is None else min(self._initiated_at, now)
        self._joined_at = None if self._joined_at is None else min(self._joined_at, now)

    def forget(self, peer: NodeId) -> None:
        self._given_up.pop(peer, None)

    def _grow(self) -> None:
        self.strain = min(2 * max(self.strain, 0) + 1, STRAIN_MAX)
