"""An election without messages: each node names the lowest hash of its own view.  [CTOL §I]

It is a baseline, and shows what weak views do to elections that trust them: split leaders, as long as views differ.
"""

from typing import ClassVar

from doyen.core.clock import Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId, Term
from doyen.core.kinds import Election
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.machine import FollowsFacts, Hears, hears
from doyen.core.view import ViewChanged
from doyen.election.churn.standpoint import Rank, hash_rank


class Local(FollowsFacts, Election):
    """Names the best member of its own view, as soon as the view changes."""

    def __init__(self, me: NodeId, out: Out, *, rank: Rank = hash_rank) -> None:
        self.me, self._out, self.rank = me, out, rank
        self.considered: frozenset[NodeId] = frozenset()  # The members among which the last choice was made.
        self.term: Term | None = None

    @property
    def leader(self) -> NodeId | None:
        return None if self.term is None else self.term.leader

    @property
    def named(self) -> NodeId | None:
        return self.leader

    def on_view_changed(self, fact: ViewChanged, now: Instant) -> None:
        names = {member.node for member in fact.view.present()} | {self.me}
        self.considered = frozenset(names)
        best = min(names, key=lambda node: (self.rank(node), node))
        before = self.term
        if before is None or before.leader != best:
            if before is not None and before.leader == self.me:
                self._out.emit(LeaderLost(before, "outranked"))
            self.term = Term(1 if before is None else before.number + 1, best)
            self._out.emit(LeaderElected(self.term))

    HEARS: ClassVar[Hears] = hears(ViewChanged, on_view_changed)
