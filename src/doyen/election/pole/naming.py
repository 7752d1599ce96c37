"""The leader that a node names: its terms never go back while the process runs."""

from doyen.core.effects import Out
from doyen.core.ids import NodeId, Term
from doyen.core.leadership import LeaderElected, LeaderLost


class Naming:
    """The term of the leader that is named, if one is, and the greatest that ever was."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self.term: Term | None = None
        self._last: Term | None = None
        self._ended: dict[NodeId, int] = {}  # The last epoch in which a leader says that it no longer acts.
        self._withdrawn: dict[NodeId, tuple[int, int]] = {}  # The last claim withdrawn, and its last heartbeat.

    @property
    def last(self) -> int:
        """Return the number of the greatest term that was ever named."""
        return 0 if self._last is None else self._last.number

    def is_past(self, epoch: int, leader: NodeId) -> bool:
        """Return whether a term is over: a later one was named here, or its leader says that it does not act."""
        return epoch <= self._ended.get(leader, 0) or (self._last is not None and Term(epoch, leader) < self._last)

    def end(self, epoch: int, leader: NodeId) -> None:
        self._ended[leader] = max(epoch, self._ended.get(leader, 0))

    def withdraw(self, epoch: int, claimant: NodeId, number: int) -> None:
        self._withdrawn[claimant] = (epoch, number)

    def is_withdrawn(self, epoch: int, claimant: NodeId, number: int = 0) -> bool:
        """Return whether a claim is over, by the number of its heartbeat; without one, by its epoch."""
        withdrawn, last = self._withdrawn.get(claimant, (0, 0))
        return epoch <= withdrawn and number <= last

    def name(self, term: Term) -> None:
        if self.term != term:
            self.term = self._last = term
            self._out.emit(LeaderElected(term))

    def lose(self, reason: str) -> None:
        if self.term is not None:
            term, self.term = self.term, None
            self._out.emit(LeaderLost(term, reason))
