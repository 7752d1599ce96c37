"""How long answers are worth waiting for here: longer, once some have come too late."""

from typing import Final

from doyen.core.clock import Duration, Instant
from doyen.core.ids import NodeId
from doyen.election.spanning.messages import ElectionId, newer

STRAIN_MAX: Final = 31


class Patience:
    """An answer from somebody given up, or an election of mine right after another, shows that δ may be too short here:
    waits for answers double.  Whoever joins an election after a calm time halves them.

    Where hops take at most δ no answer is late, so nothing changes.  The wait for a declaration does not grow: it
    bounds how long memory that makes no sense can last.
    """

    __slots__ = ("_begun_at", "_given_up", "_joined_at", "strain")

    def __init__(self) -> None:
        self.strain = 0
        self._given_up: dict[NodeId, ElectionId] = {}  # By neighbour: the first election in which I gave it up.
        self._begun_at: Instant | None = None
        self._joined_at: Instant | None = None

    def stretched(self, wait: Duration) -> Duration:
        return wait * (1 + min(max(self.strain, 0), STRAIN_MAX))

    def give_up(self, node: NodeId, election: ElectionId) -> None:
        self._given_up.setdefault(node, election)

    def hear(self, node: NodeId, election: ElectionId) -> None:
        given_up = self._given_up.get(node)
        if given_up == election or newer(election, given_up):
            self._given_up.pop(node, None)
            if given_up == election:
                self._grow()

    def begin(self, now: Instant, calm: Duration) -> None:
        if self._begun_at is not None and now - self._begun_at < calm:
            self._grow()
        self._begun_at = now

    def join(self, now: Instant, calm: Duration) -> None:
        if self._joined_at is None or now - self._joined_at >= calm:
            self.strain = max(self.strain, 0) // 2
        self._joined_at = now

    def repair(self, now: Instant) -> None:
        """Whatever memory holds, nothing was done later than now."""
        self._begun_at = None if self._begun_at is None else min(self._begun_at, now)
        self._joined_at = None if self._joined_at is None else min(self._joined_at, now)

    def forget(self, node: NodeId) -> None:
        self._given_up.pop(node, None)

    def _grow(self) -> None:
        self.strain = min(2 * max(self.strain, 0) + 1, STRAIN_MAX)
