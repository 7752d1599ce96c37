"""Tells the world that a leader should hand over, once another member is the better one.  [decision 28]"""

from doyen.core.clock import Instant
from doyen.core.deadline import Deadline
from doyen.core.effects import Out
from doyen.core.leadership import HandOverDue
from doyen.election.churn.challengers import Challengers
from doyen.election.churn.config import CTolerantConfig
from doyen.election.churn.messages import ScoresAreWeighed
from doyen.election.churn.standpoint import Standpoint


class HandOver:
    """The members that are better than the leader, and when scores are compared again."""

    def __init__(self, point: Standpoint, out: Out, config: CTolerantConfig) -> None:
        self._point, self._out = point, out
        self._challengers = Challengers(
            config.better_by, config.better_for, max(config.better_for, config.final_timeout)
        )
        self._weigh_at = Deadline()

    def is_due(self, timer: ScoresAreWeighed, now: Instant) -> bool:
        """Return whether scores are to be compared again now."""
        return self._weigh_at.is_over(timer, now, self._out)

    def weigh(self, now: Instant, *, leads: bool) -> None:
        """Look whether a member is the better leader by now; tell so once it has been for long enough."""
        point = self._point
        mine = -point.rank(point.me)
        scores = {node: -point.rank(node) for node in point.fit()} if leads else {}
        due, again_at = self._challengers.weigh(mine, scores, now)
        if due:
            heir = min(due, key=point.order)
            self._out.emit(HandOverDue(heir, self._challengers.because(heir, scores[heir] - mine)))
        if again_at is not None:
            self._weigh_at.move(again_at, ScoresAreWeighed(), self._out)
