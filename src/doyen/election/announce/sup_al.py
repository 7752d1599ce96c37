"""SUP+AL: unmodified suppression before announce-listen, in the three forms that the chapter warns of.  [LE §5.7]

    receipt   elected on mere receipt: several leaders, or none (A defers to B, B to C, C to A)
    redraw    a new draw each interval, so that only some announce in each
    spread    the draw only spreads announcements in time: N messages an interval

It serves as a baseline, not as an election to rely on: `receipt` is broken by design, and a checker shows it.
"""

from random import Random
from typing import Any, ClassVar, Literal

from msgspec import Struct

from doyen.core.clock import Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId, Term
from doyen.core.kinds import Election
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.machine import Hears
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.messages import Announcement, WakeUp
from doyen.election.announce.wakeup import draw

Form = Literal["receipt", "redraw", "spread"]


class IntervalBegins(Struct, frozen=True, gc=False):
    """A process announces itself, or draws a new wake-up."""


def wake_after(config: AnnounceConfig, rng: Random) -> Duration:
    return int(draw(config.timer, config.group_size, "none", None, rng, 0) * config.suppress_interval)


class SuppressThenAnnounce(Election):
    """SUP+AL.  [LE §5.7]"""

    __slots__ = ("_heard_count", "_out", "_rng", "_wait_no", "config", "form", "leader", "me")
    MESSAGES: ClassVar[Any] = Announcement
    HEARS: ClassVar[Hears] = {}

    def __init__(self, me: NodeId, config: AnnounceConfig, out: Out, rng: Random, *, form: Form) -> None:
        self.me, self.config, self.form = me, config, form
        self._out, self._rng = out, rng
        self.leader: NodeId | None = None
        self._wait_no = self._heard_count = 0

    @property
    def named(self) -> NodeId | None:
        return self.leader

    @property
    def announcing(self) -> bool:
        return self.form != "receipt" or self.leader == self.me

    def start(self, now: Instant) -> None:
        self._wait(now)

    def on_message(self, sender: NodeId, message: Announcement, now: Instant) -> None:
        self._heard_count += 1
        if self.form == "receipt" and self.leader != sender:
            # A process that is heard leads, whomever this one named: so nobody may be left in charge.
            if self.leader == self.me:
                self._out.emit(LeaderLost(Term(1, self.me), "outranked"))
            self.leader = sender
            self._wait_no += 1
            self._out.emit(LeaderElected(Term(1, sender)))

    def on_timer(self, timer: WakeUp | IntervalBegins, now: Instant) -> None:
        match timer:
            case IntervalBegins():
                self._wait(now)
            case WakeUp(wait_no) if wait_no == self._wait_no:
                self._wake(now)
            case _:
                pass  # Deferred meanwhile.

    def _wait(self, now: Instant) -> None:
        self._wait_no += 1
        self._heard_count = 0
        self._out.set_timer(WakeUp(self._wait_no), now + wake_after(self.config, self._rng))
        if self.form == "redraw":
            self._out.set_timer(IntervalBegins(), now + self.config.announce_interval)

    def _wake(self, now: Instant) -> None:
        if self.form == "redraw":
            if self._heard_count == 0:
                self._out.multicast(Announcement(1, 0))
            return
        if self.form == "receipt" and self.leader is None:
            self.leader = self.me
            self._out.emit(LeaderElected(Term(1, self.me)))
        self._out.multicast(Announcement(1, 0))
        self._out.set_timer(WakeUp(self._wait_no), now + self.config.announce_interval)
