"""The chapter's building blocks, as machines: what announce-listen elections are compared with.  [LE Ch. 2–4, §5.7]

    Suppression            SUP: any message, one's own included, suppresses; one round, one message or none each
    AnnounceListen         AL: everybody announces every T_A from the start, and knows the best it has heard
    SuppressThenAnnounce   SUP+AL, unmodified SUP before AL, in two of the three forms of §5.7:
        redraw    a new draw each interval, so that only some announce in each
        spread    the draw only spreads announcements in time: N messages an interval

They serve as baselines, not as elections to rely on.  The third form, elected on mere receipt, is broken by design; a
scenario file can have it, and it is in `doyen.sim.scenario.receipt`.
"""

from random import Random
from typing import Any, ClassVar

from msgspec import Struct

from doyen.core.clock import FOREVER, Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId, Term
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.rank import Claim, Standing
from doyen.election.announce import AnnounceConfig, Announcement, AnnouncementOverdue, WakeUp
from doyen.sim.scenario.receipt import wake_after


class AnnounceEvery(Struct, frozen=True, gc=False): ...


class Suppression:
    """SUP.  [LE §5.4.1]"""

    __slots__ = ("_out", "_rng", "config", "done", "me")
    MESSAGES: ClassVar[Any] = Announcement

    def __init__(self, me: NodeId, config: AnnounceConfig, out: Out, rng: Random) -> None:
        self.me, self.config, self.done = me, config, False
        self._out, self._rng = out, rng

    def start(self, now: Instant) -> None:
        self._out.set_timer(WakeUp(1), now + wake_after(self.config, self._rng))

    def on_message(self, sender: NodeId, message: Announcement, now: Instant) -> None:
        self.done = True

    def on_timer(self, timer: WakeUp, now: Instant) -> None:
        if not self.done:
            self.done = True
            self._out.multicast(Announcement(1, 0))


class AnnounceListen:
    """AL.  Soft state about everybody: an entry lives for T_L after it was last heard."""

    __slots__ = ("_best", "_heard", "_listening", "_out", "config", "me", "standing")
    MESSAGES: ClassVar[Any] = Announcement

    def __init__(self, me: NodeId, config: AnnounceConfig, out: Out, rng: Random, *, standing: Standing = 0) -> None:
        self.me, self.config, self.standing = me, config, standing
        self._out = out
        self._heard: dict[NodeId, tuple[Standing, Instant]] = {}
        self._best: Claim = (standing, me)
        self._listening = False

    @property
    def leader(self) -> NodeId:
        return self._best[1]

    def start(self, now: Instant) -> None:
        self._out.emit(LeaderElected(Term(1, self.me)))
        self._announce(now)

    def on_message(self, sender: NodeId, message: Announcement, now: Instant) -> None:
        self._heard[sender] = (message.standing, now)
        claim = (message.standing, sender)
        if claim > self._best:
            self._name(claim)
        if not self._listening:
            self._listen(now)

    def on_timer(self, timer: AnnounceEvery | AnnouncementOverdue, now: Instant) -> None:
        if isinstance(timer, AnnounceEvery):
            self._announce(now)
            return
        for node in [n for n, (_, at) in self._heard.items() if now - at >= self.config.listen_timeout]:
            del self._heard[node]
            if node == self._best[1]:
                self._out.emit(LeaderLost(Term(1, node), "silent"))
        claims = [(standing, node) for node, (standing, _) in self._heard.items()]
        best = max([*claims, (self.standing, self.me)])
        if best != self._best:
            self._name(best)
        self._listening = False
        self._listen(now)

    def _announce(self, now: Instant) -> None:
        self._out.multicast(Announcement(1, self.standing))
        self._out.set_timer(AnnounceEvery(), now + self.config.announce_interval)

    def _listen(self, now: Instant) -> None:
        if self._heard and self.config.listen_timeout < FOREVER:
            self._listening = True
            earliest = min(at for _, at in self._heard.values())
            self._out.set_timer(AnnouncementOverdue(), max(earliest + self.config.listen_timeout, now + 1))

    def _name(self, claim: Claim) -> None:
        self._best = claim
        self._out.emit(LeaderElected(Term(1, claim[1])))


class SuppressThenAnnounce:
    """SUP+AL.  [LE §5.7]"""

    __slots__ = ("_heard_count", "_out", "_redraws", "_rng", "_wait_no", "config", "leader", "me")
    MESSAGES: ClassVar[Any] = Announcement

    def __init__(self, me: NodeId, config: AnnounceConfig, out: Out, rng: Random, *, redraws: bool) -> None:
        self.me, self.config, self._redraws = me, config, redraws
        self._out, self._rng = out, rng
        self.leader: NodeId | None = None
        self._wait_no = self._heard_count = 0

    def start(self, now: Instant) -> None:
        self._wait(now)

    def on_message(self, sender: NodeId, message: Announcement, now: Instant) -> None:
        self._heard_count += 1

    def on_timer(self, timer: WakeUp | AnnounceEvery, now: Instant) -> None:
        if isinstance(timer, AnnounceEvery):  # A new interval, a new draw.
            self._wait(now)
        elif timer.wait_no == self._wait_no:
            self._wake(now)

    def _wait(self, now: Instant) -> None:
        self._wait_no += 1
        self._heard_count = 0
        self._out.set_timer(WakeUp(self._wait_no), now + wake_after(self.config, self._rng))
        if self._redraws:
            self._out.set_timer(AnnounceEvery(), now + self.config.announce_interval)

    def _wake(self, now: Instant) -> None:
        if not self._redraws:
            self._out.multicast(Announcement(1, 0))
            self._out.set_timer(WakeUp(self._wait_no), now + self.config.announce_interval)
        elif self._heard_count == 0:
            self._out.multicast(Announcement(1, 0))
