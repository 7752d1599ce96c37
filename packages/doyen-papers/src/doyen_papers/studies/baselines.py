"""The chapter's building blocks, as machines: what announce-listen elections are compared with.  [LE Ch. 2–4]

    Suppression            SUP: any message, one's own included, suppresses; one round, one message or none each
    AnnounceListen         AL: everybody announces every T_A from the start, and knows the best it has heard

SUP+AL is in `doyen.election.announce.sup_al`, for scenario files name it.
"""

from random import Random
from typing import Any, ClassVar

from doyen.core.clock import FOREVER, Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId, Term
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.machine import Hears
from doyen.core.rank import Claim, Standing
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.messages import Announcement, SilenceIsNoticed, WakeUp
from doyen.election.announce.sup_al import IntervalBegins, wake_after


class Suppression:
    """SUP.  [LE §5.4.1]"""

    __slots__ = ("_out", "_rng", "config", "done", "me")
    MESSAGES: ClassVar[Any] = Announcement
    HEARS: ClassVar[Hears] = {}

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
    HEARS: ClassVar[Hears] = {}

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

    def on_timer(self, timer: IntervalBegins | SilenceIsNoticed, now: Instant) -> None:
        if isinstance(timer, IntervalBegins):
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
        self._out.set_timer(IntervalBegins(), now + self.config.announce_interval)

    def _listen(self, now: Instant) -> None:
        if self._heard and self.config.listen_timeout < FOREVER:
            self._listening = True
            earliest = min(at for _, at in self._heard.values())
            self._out.set_timer(SilenceIsNoticed(), max(earliest + self.config.listen_timeout, now + 1))

    def _name(self, claim: Claim) -> None:
        self._best = claim
        self._out.emit(LeaderElected(Term(1, claim[1])))
