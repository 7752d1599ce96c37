"""The four phases of joining, on the joiner's side; `admission.py` has the other.  [ARB §V]

    1 discovery ─▶ 2 locks of all neighbours ─▶ 3 LR(1) to all ─▶ 4 LR(2) to all ─▶ member

On any refusal or timeout all is released, and after a while the joiner begins again from 1, under a new attempt; once
LR(2) is out somebody may count on the joiner, so then it begins again as somebody else.

Deviation: waits between attempts double, with jitter; the paper leaves them open.
"""

from random import Random
from typing import Final

from doyen.core.clock import Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import Address, NodeId
from doyen.membership.ring import messages as msg
from doyen.membership.ring.arbitrator import Version
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import Name, Seat, Seats, joined_neighbours, to
from doyen.membership.ring.lease import Leases
from doyen.membership.ring.listing import Listing
from doyen.membership.ring.neighbourhood import Neighbourhood
from doyen.membership.ring.pair import Pair

WAIT, SLOT_OVER = 0, -1  # Steps of a phase, besides its repetitions, which count from 1.
DISCOVERY, LOCKS, FIRST_LEASES, SECOND_LEASES = 1, 2, 3, 4  # Phases; 0: it does not join.
TRIES: Final = 3  # Within the T_l of a phase.


class Joiner:
    """One node's attempts to take its place on the ring."""

    def __init__(
        self, config: ArbitrationConfig, rng: Random, leases: Leases, place: Neighbourhood, listing: Listing
    ) -> None:
        self._config, self._rng, self._leases, self._place, self._listing = config, rng, leases, place, listing
        self.contacts: list[NodeId | Address] = []
        self.phase = 0
        self._attempt = 0  # Its number over all joins of this node.
        self._attempt_count = 0  # Of this join.
        self._began_at: Instant = 0  # When this join was decided on.
        self._phase_at: Instant = 0
        self._is_done = False  # With this phase; its slot may not be over.
        self._owner: Seat | None = None  # Of the joiner's point.
        self._wanted: Seats = frozenset()  # Its neighbours-to-be.
        self._granted: set[Name] = set()
        self._acked: set[Name] = set()

    @property
    def under_way(self) -> bool:
        return self.phase > 0

    def begin(self, now: Instant, out: Out, *, wait: Duration = 0) -> None:
        self._began_at, self._attempt_count = now, 0
        self._try_at(now + wait, out)

    def _try_at(self, at: Instant, out: Out) -> None:
        self._attempt += 1
        self.phase, self._wanted = DISCOVERY, frozenset()
        out.set_timer(msg.JoinAdvances(self._attempt, DISCOVERY, WAIT), at)

    def stop(self, out: Out) -> None:
        """End the join for good, if one is under way."""
        if self.under_way:
            self._give_up(out)
        self.phase = 0
        self._attempt += 1

    def _give_up(self, out: Out) -> None:
        """Release the neighbours-to-be of this attempt."""
        for seat in sorted(self._wanted):
            out.send(to(seat), msg.Unlock(seat.incarnation, self._place.seat, self._attempt))
        if self.phase >= SECOND_LEASES:
            self._place.take_new_identity(out)
        self._place.pairs.clear()

    def fail(self, now: Instant, out: Out) -> None:
        """Give this attempt up and plan the next: somebody refused, or did not answer."""
        self._give_up(out)
        widest = (self._config.lease // 2) << min(self._attempt_count, self._config.backoff_max)
        self._try_at(now + int((0.5 + self._rng.random()) * widest), out)

    def on_step(self, timer: msg.JoinAdvances, now: Instant, out: Out) -> None:
        if timer.attempt != self._attempt or timer.phase != self.phase:
            return
        if timer.step == WAIT:
            self._attempt_count += 1
            self._phase_at, self._is_done = now, False
            self._owner = None
            self._discover(out)
            self._set_timer(1, out)
            out.emit(msg.JoinPhase(self._place.seat, DISCOVERY))
        elif timer.step == SLOT_OVER:
            self._enter_next(now, out)
        elif not self._is_done:
            if now >= self._phase_at + self._config.lease:
                self.fail(now, out)
                return
            if self._config.resends:
                self._discover(out) if self.phase == DISCOVERY and self._owner is None else self._lock(out)
            self._set_timer(timer.step + 1, out)

    def _set_timer(self, step: int, out: Out) -> None:
        at = self._phase_at + self._config.lease * step // TRIES
        out.set_timer(msg.JoinAdvances(self._attempt, self.phase, step), at)

    def _discover(self, out: Out) -> None:
        if self.contacts:
            contact = self.contacts[int(self._rng.random() * len(self.contacts))]
            out.send(contact, msg.Discover(self._place.seat, self._attempt))

    def on_discovered(self, message: msg.Discovered, now: Instant, out: Out) -> None:
        if not self._is_awaited(message, DISCOVERY) or self._owner is not None:
            return
        if not message.accepted:
            self.fail(now, out)
            return
        self._owner = message.owner
        me, each_side = self._place.seat, self._config.neighbours
        self._wanted = joined_neighbours(me, message.owner, message.neighbours, each_side)
        self._done(now, out)

    def _is_awaited(self, message: msg.Discovered | msg.Locked, phase: int) -> bool:
        return message.to == self._place.seat.incarnation and message.attempt == self._attempt and self.phase == phase

    def _done(self, now: Instant, out: Out) -> None:
        """End this phase: the next begins now, or in its slot."""
        if self._is_done:
            return
        self._is_done = True
        if self._config.slotted_join:
            out.set_timer(msg.JoinAdvances(self._attempt, self.phase, SLOT_OVER), self._phase_at + self._config.lease)
        else:
            self._enter_next(now, out)

    def _enter_next(self, now: Instant, out: Out) -> None:
        place = self._place
        self.phase += 1
        self._phase_at, self._is_done = now, False
        out.emit(msg.JoinPhase(place.seat, self.phase))
        if self.phase == LOCKS:
            self._granted = set()
            self._lock(out)
            self._set_timer(1, out)
        elif self.phase == FIRST_LEASES:
            place.reset(Version(1, self._wanted))
            for seat in sorted(self._wanted):
                place.invite(seat, now, out, join=self._attempt)
        elif self.phase == SECOND_LEASES:
            self._acked = set()
            for pair in list(place.pairs.values()):
                if not self._leases.begin(pair, pair.session_ends_at(self._config.lease), place.seat, now, out):
                    self.fail(now, out)
                    return
        else:
            self.phase = 0
            assert self._owner is not None
            place.become_member({self._owner, *self._wanted}, now, out)
            out.emit(msg.JoinedRing(place.seat, now - self._began_at, self._attempt_count))
            self._listing.begin(self._owner, now, out)
            place.reconcile(now, out)

    def _lock(self, out: Out) -> None:
        wanted = tuple(sorted(self._wanted))
        for seat in wanted:
            if seat.name not in self._granted:
                out.send(to(seat), msg.Lock(seat.incarnation, self._place.seat, self._attempt, wanted))

    def on_locked(self, sender: NodeId, message: msg.Locked, now: Instant, out: Out) -> None:
        if not self._is_awaited(message, LOCKS):
            return
        if not message.granted:
            self.fail(now, out)
            return
        self._granted.add((sender, message.incarnation))
        if len(self._granted) == len(self._wanted):
            self._done(now, out)

    def on_first_session_over(self, now: Instant, out: Out) -> None:
        """Go on if every first session was acked: all began together, so all are over."""
        if self.phase == FIRST_LEASES:
            if all(pair.established and pair.theirs is not None for pair in self._place.pairs.values()):
                self._enter_next(now, out)
            else:
                self.fail(now, out)

    def on_second_ack(self, pair: Pair, now: Instant, out: Out) -> None:
        self._acked.add(pair.name)
        if self.phase == SECOND_LEASES and len(self._acked) == len(self._place.pairs):
            self._done(now, out)
