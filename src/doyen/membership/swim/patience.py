"""Who is known to answer late, and so is given longer before helpers are asked.

Extension: helpers multiply the load on whoever is too slow already, and that is what makes a slow member a dead one.
Every ack shows how long it took, late ones too; a member whose last one was late is next time given twice as long, and
where that leaves helpers no time they are not asked.
"""

from collections import OrderedDict
from typing import Final

from doyen.core.clock import Duration, Instant
from doyen.core.ids import NodeId
from doyen.membership.swim.config import SwimConfig

RECENT_MAX: Final = 32  # Pings whose late ack is still worth something.
SLOW_MAX: Final = 256  # Slow members remembered; the one longest unheard of is forgotten first.


class Patience:
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
        """How long its ack may take before helpers are asked; None: they would be of no use."""
        took = self._slow.get(target)
        if took is None:
            return self._config.ack_timeout
        wait = max(self._config.ack_timeout, 2 * took)
        return wait if wait <= self._config.period * 4 // 5 else None
