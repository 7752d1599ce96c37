"""Remembers members that answer late, and gives them longer before helpers are asked.

Extension: helpers multiply the load on a member that is too slow already, and so turn a slow member into a dead one.
Every ack shows how long it took, late ones too; a member whose last ack was late is next time given twice as long, and
where that leaves helpers no time they are not asked.
"""

from collections import OrderedDict
from typing import Final

from doyen.core.clock import Duration, Instant
from doyen.core.ids import NodeId
from doyen.membership.swim.config import SwimConfig

RECENT_MAX: Final = 32  # Pings whose late acks still count.
SLOW_MAX: Final = 256  # Slow members remembered; the one that was not heard of for longest is forgotten first.


class Patience:
    """The times that the last acks of slow members took."""

    __slots__ = ("_config", "_sent", "_slow")

    def __init__(self, config: SwimConfig) -> None:
        self._config = config
        self._sent: OrderedDict[int, tuple[NodeId, Instant]] = OrderedDict()
        self._slow: OrderedDict[NodeId, Duration] = OrderedDict()  # → how long its last ack took.

    def note_ping(self, ping_no: int, target: NodeId, now: Instant) -> None:
        self._sent[ping_no] = (target, now)
        if len(self._sent) > RECENT_MAX:
            self._sent.popitem(last=False)

    def note_ack(self, ping_no: int, sender: NodeId, now: Instant) -> None:
        target, sent_at = self._sent.pop(ping_no, (None, 0))
        if target != sender:
            return
        if now - sent_at <= self._config.ack_timeout // 2:
            self._slow.pop(sender, None)
            return
        self._slow[sender] = now - sent_at
        self._slow.move_to_end(sender)
        if len(self._slow) > SLOW_MAX:
            self._slow.popitem(last=False)

    def with_(self, target: NodeId) -> Duration | None:
        """Return how long an ack may take before helpers are asked; None: helpers would be of no use."""
        took = self._slow.get(target)
        if took is None:
            return self._config.ack_timeout
        wait = max(self._config.ack_timeout, 2 * took)
        return wait if wait <= self._config.period * 4 // 5 else None
