"""Arbitration on the asker's side: at once on a timeout, decided by a majority, or the asker leaves.  [ARB Rule 2]"""

from typing import TYPE_CHECKING

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.membership.arbitration.arbitrator import Version
from doyen.membership.arbitration.messages import (
    Arb,
    ArbitrationStep,
    Condemned,
    PairDropped,
    RecoveryDue,
    Requested,
    Suspected,
    Verdict,
    Vote,
)
from doyen.membership.arbitration.pair import Pair, Request, Stage
from doyen.membership.ring import Seat, group, to

if TYPE_CHECKING:
    from doyen.membership.arbitration.machine import Arbitration

ASKED_TIMES = 3  # Within T_a, where requests may be lost.


class Requests:
    def __init__(self, machine: "Arbitration") -> None:
        self._m = machine
        self._number = 0

    def suspect(self, pair: Pair, at: Instant, now: Instant) -> None:
        """The lease ran out at `at`."""
        m = self._m
        if pair.stage is Stage.DORMANT:
            m.neighbourhood.on_dormant_timeout(pair, now)
            return
        if pair.join and m.joiner.under_way:
            m.joiner.on_timeout(now)
            return
        pair.suspected_at, pair.proposal = at, None
        m.out.emit(Suspected(pair.seat, pair.certain))
        self._number += 1
        deadline = at + m.config.arbitration
        pair.request = request = Request(self._number, self.group_of(pair), self._version(pair), deadline)
        m.out.emit(Requested(pair.seat, tuple(sorted(request.group))))
        if now >= deadline:
            m.leave_forced("asleep", now)  # We slept: whoever watches us has had its verdict.
            return
        self._ask(pair, request, now)
        m.out.set_timer(ArbitrationStep(pair.name, request.number, 1), self._step_at(request, 1))

    def group_of(self, pair: Pair) -> frozenset[Seat]:
        m = self._m
        if m.central:
            return m.central
        assert pair.theirs is not None
        return group(m.seat, pair.mine.members, pair.seat, pair.theirs.members)

    def _version(self, pair: Pair) -> int:
        return 0 if pair.theirs is None else pair.theirs.number

    def _step_at(self, request: Request, step: int) -> Instant:
        times = ASKED_TIMES if self._m.config.resends else 1
        return request.deadline - self._m.config.arbitration * (times - step) // times

    def _ask(self, pair: Pair, request: Request, now: Instant) -> None:
        m = self._m
        for seat in sorted(request.everyone):
            if request.votes.get(seat.name, Verdict.STALE) is not Verdict.STALE:
                continue
            if seat.name == m.seat.name:
                judged = m.arbitrator.judge(m.seat.name, pair.name, request.version, now)
                self._count(pair, request, seat.name[0], seat.name[1], judged.verdict, judged.newer, now)
            else:
                m.out.send(
                    to(seat), Arb(m.seat.life, seat.life, request.number, pair.seat, request.version, m.seat)
                )  # fmt: skip

    def on_arb(self, sender: NodeId, message: Arb, now: Instant) -> None:
        """As an arbitrator; a suspect that lives votes like anyone."""
        m = self._m
        judged = m.arbitrator.judge((sender, message.life), message.suspect.name, message.version, now)
        newer = judged.newer
        m.out.send(
            sender,
            Vote(
                m.seat.life,
                message.life,
                message.number,
                judged.verdict,
                newer.number if newer is not None else 0,
                tuple(sorted(newer.members)) if newer is not None else (),
            ),
        )

    def on_vote(self, sender: NodeId, message: Vote, now: Instant) -> None:
        m = self._m
        for pair in m.pairs.values():
            request = pair.request
            if request is not None and request.number == message.number:
                newer = Version(message.version, frozenset(message.members)) if message.version else None
                self._count(pair, request, sender, message.life, message.verdict, newer, now)
                if request.complete:
                    self._decide(pair, request, now)
                return

    def _count(
        self,
        pair: Pair,
        request: Request,
        node: NodeId,
        life: int,
        verdict: Verdict,
        newer: Version | None,
        now: Instant,
    ) -> None:
        if request.votes.get((node, life), Verdict.STALE) is not Verdict.STALE:
            return
        if verdict is Verdict.STALE and not self._m.config.double_majority:
            verdict = Verdict.REJECT
        request.votes[node, life] = verdict
        if verdict is Verdict.STALE and newer is not None and newer.number > request.version:
            # The proposer may have upgraded, or died, or given up: only majorities of both groups are safe.
            request.version = newer.number
            request.newer = group(self._m.seat, pair.mine.members, pair.seat, newer.members)
            self._ask(pair, request, now)

    def on_step(self, timer: ArbitrationStep, now: Instant) -> None:
        pair = self._m.pairs.get(timer.name)
        if pair is None or pair.request is None or pair.request.number != timer.number:
            return
        request = pair.request
        if now >= request.deadline:
            self._decide(pair, request, now)
            return
        self._ask(pair, request, now)
        if pair.request is request:
            step = ArbitrationStep(timer.name, timer.number, timer.step + 1)
            self._m.out.set_timer(step, self._step_at(request, timer.step + 1))

    def _decide(self, pair: Pair, request: Request, now: Instant) -> None:
        m = self._m
        pair.request = None
        groups = [request.group] if request.newer is None else [request.group, request.newer]
        groups = [m.electorate(asked, now) for asked in groups]
        short = next((asked for asked in groups if not m.majority(request.accepted(asked), len(asked))), None)
        if short is not None:
            rejects = sum(vote is Verdict.REJECT for vote in request.votes.values())
            detail = f"{request.accepted(short)} of {len(short)} accepted, {rejects} rejected, about {pair.seat}"
            m.leave_forced("outvoted" if rejects else "no majority", now, detail, short)
        elif pair.certain:
            pair.condemned = True
            assert pair.suspected_at is not None
            m.out.emit(Condemned(pair.seat))
            # The loser leaves before the wait is over, so after it, not at its very end.
            m.out.set_timer(RecoveryDue(pair.name), pair.suspected_at + m.config.recent + 1)
        else:
            m.drop(pair)
            m.out.emit(PairDropped(pair.seat, "uncertain"))
            m.neighbourhood.not_before(pair.name, now + m.config.recent)
            m.neighbourhood.tend(now)
