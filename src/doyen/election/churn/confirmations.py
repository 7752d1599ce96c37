"""Makes a tentative leader final by a short multicast, without acks.  [CTOL Alg. 2, 4; decision 21]"""

from msgspec.structs import replace

from doyen.core.clock import Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.election.churn.messages import Confirm, ConfirmRepeats, Record


class Confirmations:
    """The last confirmation that was heard, which may have overtaken its LEADER."""

    def __init__(self, out: Out, resend_interval: Duration) -> None:
        self._out, self._resend_interval = out, resend_interval
        self._last: tuple[NodeId, Confirm] | None = None

    def hear(self, sender: NodeId, confirm: Confirm) -> None:
        self._last = (sender, confirm)

    def final(self, held: Record) -> Record | None:
        """Return the record as the confirmation makes it; None: it is not confirmed."""
        if self._last is None:
            return None
        sender, confirm = self._last
        meant = (confirm.election, confirm.tentative, sender)
        if (held.election, held.sequence, held.leader) == meant and confirm.tentative < confirm.final:
            return replace(held, sequence=confirm.final, final=True)
        return None

    def send(self, timer: ConfirmRepeats, held: Record | None, now: Instant) -> None:
        """Multicast a confirmation, and set the timer of the next one, while it is what this node holds."""
        confirm = timer.confirm
        if held is not None and (held.election, held.sequence) == (confirm.election, confirm.final):
            self._out.multicast(confirm)
            if timer.left > 1:
                self._out.set_timer(ConfirmRepeats(confirm, timer.left - 1), now + self._resend_interval)
