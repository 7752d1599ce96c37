"""Tells members that the leader they know is final, without acknowledgements (decision 21)."""

from typing import Final

from msgspec.structs import replace

from doyen.core.clock import Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.election.churn.messages import Confirm, ConfirmRepeats, Record

CONFIRMS_MAX: Final = 10


class Confirming:
    """The confirmations that this node sends as leader, and the last one that it heard."""

    __slots__ = ("_heard", "_interval", "_out")

    def __init__(self, interval: Duration, out: Out) -> None:
        self._interval, self._out = interval, out
        self._heard: tuple[NodeId, Confirm] | None = None

    def send(self, confirm: Confirm, times: int, held: Record | None, now: Instant) -> None:
        self.repeat(ConfirmRepeats(confirm, min(times, CONFIRMS_MAX)), held, now)

    def repeat(self, timer: ConfirmRepeats, held: Record | None, now: Instant) -> None:
        """Multicast a confirmation while it is of the record that is held, as often as the timer says."""
        confirm = timer.confirm
        if held is not None and (held.election, held.sequence) == (confirm.election, confirm.final):
            self._out.multicast(confirm)
            if timer.left > 1:
                self._out.set_timer(ConfirmRepeats(confirm, timer.left - 1), now + self._interval)

    def hear(self, sender: NodeId, confirm: Confirm) -> None:
        """Keep a confirmation: it may have overtaken its LEADER."""
        self._heard = (sender, confirm)

    def confirmed(self, held: Record | None) -> Record | None:
        """Return the record that is held as the final one that it is by the last confirmation; None if it is not."""
        if held is None or self._heard is None:
            return None
        sender, confirm = self._heard
        meant = (confirm.election, confirm.tentative, sender)
        if (held.election, held.sequence, held.leader) != meant or confirm.tentative >= confirm.final:
            return None
        return replace(held, sequence=confirm.final, final=True)
