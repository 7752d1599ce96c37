"""Decides how long a leader that the view does not hold present is asked before it is given up (decisions 22, 37).

A view may err: then the leader answers, and nothing has to be voted on.  Nobody watches a leader that the view does not
know, so its silence is the only sign of its end.

    the view comes to hold the leader dead    ──▶ asked for as long as the start of an election would wait anyway
    a LEADER names one that is not on the list ──▶ asked for `final_timeout`
    it has answered                            ──▶ named until it is silent for `final_timeout`

Where terms end though their leaders live, the network is worse than the timers are made for: each such term doubles
the first time and lengthens the others, until a while without one.
"""

from random import Random
from typing import Final

from doyen.core.clock import Duration, Instant
from doyen.core.ids import NodeId
from doyen.core.view import Status
from doyen.election.churn.messages import Record
from doyen.election.churn.standpoint import Standpoint

NEEDLESS_MAX: Final = 5
PATIENCE_MAX: Final = 8  # Times final_timeout.
FORGOTTEN_AFTER: Final = 60  # Times final_timeout, after which a needless term no longer counts.


class Doubt:
    """The doubt about the leader of one record, if there is one, and what earlier doubts were worth."""

    __slots__ = ("_ends_at", "_needless", "_needless_at", "_point", "_rng", "begun_at_term", "number")

    def __init__(self, point: Standpoint, rng: Random) -> None:
        self._point, self._rng = point, rng
        self.number = 0  # The number of the present doubt; timers of earlier ones mean nothing.
        self.begun_at_term = 0  # The greatest term heard of when it began.
        self._ends_at: Instant = 0
        self._needless = 0  # Terms that ended though their leader lived,
        self._needless_at: Instant = 0  # and when the last one did.

    def begin(self, now: Instant, *, was_watched: bool) -> None:
        """Begin to doubt a leader: one that the view has come to hold dead, or one that it never held present."""
        self.number += 1
        self.begun_at_term = self._point.number
        if was_watched:
            spread, least = self._point.config.begin_spread, self._least()
            wait = (least + int(self._rng.random() * (spread - least))) << self._count(now)
            self._ends_at = now + min(wait, self._silence(now))
        else:
            self._ends_at = now + self._silence(now)

    def hear(self, now: Instant) -> None:
        """Note a message of the leader."""
        self._ends_at = max(self._ends_at, now + self._silence(now))

    def is_over(self, now: Instant) -> bool:
        """Return whether the leader was silent for too long."""
        return now >= self._ends_at

    def next_at(self, now: Instant) -> Instant:
        """Return when to ask again, or to give the leader up."""
        wait = self._point.timeout
        return max(now + 1, min(now + wait + int(self._rng.random() * wait), self._ends_at))

    def weigh(self, before: Record | None, after: Record, now: Instant) -> None:
        """Note whether a term has ended though the view holds its leader alive, which did not hand over itself."""
        if before is None or after.election.number == before.election.number:
            return
        if self._is_alive(before.leader) and after.election.initiator != before.leader:
            self._needless = min(self._count(now) + 1, NEEDLESS_MAX)
            self._needless_at = now

    # Steps.

    def _is_alive(self, node: NodeId) -> bool:
        view = self._point.view
        return node == self._point.me or (view is not None and node in view and view[node].status is Status.ALIVE)

    def _least(self) -> Duration:
        """Return the time that an answer has at least: about a round trip, and never more than half of the spread."""
        return min(self._point.timeout // 4, self._point.config.begin_spread // 2)

    def _silence(self, now: Instant) -> Duration:
        return self._point.config.final_timeout * (1 + self._count(now))

    def _count(self, now: Instant) -> int:
        is_fresh = now - self._needless_at < FORGOTTEN_AFTER * self._point.config.final_timeout
        return self._needless if is_fresh else 0


class Patience:
    """The time to wait for a final LEADER: longer after terms that brought none, and where elections took long."""

    __slots__ = ("_final_number", "_final_timeout", "_since", "_took")

    def __init__(self, final_timeout: Duration, final_number: int) -> None:
        self._final_timeout = final_timeout
        self._final_number = final_number  # The term of the last final LEADER.
        self._since: Instant = 0
        self._took: Duration = 0  # How long recent elections took, from the first message to the final LEADER.

    def of(self, number: int, now: Instant) -> Duration:
        """Return how long to wait for the final LEADER of a term of which this node has just heard."""
        self._since = now
        wait = max(self._final_timeout * max(1, number - self._final_number), 2 * self._took)
        return min(wait, PATIENCE_MAX * self._final_timeout)

    def note_final(self, number: int, now: Instant) -> None:
        if number > self._final_number:
            self._took = max(now - self._since, self._took // 2)
        self._final_number = number
