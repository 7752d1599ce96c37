"""The four phases of joining, from both sides.  [ARB §V]

    joiner:  1 discovery ─▶ 2 locks of all neighbours ─▶ 3 LR(1) to all ─▶ 4 LR(2) to all ─▶ member
             any refusal or timeout: all is released, and after a while it begins again from 1, under a new attempt;
             once LR(2) is out somebody may count on it, so then it begins again as somebody else
    door:    one joiner at a time; a lock is for 3·T_l, and again for the same attempt

Deviation: waits between attempts double, with jitter; the paper leaves them open.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from doyen.core.clock import Instant
from doyen.core.ids import Address, NodeId
from doyen.membership.arbitration.arbitrator import Version
from doyen.membership.arbitration.messages import (
    Discover,
    Discovered,
    JoinedRing,
    JoinPhase,
    JoinStep,
    Lock,
    Locked,
    RosterPart,
    RosterWanted,
    Unlock,
)
from doyen.membership.arbitration.pair import Pair, Stage
from doyen.membership.ring import Name, Seat, Seats, hop_bound, joined_neighbours, neighbours, next_hop, to

if TYPE_CHECKING:
    from doyen.membership.arbitration.machine import Arbitration

PART_MAX = 24  # Seats in a piece of the member list: it must fit a datagram.
WAIT, SLOT_OVER = 0, -1  # Steps of a phase, besides its repetitions, which count from 1.


class Joiner:
    def __init__(self, machine: "Arbitration", contacts: Sequence[NodeId | Address]) -> None:
        self._m = machine
        self.contacts = list(contacts)
        self.phase = 0
        self._attempt = self._attempts = 0
        self._began_at: Instant = 0  # With the first attempt.
        self._phase_at: Instant = 0
        self._owner: Seat | None = None
        self._wanted: Seats = frozenset()
        self._granted: set[Name] = set()
        self._acked: set[Name] = set()
        self._is_done = False  # With this phase; its slot may not be over.

    @property
    def under_way(self) -> bool:
        return self.phase > 0

    def begin(self, now: Instant, *, wait: int = 0) -> None:
        self._began_at, self._attempts = now, 0
        self.phase = 1
        self._again(now + wait)

    def _again(self, at: Instant) -> None:
        self._attempt += 1
        self.phase = 1
        self._m.out.set_timer(JoinStep(self._attempt, 1, WAIT), at)

    def stop(self) -> None:
        self.phase = 0
        self._attempt += 1

    def on_step(self, timer: JoinStep, now: Instant) -> None:
        m, lease = self._m, self._m.config.lease
        if timer.attempt != self._attempt or timer.phase != self.phase:
            return
        if timer.step == WAIT:
            self._attempts += 1
            self._phase_at, self._wanted, self._is_done = now, frozenset(), False
            self._owner = None
            self._discover()
            self._arm(1)
            m.out.emit(JoinPhase(m.seat, 1))
        elif timer.step == SLOT_OVER:
            self._enter(timer.phase + 1, now)
        elif self._is_done:
            return
        elif now >= self._phase_at + lease:
            self.on_timeout(now)
        else:
            if m.config.resends:
                self._discover() if self.phase == 1 and self._owner is None else self._lock()
            self._arm(timer.step + 1)

    def _arm(self, step: int) -> None:
        lease = self._m.config.lease
        self._m.out.set_timer(JoinStep(self._attempt, self.phase, step), self._phase_at + lease * step // 3)

    def _discover(self) -> None:
        if self.contacts:
            contact = self.contacts[int(self._m.rng.random() * len(self.contacts))]
            self._m.out.send(contact, Discover(self._m.seat, self._attempt))

    def on_discovered(self, message: Discovered, now: Instant) -> None:
        m = self._m
        if message.to != m.seat.life or message.attempt != self._attempt or self.phase != 1 or self._owner is not None:
            return
        if not message.accepted:
            self.on_timeout(now)
            return
        self._owner = message.owner
        self._wanted = joined_neighbours(m.seat, message.owner, message.neighbours, m.config.neighbours)
        self._done(now)

    def _done(self, now: Instant) -> None:
        """With this phase: the next, now or in its slot."""
        if self._is_done:
            return
        self._is_done = True
        if self._m.config.slotted_join:
            self._m.out.set_timer(JoinStep(self._attempt, self.phase, SLOT_OVER), self._phase_at + self._m.config.lease)
        else:
            self._enter(self.phase + 1, now)

    def _enter(self, phase: int, now: Instant) -> None:
        m = self._m
        self.phase, self._phase_at, self._is_done = phase, now, False
        m.out.emit(JoinPhase(m.seat, phase))
        if phase == 2:
            self._granted = set()
            self._lock()
            self._arm(1)
        elif phase == 3:
            version = Version(1, self._wanted)
            m.neighbourhood.reset(version)
            for seat in sorted(self._wanted):
                pair = Pair(seat, Stage.DORMANT, version, None, m.spread.length)
                pair.initiator, pair.join = True, self._attempt
                m.pairs[seat.name] = pair
                m.leases.begin(pair, now, now)
        elif phase == 4:
            self._acked = set()
            for pair in list(m.pairs.values()):
                if self.phase == 4:
                    m.leases.begin(pair, pair.started_at + m.config.lease, now)
        elif phase == 5:
            self._finish(now)

    def _lock(self) -> None:
        m, wanted = self._m, tuple(sorted(self._wanted))
        for seat in wanted:
            if seat.name not in self._granted:
                m.out.send(to(seat), Lock(seat.life, m.seat, self._attempt, wanted))

    def on_locked(self, sender: NodeId, message: Locked, now: Instant) -> None:
        if message.to != self._m.seat.life or message.attempt != self._attempt or self.phase != 2:
            return
        if not message.granted:
            self.on_timeout(now)
            return
        self._granted.add((sender, message.life))
        if len(self._granted) == len(self._wanted):
            self._done(now)

    def on_first_session_over(self, now: Instant) -> None:
        """All began together, so all are over."""
        if self.phase == 3:
            ready = all(pair.established and pair.theirs is not None for pair in self._m.pairs.values())
            if ready:
                self._enter(4, now)
            else:
                self.on_timeout(now)

    def on_second_ack(self, pair: Pair, now: Instant) -> None:
        self._acked.add(pair.name)
        if self.phase == 4 and len(self._acked) == len(self._m.pairs):
            self._done(now)

    def on_timeout(self, now: Instant) -> None:
        """Somebody refused, or did not answer: all over again, later."""
        m = self._m
        for seat in sorted(self._wanted):
            m.out.send(to(seat), Unlock(seat.life, m.seat, self._attempt))
        if self.phase >= 4:
            m.take_new_identity(now)
        m.pairs.clear()
        self._again(now + self._backoff())

    def _backoff(self) -> int:
        widest = (self._m.config.lease // 2) << min(self._attempts, self._m.config.backoff_max)
        return int((0.5 + self._m.rng.random()) * widest)

    def _finish(self, now: Instant) -> None:
        m, owner = self._m, self._owner
        assert owner is not None
        self.phase = 0
        known = {owner, *self._wanted}
        for pair in m.pairs.values():
            pair.stage, pair.join = Stage.ACTIVE, 0
            assert pair.theirs is not None
            known |= pair.theirs.members
        m.become_member(known, now)
        m.out.emit(JoinedRing(m.seat, now - self._began_at, self._attempts))
        m.out.send(to(owner), RosterWanted(m.seat.life, owner.life, -1))
        m.neighbourhood.tend(now)

    def on_roster(self, sender: NodeId, message: RosterPart, now: Instant) -> None:
        m = self._m
        m.learn_roster(message.seats, message.gone, complete=not message.more, now=now)
        if message.more and message.seats:
            m.out.send(sender, RosterWanted(m.seat.life, message.life, message.seats[-1].point))


class Door:
    """A member's side: discovery and locks."""

    def __init__(self, machine: "Arbitration") -> None:
        self._m = machine
        self._holder: tuple[Name, int] | None = None
        self._until: Instant = 0

    def busy(self, holder: tuple[Name, int], now: Instant) -> bool:
        return self._holder is not None and self._holder != holder and now < self._until

    def admits(self, name: Name, attempt: int, now: Instant) -> bool:
        return self._holder == (name, attempt) and now < self._until

    def close(self, name: Name) -> None:
        if self._holder is not None and self._holder[0] == name:
            self._holder = None

    def reset(self) -> None:
        self._holder = None

    def until(self, now: Instant) -> Instant:
        """Reservations expire: joiners die, too."""
        return now + 3 * self._m.config.lease

    def on_discover(self, message: Discover, now: Instant) -> None:
        m, joiner = self._m, message.joiner
        if not m.is_member or joiner.name in m.roster.gone or joiner.name in m.pairs:
            return
        near = m.roster.near(Seat(joiner.point, NodeId(""), 0), 1, m.spread.lost)
        onward = next_hop(joiner.point, m.seat, near)
        if onward is not None and message.hops <= hop_bound(len(m.roster), m.config.neighbours):
            m.out.send(to(onward), Discover(joiner, message.attempt, message.hops + 1))
            return
        holder = (joiner.name, message.attempt)
        # Who is about to lose a neighbour does not send joiners to it.
        accepted = onward is None and not self.busy(holder, now) and all(p.watching for p in m.pairs.values())
        members: tuple[Seat, ...] = ()
        if accepted:
            # As long as a lock, and one T_l for this phase.
            self._holder, self._until = holder, self.until(now) + m.config.lease
            members = tuple(sorted(m.neighbourhood.current.members))
        m.out.send(to(joiner), Discovered(joiner.life, message.attempt, m.seat, accepted, members))

    def on_lock(self, sender: NodeId, message: Lock, now: Instant) -> None:
        m, joiner = self._m, message.joiner
        if message.to != m.seat.life or not m.is_member:
            return
        holder = (joiner.name, message.attempt)
        granted = not self.busy(holder, now) and joiner.name not in m.roster.gone and self._fits(message)
        if granted:
            self._holder, self._until = holder, self.until(now)
        m.out.send(sender, Locked(m.seat.life, joiner.life, message.attempt, granted))

    def _fits(self, message: Lock) -> bool:
        """Nobody we watch stands nearer to the joiner than we do without its knowing."""
        m, joiner = self._m, message.joiner
        known = {m.seat, *m.neighbourhood.current.members}
        wanted = {seat.name for seat in message.neighbours}
        ours = neighbours(joiner, known | set(message.neighbours), m.config.neighbours)
        return m.seat in ours and {seat.name for seat in ours} == wanted

    def on_unlock(self, message: Unlock) -> None:
        m = self._m
        if self._holder == (message.joiner.name, message.attempt):
            self._holder = None
        pair = m.pairs.get(message.joiner.name)
        if pair is not None and pair.stage is Stage.DORMANT and not pair.initiator:
            m.drop(pair)

    def on_roster_wanted(self, sender: NodeId, message: RosterWanted) -> None:
        m = self._m
        seats = m.roster.after(message.after, PART_MAX + 1)
        gone = tuple(m.roster.gone)[-PART_MAX // 2 :] if message.after < 0 else ()
        more = len(seats) > PART_MAX
        m.out.send(sender, RosterPart(m.seat.life, message.life, tuple(seats[:PART_MAX]), gone, more))
