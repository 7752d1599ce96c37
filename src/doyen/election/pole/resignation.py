"""Finds out whether another voter would be the better leader by now, clearly and lastingly.  [POLE §5]

Ours: the paper says "based on some threshold".  Another must be better by a margin, in several comparisons in a row,
and a leader does not resign before it has led for a cool-down: so a node whose score flaps takes leadership at most
once per cool-down.  Handing over takes no election: the heir is named, and claims the next epoch.
"""

from doyen.core.ids import NodeId
from doyen.core.order import order
from doyen.core.rank import OracleStanding
from doyen.election.pole.config import PoleConfig


class Rivals:
    """The comparisons of one reign: the standings of the other voters, and who has been better how often in a row."""

    def __init__(self, config: PoleConfig) -> None:
        self._config = config
        self.number = 0
        self._replies: dict[NodeId, OracleStanding] = {}
        self._challenger: NodeId | None = None
        self._rounds = 0

    def ask(self) -> int:
        self.number += 1
        self._replies.clear()
        return self.number

    def reply(self, node: NodeId, number: int, standing: OracleStanding) -> None:
        if number == self.number:
            self._replies[node] = standing

    @property
    def best(self) -> NodeId | None:
        """Return the best of those that answered the last question, and measured anything."""
        able = [node for node, standing in self._replies.items() if standing]
        return max(able, key=lambda node: (self._replies[node], order(node)), default=None)

    def winner(self, mine: OracleStanding) -> NodeId | None:
        """Count one more round of replies; return the voter that has been better often enough in a row."""
        best = self.best
        if best is None or not clearly_better(self._replies[best], mine, self._config.resign_margin):
            self._challenger, self._rounds = None, 0
            return None
        self._rounds = self._rounds + 1 if best == self._challenger else 1
        self._challenger = best
        return best if self._rounds >= self._config.resign_rounds else None


def clearly_better(theirs: OracleStanding, mine: OracleStanding, margin: float) -> bool:
    """Whether a standing is better by more than the margin, in the first part that differs; ids do not count."""
    for one, other in zip(theirs, mine, strict=False):
        if one != other:
            return one - other > margin * abs(other)
    return len(theirs) > len(mine)
