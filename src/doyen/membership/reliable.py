"""Eventually reliable multicast: a copy to each member, again until each has acknowledged it.  [CTOL §III, §IV]

A component for machines that have something to tell everybody: the machine sends and hears the messages, this keeps
who still owes an acknowledgement.  One thing is told at a time; a newer one replaces it.

A member that is present gets copies for ever, ever more slowly; one that has left gets none; one that seems to have
failed gets a few, because membership may be wrong.  Somebody who turns up later is told then.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

from msgspec import Struct

from doyen.core.clock import Duration, Instant, seconds
from doyen.core.effects import Out
from doyen.core.ids import NodeId

EVEN_ROUNDS: Final = 12  # So many resends at the same pace; then each waits half as long again as the one before.
RESEND_MAX: Final[Duration] = seconds(10)
ABSENT_ROUNDS: Final = 20  # A member that seems to have failed is told so often.

Standing = Literal["present", "absent", "left"]


class ResendDue(Struct, frozen=True, gc=False):
    """Timer: whoever has not acknowledged this number yet is told again."""

    number: int
    round_no: int


class ReliableMulticast:
    """Who has been told, and who has said so."""

    __slots__ = ("_interval", "_message", "_out", "_running", "_standing", "_told", "_waiting", "number", "round_count")

    def __init__(self, out: Out, interval: Duration, standing: Callable[[NodeId], Standing]) -> None:
        self._out, self._interval, self._standing = out, interval, standing
        self.number = 0  # Of what is being told; acks carry it.
        self.round_count = 0  # How often it was repeated so far: a measure of loss.
        self._message: Any = None
        self._told: set[NodeId] = set()
        self._waiting: dict[NodeId, int] = {}  # Who owes an ack, and how often it was told.
        self._running = False  # Whether a resend is due.

    def publish(self, message: Callable[[int], Any], to: Iterable[NodeId], now: Instant) -> None:
        """Tells them all; `message` gets the number that acks must carry."""
        self.number += 1
        self.round_count = 0
        self._message = message(self.number)
        self._told, self._waiting, self._running = set(), {}, False
        self._tell(to, now)

    def amend(self, message: Callable[[int], Any], to: Iterable[NodeId], now: Instant) -> None:
        """Who has not acknowledged yet is told this from now on; of those who have, only these."""
        self._message = message(self.number)
        self._tell(to, now)

    def include(self, node: NodeId, now: Instant) -> None:
        """A member that has turned up since, or is back."""
        if self._message is not None and node not in self._told:
            self._tell((node,), now)

    def forget(self, node: NodeId) -> None:
        """It went away: should it return, it is told again."""
        if node not in self._waiting:
            self._told.discard(node)

    def stop(self) -> None:
        """What was told is no longer so."""
        self._message, self._running = None, False
        self._told, self._waiting = set(), {}

    def on_ack(self, sender: NodeId, number: int) -> None:
        if number == self.number:
            self._waiting.pop(sender, None)

    def on_timer(self, timer: ResendDue, now: Instant) -> None:
        if timer.number != self.number or self._message is None:
            return
        self.round_count = timer.round_no
        for node, times in list(self._waiting.items()):
            standing = self._standing(node)
            if standing == "left" or (standing == "absent" and times >= ABSENT_ROUNDS):
                del self._waiting[node]
                self._told.discard(node)
            else:
                self._waiting[node] = times + 1
                self._out.send(node, self._message)
        self._running = bool(self._waiting)
        if self._running:
            wait = int(self._interval * 1.5 ** max(0, min(timer.round_no - EVEN_ROUNDS, 40)))
            self._out.set_timer(ResendDue(self.number, timer.round_no + 1), now + min(wait, RESEND_MAX))

    @property
    def waiting(self) -> frozenset[NodeId]:
        """Who has not acknowledged yet."""
        return frozenset(self._waiting)

    def _tell(self, nodes: Iterable[NodeId], now: Instant) -> None:
        for node in nodes:
            self._told.add(node)
            self._waiting[node] = 1
            self._out.send(node, self._message)
        if self._waiting and not self._running:
            self._running = True
            self._out.set_timer(ResendDue(self.number, 1), now + self._interval)
