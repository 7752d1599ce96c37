"""Leases: consecutive sessions of T_l, each a request and its ack.  [ARB §III.1, Rule 1]

Sessions keep to their plan: one that could only be begun late still ends in time, so a node that slept finds its
leases run out, and its bounds hold by its own clock.  Requests are repeated within a session (practical mode), which
moves no bound.
"""

from typing import TYPE_CHECKING

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.membership.arbitration.messages import LeaseAck, LeaseRequest, Release, SessionStep
from doyen.membership.arbitration.pair import Pair, Stage

if TYPE_CHECKING:
    from doyen.membership.arbitration.machine import Arbitration


class Leases:
    def __init__(self, machine: "Arbitration") -> None:
        self._m = machine
        config = machine.config
        self._lease = config.lease
        self._steps = config.resends + 1
        self._step = config.lease // self._steps

    def begin(self, pair: Pair, at: Instant, now: Instant) -> None:
        """The next session, planned for `at`."""
        if now >= at + self._lease:
            self._m.requests.suspect(pair, at + self._lease, now)  # It would have run out while we slept.
            return
        pair.session += 1
        pair.started_at, pair.established = at, False
        if pair.initiator and pair.session == 2 and pair.stage is Stage.DORMANT:
            pair.stage = Stage.COMMITTED
        if pair.release and not pair.keep_from:
            self._m.out.send(pair.to, Release(self._m.seat.life, pair.seat.life))
        self._request(pair, now)
        self._m.out.set_timer(
            SessionStep(pair.name, pair.session, 1), at + (self._step if self._steps > 1 else self._lease)
        )

    def begin_sometime(self, pair: Pair, now: Instant) -> None:
        """The first session, not in step with the other's: within T_l."""
        phase = int(self._m.rng.random() * self._lease) if self._m.config.random_phases else 0
        pair.started_at = now + phase - self._lease
        self._m.out.set_timer(SessionStep(pair.name, pair.session, self._steps), now + phase)

    def _request(self, pair: Pair, now: Instant) -> None:
        m, invitation = self._m, pair.initiator and pair.session == 1
        pair.sent_at = now
        theirs = pair.theirs
        m.out.send(
            pair.to,
            LeaseRequest(
                m.seat.life,
                pair.seat.life,
                pair.session,
                theirs.number if theirs is not None else 0,
                m.spread.for_pair(pair),
                m.seat if invitation else None,
                pair.join if invitation else 0,
            ),
        )

    def on_step(self, timer: SessionStep, now: Instant) -> None:
        pair = self._m.pairs.get(timer.name)
        if pair is None or pair.session != timer.session or pair.suspected_at is not None:
            return
        ends_at = pair.started_at + self._lease
        if now < ends_at:
            step = self._steps if pair.established else timer.step + 1
            if not pair.established:
                self._request(pair, now)
            at = ends_at if step >= self._steps else pair.started_at + step * self._step
            self._m.out.set_timer(SessionStep(timer.name, timer.session, step), at)
        elif not pair.established:
            self._m.requests.suspect(pair, ends_at, now)
        elif pair.join and pair.stage is Stage.DORMANT and pair.initiator:
            self._m.joiner.on_first_session_over(now)
        else:
            self.begin(pair, ends_at, now)

    def on_request(self, sender: NodeId, message: LeaseRequest, now: Instant) -> None:
        m = self._m
        pair = m.pairs.get((sender, message.life))
        if message.seat is not None and pair is not None and pair.release and pair.watching:
            m.drop(pair)  # It has let go, as we asked, and begins anew.
            pair = None
        if message.seat is not None and (pair is None or pair.stage is not Stage.ACTIVE):
            pair = m.neighbourhood.on_invitation(pair, message, now)
        elif pair is not None and pair.stage is Stage.DORMANT and pair.theirs is None and message.session > 1:
            # Of a pair that we have let go, not of the one that we ask for: an ack would be taken for its life.
            m.neighbourhood.on_stranger(sender, message.life)
            return
        if pair is None:
            if message.seat is None:
                m.neighbourhood.on_stranger(sender, message.life)
            return
        if not self.may_ack(pair):
            return
        if message.said is not None:
            m.spread.read(pair, message.said, now)
        if message.knows > pair.confirmed:
            pair.confirmed = message.knows
        if m.pairs.get(pair.name) is not pair:
            return  # What it said ended the pair.
        m.out.send(
            sender,
            LeaseAck(
                m.seat.life,
                message.life,
                message.session,
                pair.theirs.number if pair.theirs is not None else 0,
                m.spread.for_pair(pair),
            ),
        )
        if pair.stage is Stage.DORMANT and not pair.initiator and message.session >= 2:
            m.neighbourhood.become_active(pair, now)

    def may_ack(self, pair: Pair) -> bool:
        """[ARB Rule 1] After its own lease has timed out, never again."""
        return pair.suspected_at is None

    def on_ack(self, sender: NodeId, message: LeaseAck, now: Instant) -> None:
        m = self._m
        pair = m.pairs.get((sender, message.life))
        if pair is None or pair.suspected_at is not None:
            return
        if message.said is not None:
            m.spread.read(pair, message.said, now)
        if message.knows > pair.confirmed:
            pair.confirmed = message.knows
        if message.session != pair.session or now >= pair.started_at + self._lease or pair.theirs is None:
            return
        if not pair.established:
            pair.established, pair.round_trip = True, now - pair.sent_at
            if now - pair.sent_at >= m.config.arbitration:
                m.on_slow_round_trip(now - pair.sent_at, now)
            else:
                m.proven = True
            if pair.release and 0 < pair.keep_from <= pair.session:
                m.neighbourhood.keep(pair, now)
            if pair.stage is Stage.COMMITTED:
                if pair.join:
                    m.joiner.on_second_ack(pair, now)
                else:
                    m.neighbourhood.become_active(pair, now)
