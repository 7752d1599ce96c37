"""Arbitration on the asker's side: at once on a timeout, decided by a majority, or the asker leaves.  [ARB Rule 2]"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.membership.ring import messages as msg
from doyen.membership.ring.arbitrator import Arbitrator, Judgement, Version
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import Name, Seat, Seats, group, to
from doyen.membership.ring.messages import Verdict, Why
from doyen.membership.ring.pair import Electorate, Pair, Request

ASKED_TIMES: Final = 3  # Within T_a, where requests may be lost.


class Shortfall(Struct, frozen=True):
    """The reason why an asker leaves: the group in which it found no majority, and how the votes stood."""

    why: Why
    detail: str
    group: Seats


class Requests:
    """The arbitration requests of one member."""

    def __init__(
        self, config: ArbitrationConfig, arbitrator: Arbitrator, electorate: Electorate, central: Seats
    ) -> None:
        self._config, self._arbitrator, self._electorate, self._central = config, arbitrator, electorate, central
        self._number = 0

    def open(self, pair: Pair, at: Instant, me: Seat, now: Instant, out: Out) -> bool:
        """Ask the group about a lease that expired at `at`; return False if this node slept past the answer."""
        pair.suspected_at, pair.proposal = at, None
        out.emit(msg.Suspected(pair.seat, pair.certain))
        self._number += 1
        version = 0 if pair.theirs is None else pair.theirs.number
        deadline = at + self._config.arbitration
        pair.request = request = Request(self._number, self._central or pair.group(me), version, deadline)
        out.emit(msg.Requested(pair.seat, tuple(sorted(request.group))))
        if now >= deadline:
            return False
        self._ask(pair, request, me, now, out)
        self._set_timer(pair, request, 1, out)
        return True

    def _set_timer(self, pair: Pair, request: Request, step: int, out: Out) -> None:
        times = ASKED_TIMES if self._config.resends else 1
        at = request.deadline - self._config.arbitration * (times - step) // times
        out.set_timer(msg.ArbitrationAdvances(pair.name, request.number, step), at)

    def _ask(self, pair: Pair, request: Request, me: Seat, now: Instant, out: Out) -> None:
        for seat in sorted(request.everyone):
            if request.has_vote(seat.name):
                continue
            if seat.name == me.name:
                judged = self._arbitrator.judge(me.name, pair.name, request.version, now)
                self._count(pair, request, me.name, judged, me, now, out)
            else:
                out.send(
                    to(seat), msg.Arb(me.incarnation, seat.incarnation, request.number, pair.seat, request.version, me)
                )

    def _count(
        self, pair: Pair, request: Request, voter: Name, judged: Judgement, me: Seat, now: Instant, out: Out
    ) -> None:
        if request.has_vote(voter):
            return
        verdict, newer = judged.verdict, judged.newer
        if verdict is Verdict.STALE and not self._config.double_majority:
            verdict = Verdict.REJECT
        request.votes[voter] = verdict
        if verdict is Verdict.STALE and newer is not None and newer.number > request.version:
            # The proposer may have upgraded, or died, or given up: only majorities of both groups are safe.
            request.version = newer.number
            request.newer = group(me, pair.mine.members, pair.seat, newer.members)
            self._ask(pair, request, me, now, out)

    def on_vote(
        self, sender: NodeId, message: msg.Vote, pairs: Iterable[Pair], me: Seat, now: Instant, out: Out
    ) -> Pair | None:
        """Count a vote; return the pair whose arbitration it completes."""
        for pair in pairs:
            request = pair.request
            if request is not None and request.number == message.number:
                newer = Version(message.version, frozenset(message.members)) if message.version else None
                judged = Judgement(message.verdict, newer)
                self._count(pair, request, (sender, message.incarnation), judged, me, now, out)
                return pair if request.complete else None
        return None

    def is_over(self, pair: Pair, timer: msg.ArbitrationAdvances, me: Seat, now: Instant, out: Out) -> bool:
        """Return whether the time of this arbitration is over; otherwise ask again those who have not voted."""
        request = pair.request
        if request is None or request.number != timer.number:
            return False
        if now >= request.deadline:
            return True
        self._ask(pair, request, me, now, out)
        self._set_timer(pair, request, timer.step + 1, out)
        return False

    def decide(self, pair: Pair, now: Instant, out: Out) -> Shortfall | None:
        """Close an arbitration: condemn the other of a certain pair, or return why this node has to leave."""
        request, electorate = pair.request, self._electorate
        assert request is not None and pair.suspected_at is not None
        pair.request = None
        for asked in (electorate.of(asked, now) for asked in request.groups):
            accepted = request.accepted(asked)
            if not electorate.is_majority(accepted, len(asked)):
                rejects = sum(vote is Verdict.REJECT for vote in request.votes.values())
                detail = f"{accepted} of {len(asked)} accepted, {rejects} rejected, about {pair.seat}"
                return Shortfall("outvoted" if rejects else "no majority", detail, asked)
        if pair.certain:
            pair.condemned = True
            out.emit(msg.Condemned(pair.seat))
            # The loser leaves before the wait is over, so after it, not at its very end.
            out.set_timer(msg.RecoveryStarts(pair.name), pair.suspected_at + self._config.recent + 1)
        return None
