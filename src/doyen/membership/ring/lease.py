"""Leases: consecutive sessions of T_l, each a request and its ack.  [ARB §III.1, Rule 1]

Sessions keep to their plan: one that could only be begun late still ends in time, so a node that slept finds its
leases expired, and its bounds hold by its own clock.  Requests are repeated within a session (practical mode), which
moves no bound.
"""

from random import Random
from typing import Final

from doyen.core.clock import Duration, Instant, format_duration
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import Seat
from doyen.membership.ring.messages import LeaseAck, LeaseRequest, Release, SessionAdvances
from doyen.membership.ring.pair import Pair, Stage
from doyen.membership.ring.spread import Spread

SLOW_ENOUGH: Final = 3  # Round trips, to judge T_a by.


class Leases:
    """The lease sessions of all pairs: their requests, repetitions and acks."""

    def __init__(self, config: ArbitrationConfig, rng: Random, spread: Spread) -> None:
        self._config, self._rng, self._spread = config, rng, spread
        self._lease = config.lease
        self._steps = config.resends + 1
        self._step = config.lease // self._steps
        self._was_fast = False  # Whether a round trip has ever been shorter than T_a.
        self._slow: list[Duration] = []  # The round trips before that.

    def begin(self, pair: Pair, at: Instant, me: Seat, now: Instant, out: Out) -> bool:
        """Begin the next session, planned for `at`; return False if it would have expired while this node slept."""
        if now >= at + self._lease:
            return False
        pair.session += 1
        pair.started_at, pair.established = at, False
        if pair.initiator and pair.session == 2 and pair.stage is Stage.DORMANT:
            pair.stage = Stage.COMMITTED
        if pair.release and not pair.keep_from:
            out.send(pair.to, Release(me.incarnation, pair.seat.incarnation))
        self._request(pair, me, now, out)
        out.set_timer(SessionAdvances(pair.name, pair.session, 1), at + self._step)
        return True

    def begin_sometime(self, pair: Pair, now: Instant, out: Out) -> None:
        """Begin the first session within T_l, not in step with the other's."""
        phase = int(self._rng.random() * self._lease) if self._config.random_phases else 0
        pair.started_at = now + phase - self._lease
        out.set_timer(SessionAdvances(pair.name, pair.session, self._steps), now + phase)

    def repeat(self, pair: Pair, step: int, me: Seat, now: Instant, out: Out) -> None:
        """Repeat a request that was not acked, and wait for the next step of the session."""
        if pair.established:
            step = self._steps
        else:
            step += 1
            self._request(pair, me, now, out)
        at = pair.started_at + (self._lease if step >= self._steps else step * self._step)
        out.set_timer(SessionAdvances(pair.name, pair.session, step), at)

    def _request(self, pair: Pair, me: Seat, now: Instant, out: Out) -> None:
        pair.sent_at = now
        knows, said = pair.theirs.number if pair.theirs is not None else 0, self._spread.for_pair(pair)
        seat, join = (me, pair.join) if pair.initiator and pair.session == 1 else (None, 0)  # Of an invitation.
        out.send(pair.to, LeaseRequest(me.incarnation, pair.seat.incarnation, pair.session, knows, said, seat, join))

    def ack(self, pair: Pair, sender: NodeId, message: LeaseRequest, me: Seat, out: Out) -> None:
        knows, said = pair.theirs.number if pair.theirs is not None else 0, self._spread.for_pair(pair)
        out.send(sender, LeaseAck(me.incarnation, message.incarnation, message.session, knows, said))

    def establish(self, pair: Pair, message: LeaseAck, now: Instant) -> bool:
        """Return whether this ack is the first of the session under way, and in time."""
        if message.session != pair.session or now >= pair.started_at + self._lease:
            return False
        if pair.theirs is None or pair.established:
            return False
        pair.established, pair.round_trip = True, now - pair.sent_at
        if pair.round_trip < self._config.arbitration:
            self._was_fast = True
        return True

    def refuse(self, round_trip: Duration) -> str | None:
        """Return why this configuration cannot work here, once slow round trips make that certain.

        [settled 11] A T_a below the round trip cannot work: the node leaves, and says so with the numbers.  One slow
        ack is no measurement, since a machine that starts is slow; several are, if none was faster.
        """
        if self._was_fast or not self._config.resends:
            return None
        self._slow.append(round_trip)
        if len(self._slow) < SLOW_ENOUGH:
            return None
        limit, took = format_duration(self._config.arbitration), format_duration(min(self._slow))
        return f"arbitration ({limit}) must exceed a round trip, which took {took}: no vote would be in time"
