"""The chapter's warning, broken by design: SUP+AL where whoever is heard leads.  [LE §5.7]

A defers to B, B to C and C to A, so that a group may end with several leaders or with none.
`[group] protocol = "sup-al-receipt"` runs it, and a checker shows what is wrong with it.
"""

from random import Random
from typing import Any, ClassVar

from doyen.core.clock import Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId, Term
from doyen.core.kinds import NoLease
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.election.announce import AnnounceConfig, Announcement, WakeUp
from doyen.election.wakeup import draw


def wake_after(config: AnnounceConfig, rng: Random) -> Duration:
    """Draw how long a process waits before it announces itself."""
    return int(draw(config.timer, config.group_size, "none", None, rng, 0) * config.suppress_interval)


class ElectedOnReceipt(NoLease):
    """SUP+AL by mere receipt."""

    __slots__ = ("_out", "_rng", "_wait_no", "config", "leader", "me")
    MESSAGES: ClassVar[Any] = Announcement

    def __init__(self, me: NodeId, config: AnnounceConfig, out: Out, rng: Random) -> None:
        self.me, self.config = me, config
        self._out, self._rng = out, rng
        self.leader: NodeId | None = None
        self._wait_no = 1

    @property
    def named(self) -> NodeId | None:
        return self.leader

    def start(self, now: Instant) -> None:
        self._out.set_timer(WakeUp(self._wait_no), now + wake_after(self.config, self._rng))

    def on_message(self, sender: NodeId, message: Announcement, now: Instant) -> None:
        if self.leader == sender:
            return
        # Whoever is heard leads, whatever one believed: this is what may leave nobody in charge.
        if self.leader == self.me:
            self._out.emit(LeaderLost(Term(1, self.me), "outranked"))
        self.leader = sender
        self._wait_no += 1
        self._out.emit(LeaderElected(Term(1, sender)))

    def on_timer(self, timer: WakeUp, now: Instant) -> None:
        if timer.wait_no != self._wait_no:
            return  # Deferred meanwhile.
        if self.leader is None:
            self.leader = self.me
            self._out.emit(LeaderElected(Term(1, self.me)))
        self._out.multicast(Announcement(1, 0))
        self._out.set_timer(WakeUp(self._wait_no), now + self.config.announce_interval)
