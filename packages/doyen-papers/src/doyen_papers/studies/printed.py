"""Churn-tolerant elections without our confirmation, as printed.  [CTOL Alg. 2, 4]

The paper's members cannot tell a tentative leader from a confirmed one: every LEADER stands until another comes, and an
initiator that has all its answers says nothing more to a leader that it has notified already.  It costs less, and an
initiator that dies in between leaves a wrong leader forever: decision 21 is the price of not having that.

Deviation [CTOL Alg. 1, line 24]: who accepts which LEADER stays as it is here (decision 20), and so do messages that
  are repeated where they are lost.
"""

from typing import Any

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.election.churn import messages as msg
from doyen.election.churn.initiator import Initiator, Role
from doyen.election.churn.machine import CTolerant
from doyen.election.churn.messages import Record


class PrintedInitiator(Initiator):
    """Notifies each leader that it comes upon, once."""

    def on_record(self, record: Record, now: Instant) -> None:
        if self.role is Role.NOTIFIED:
            super().on_record(record, now)
        elif record.election == self.election:
            self._heard_sequence = max(self._heard_sequence, record.sequence)

    def _become_notified(self, leader: NodeId, now: Instant) -> None:
        if leader != self._chosen:
            super()._become_notified(leader, now)
            return
        self.role = Role.NOTIFIED
        if self._heard_sequence >= self._sequence:
            self.stop()  # [CTOL Alg. 2, line 15] Its LEADER has come.
        else:
            self._out.set_timer(msg.NotifyRepeats(self._number, self._sequence, 0), now + self._point.timeout)

    def _tell(self, leader: NodeId, final: bool, repeat: int, now: Instant) -> None:
        super()._tell(leader, True, repeat, now)


class PrintedCTolerant(CTolerant):
    """A member whose elections are not confirmed."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        out, rng = self._out, self._rng
        self.initiator = PrintedInitiator(self.point, out, rng)
