"""Finds the members that would be better leaders by now, clearly and lastingly.

Deviation [CTOL]: in the paper a leader leads until it is gone, and its rank, a hash, never changes.  A score changes.
  So a leader hands over once another member has been better by `better_by` for `better_for` without a break; with
  `better_for` inf, as in the papers, it never does.  The margin is relative, so that it fits scores of any unit
  (decision 28).
"""

from collections.abc import Mapping

from doyen.core.clock import Duration, Instant, format_duration
from doyen.core.deadline import Deadline
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.core.leadership import HandOverDue
from doyen.election.churn.messages import ScoresAreWeighed
from doyen.election.churn.standpoint import Standpoint


class Challengers:
    """The members that are better than the leader by the margin, and since when each is so without a break."""

    __slots__ = ("_again_at", "_lasting", "_margin", "_patience", "_since")

    def __init__(self, margin: float, lasting: Duration, patience: Duration) -> None:
        self._margin, self._lasting, self._patience = margin, lasting, patience
        self._since: dict[NodeId, Instant] = {}
        self._again_at: Instant = 0  # Until then the world has time to answer the last time that a hand-over was due.

    def weigh(self, mine: float, scores: Mapping[NodeId, float], now: Instant) -> tuple[list[NodeId], Instant | None]:
        """Compare the leader's score with those of members that could lead instead.

        Return the members to one of whom it should hand over now, and when to compare again at the latest, if at all.
        """
        better = [node for node, score in scores.items() if clearly_better(score, mine, self._margin)]
        self._since = {node: self._since.get(node, now) for node in better}
        if not self._since:
            return [], None
        due = [node for node, since in self._since.items() if now - since >= self._lasting]
        if not due:
            return [], min(self._since.values()) + self._lasting
        if now < self._again_at:
            return [], self._again_at
        self._again_at = now + self._patience
        return due, self._again_at

    def because(self, heir: NodeId, by: float) -> str:
        """Return why the leader hands over, as people read it."""
        lasting = f" for {format_duration(self._lasting)}" if self._lasting else ""
        return f"{heir} was better by {by:.3g}{lasting}"


class HandOver:
    """Weighs the scores while this node leads, and says when a hand-over is due, and to whom."""

    __slots__ = ("_challengers", "_out", "_point", "_weigh_at")

    def __init__(self, point: Standpoint, out: Out) -> None:
        self._point, self._out, config = point, out, point.config
        patience = max(config.better_for, config.final_timeout)
        self._challengers = Challengers(config.better_by, config.better_for, patience)
        self._weigh_at = Deadline()

    def is_due(self, timer: ScoresAreWeighed, now: Instant) -> bool:
        """Return whether to weigh the scores, now that the timer fires."""
        return self._weigh_at.is_over(timer, now, self._out)

    def weigh(self, leads: bool, now: Instant) -> None:
        point, mine = self._point, -self._point.rank(self._point.me)
        scores = {node: -point.rank(node) for node in point.fit()} if leads else {}
        due, again_at = self._challengers.weigh(mine, scores, now)
        if due:
            heir = min(due, key=point.order)
            self._out.emit(HandOverDue(heir, self._challengers.because(heir, scores[heir] - mine)))
        if again_at is not None:
            self._weigh_at.move(again_at, ScoresAreWeighed(), self._out)


def clearly_better(score: float, than: float, margin: float) -> bool:
    """Return whether a score is greater than another by that share of the larger magnitude of the two."""
    return score > than and score - than >= margin * max(abs(score), abs(than))
