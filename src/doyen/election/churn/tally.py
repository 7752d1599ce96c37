"""Sums up the responses to one attempt: candidates and excludes.  [CTOL Alg. 1–4]"""

from doyen.core.ids import NodeId
from doyen.election.churn.messages import Response
from doyen.election.churn.standpoint import Standpoint


class Tally:
    """The union of the candidates, and the sums of the unhealthy counts; a responder counts once."""

    __slots__ = ("_candidates", "_excluded", "_point", "_ranks", "_unhealthy_count", "received")

    def __init__(self, point: Standpoint, unhealthy_count: int) -> None:
        self._point, self._unhealthy_count = point, unhealthy_count
        self.received: set[NodeId] = set()
        self._candidates: set[NodeId] = set()
        self._excluded: dict[NodeId, int] = {}
        self._ranks: dict[NodeId, int | float] = {}  # Where responses carry ranks: the best that any gave.

    def add(self, sender: NodeId, response: Response) -> bool:
        """Count a response; return whether it is the first of its sender."""
        if sender in self.received:
            return False
        self.received.add(sender)
        self._candidates.update(response.candidates)
        for node, count in response.excluded:
            self._excluded[node] = self._excluded.get(node, 0) + count
        for node, rank in zip(response.candidates, response.ranks, strict=False):
            self._ranks[node] = min(rank, self._ranks.get(node, rank))
        return True

    def order(self, node: NodeId) -> tuple[int | float, int | float, NodeId]:
        return self._point.order(node, self._ranks.get(node))

    def excluded(self) -> tuple[tuple[NodeId, int], ...]:
        """Return the excluded members with their sums, the most unhealthy first; ties go by hash."""
        ranked = sorted(self._excluded.items(), key=lambda item: (-item[1], self._point.order(item[0])))
        return tuple(ranked if self._point.config.exclusion == "union" else ranked[: self._unhealthy_count])

    def candidates(self) -> tuple[NodeId, ...]:
        return tuple(sorted(self._candidates, key=self.order))

    def leaders(self) -> tuple[NodeId, ...]:
        """[CTOL Alg. 3, line 13] Return candidates − excludes, the best first."""
        out = {node for node, _ in self.excluded()}
        leaders = tuple(node for node in self.candidates() if node not in out)
        if self._point.declined:
            return tuple(node for node in leaders if node != self._point.me) or leaders
        return leaders
