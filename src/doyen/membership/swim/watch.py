"""A leader's heartbeats: a few watchers expect them, so that a leader's silence is noticed at once (decision 29).

    leader ──Beat(within)──▶ watcher ──Beat in time──▶ …
                                     ──none in time──▶ the watcher probes the leader, as in any period

Heartbeats are not answered, so they cost half of what pings of the leader by its watchers would cost.  The leader
chooses its watchers, and nobody needs to agree: the receiver of a heartbeat expects the next, until one fails to come.
"""

from random import Random
from typing import Final

from doyen.core.clock import Instant, ms
from doyen.core.deadline import Deadline
from doyen.core.effects import Out
from doyen.core.ids import NodeId, Term
from doyen.core.view import Status
from doyen.membership.swim.config import SwimConfig
from doyen.membership.swim.dissemination import Post
from doyen.membership.swim.messages import Beat, BeatIsMissed, BeatsAreSent
from doyen.membership.swim.roster import Roster

WATCHED_MAX: Final = 256  # Leaders, of several elections, that one node watches.
WITHIN_MAX_MS: Final = 3_600_000


class Beats:
    """The heartbeats that this node sends while it leads an election, and the members that watch it."""

    __slots__ = ("_config", "_is_timed", "_out", "_post", "_rng", "_roster", "_terms", "watchers")

    def __init__(self, config: SwimConfig, roster: Roster, post: Post, out: Out, rng: Random) -> None:
        self._config, self._roster, self._post, self._out, self._rng = config, roster, post, out, rng
        self._terms: set[Term] = set()  # Those that this node leads.
        self._is_timed = False
        self.watchers: list[NodeId] = []

    def on_elected(self, term: Term, now: Instant) -> None:
        if term.leader == self._roster.me and self._config.beat_interval:
            self._terms.add(term)
            if not self._is_timed:
                self._send(now)

    def on_lost(self, term: Term) -> None:
        """Forget the term that this node no longer leads, and those before it, which ended without a fact."""
        if term.leader == self._roster.me:
            self._terms = {other for other in self._terms if other.number > term.number}

    def on_due(self, now: Instant) -> None:
        self._is_timed = False
        if self._terms:
            self._send(now)

    def _send(self, now: Instant) -> None:
        members, config = self._roster.view.members, self._config
        kept = [node for node in self.watchers if node in members and members[node].status is Status.ALIVE]
        lacking = config.watcher_count - len(kept)
        if lacking > 0:
            kept += self._roster.random_present(self._rng, lacking, frozenset(kept))
        self.watchers = kept
        for watcher in kept:
            self._post.send(watcher, Beat, config.beat_patience // ms(1))
        self._is_timed = True
        self._out.set_timer(BeatsAreSent(), now + config.beat_interval)


class Watched:
    """The leaders whose heartbeats this node expects, and until when."""

    __slots__ = ("_deadlines", "_out")

    def __init__(self, out: Out) -> None:
        self._out = out
        self._deadlines: dict[NodeId, Deadline] = {}

    def on_beat(self, leader: NodeId, beat: Beat, now: Instant) -> None:
        if leader not in self._deadlines and len(self._deadlines) >= WATCHED_MAX:
            return
        deadline = self._deadlines.setdefault(leader, Deadline())
        deadline.move(now + ms(min(beat.within_ms, WITHIN_MAX_MS)), BeatIsMissed(leader), self._out)

    def is_missed(self, timer: BeatIsMissed, now: Instant) -> bool:
        """Return whether no heartbeat of the leader came in time; then none is expected until the next one comes."""
        deadline = self._deadlines.get(timer.leader)
        if deadline is None or not deadline.is_over(timer, now, self._out):
            return False
        del self._deadlines[timer.leader]
        return True
