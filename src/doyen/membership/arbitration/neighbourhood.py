"""Whom a member watches: the k nearest on each side of those it knows, made and unmade pair by pair.

A new pair begins dormant.  Its initiator sends LR(1) with N_P, the other acks with its own and watches in turn; with
LR(2) the initiator is committed, and on hearing it the other is active; on ACK(2) both are.  Who is committed but not
yet active arbitrates on a timeout like anyone, and leaves if it loses; but a victory convicts nobody, for the other may
have let the pair go.  The same holds for a pair that one side has asked to end.  So no victory is ever counted against
somebody who would not know that it lost.
"""

from typing import TYPE_CHECKING

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.membership.arbitration.arbitrator import Version
from doyen.membership.arbitration.messages import (
    LeaseRequest,
    NeighboursChanged,
    News,
    NewsKind,
    PairDropped,
    RecoveryStarted,
    Release,
    Released,
    TendDue,
)
from doyen.membership.arbitration.pair import Pair, Stage
from doyen.membership.ring import Name, Seat, around, to

PROBE_LEASES = 4  # Between two looks whether somebody out of reach is back.

if TYPE_CHECKING:
    from doyen.membership.arbitration.machine import Arbitration


class Neighbourhood:
    def __init__(self, machine: "Arbitration") -> None:
        self._m = machine
        self.current = Version(0, frozenset())  # N_P, as it is.
        self._not_before: dict[Name, Instant] = {}
        self._tend_at: Instant = -1
        self._told: tuple[Seat | None, Seat | None, frozenset[Seat]] | None = None

    def reset(self, current: Version) -> None:
        self.current, self._told, self._tend_at = current, None, -1
        self._not_before.clear()

    def renumber(self) -> None:
        self.current = Version(self.current.number + 1, self.current.members)

    def not_before(self, name: Name, at: Instant) -> None:
        self._not_before[name] = at

    def desired(self) -> frozenset[Seat]:
        m = self._m
        return m.roster.near(m.seat, m.config.neighbours, m.spread.lost)

    def tend(self, now: Instant) -> None:
        """What ought to be watched is, what ought not is let go, and N_P is what is."""
        m = self._m
        if not m.is_member:
            return
        for name in list(m.spread.lost):
            pair = m.pairs.get(name)
            if pair is not None and pair.stage is Stage.ACTIVE and pair.watching:
                m.spread.tell_reach(pair.seat, lost=False, now=now)  # We know better.
        desired = self.desired()
        wait: Instant | None = None
        for seat in sorted(desired):
            if seat.name not in m.pairs:
                due = self._not_before.get(seat.name, now)
                if due <= now:
                    self._invite(seat, now)
                else:
                    wait = due if wait is None else min(wait, due)
        if m.spread.lost:
            looked = self._look_for_lost(desired, now)
            wait = min((at for at in (wait, looked) if at is not None), default=None)
        if wait is not None and not now < self._tend_at <= wait:
            self._tend_at = wait
            m.out.set_timer(TendDue(m.seat.life), wait)
        self._release_displaced(desired)
        members = frozenset(pair.seat for pair in m.pairs.values() if pair.stage is Stage.ACTIVE)
        if members != self.current.members:
            self.current = Version(self.current.number + 1, members)
            m.upgrades.plan_all(now)
        self._tell(members)

    def _look_for_lost(self, desired: frozenset[Seat], now: Instant) -> Instant | None:
        """Whoever would be a neighbour if it were in reach is asked again, now and then; when next."""
        m = self._m
        near = m.roster.near(m.seat, m.config.neighbours) - desired
        wait: Instant | None = None
        for seat in sorted(near):
            if seat.name in m.pairs:
                continue
            due = self._not_before.setdefault(seat.name, now + PROBE_LEASES * m.config.lease)
            if due <= now:
                self._not_before[seat.name] = due = now + PROBE_LEASES * m.config.lease
                self._invite(seat, now)
            wait = due if wait is None else min(wait, due)
        return wait

    def _tell(self, members: frozenset[Seat]) -> None:
        m = self._m
        nearest = around(m.seat, m.roster.near(m.seat, 1))
        ends = (nearest[-1], nearest[0]) if nearest else (None, None)
        if (*ends, members) != self._told:
            self._told = (*ends, members)
            m.out.emit(NeighboursChanged(m.seat, ends[0], ends[1], tuple(sorted(members))))

    def _invite(self, seat: Seat, now: Instant) -> None:
        m = self._m
        pair = Pair(seat, Stage.DORMANT, self.current, None, m.spread.length)
        pair.initiator = True
        m.pairs[seat.name] = pair
        m.leases.begin(pair, now, now)

    def _release_displaced(self, desired: frozenset[Seat]) -> None:
        """Only once everybody who ought to be there is."""
        m = self._m
        pairs = m.pairs
        for pair in pairs.values():
            if pair.release:
                # It is wanted again.  It has heard our last word by the session after next: if it acks then, it stays.
                pair.keep_from = (pair.keep_from or pair.session + 2) if pair.seat in desired else 0
        if any(seat.name not in pairs or pairs[seat.name].stage is not Stage.ACTIVE for seat in desired):
            return
        for pair in list(pairs.values()):
            if pair.stage is Stage.ACTIVE and pair.watching and not pair.release and pair.seat not in desired:
                pair.release = True
                m.out.send(pair.to, Release(m.seat.life, pair.seat.life))

    def keep(self, pair: Pair, now: Instant) -> None:
        """Not released after all."""
        pair.release, pair.keep_from = False, 0
        self._m.upgrades.plan_all(now)

    def on_invitation(self, pair: Pair | None, message: LeaseRequest, now: Instant) -> Pair | None:
        """LR(1) of somebody who would watch us; the pair, if it may be one."""
        m, seat = self._m, message.seat
        assert seat is not None
        if seat.name in m.roster.gone or not m.is_member:
            return None
        if pair is not None and pair.initiator:
            if pair.stage is not Stage.DORMANT or m.seat < seat:
                return None  # Of two invitations that cross, the lower seat's counts.
            m.drop(pair)
            pair = None
        if pair is not None and pair.join == message.join:
            return pair
        if message.join:
            if not m.door.admits(seat.name, message.join, now):
                m.out.send(to(seat), Released(m.seat.life, seat.life))
                return None
        else:
            if seat not in m.roster:
                m.spread.learn(News(NewsKind.JOINED, seat), now)
            m.spread.tell_reach(seat, lost=False, now=now)
            if seat not in self.desired():
                m.out.send(to(seat), Released(m.seat.life, seat.life))
                return None
        if pair is not None:
            m.drop(pair)  # Of an attempt that the joiner has given up.
        pair = Pair(seat, Stage.DORMANT, self.current, None, m.spread.length)
        pair.join = message.join
        m.pairs[seat.name] = pair
        m.leases.begin_sometime(pair, now)
        return pair

    def become_active(self, pair: Pair, now: Instant) -> None:
        m = self._m
        assert pair.stage is not Stage.ACTIVE and pair.theirs is not None
        pair.stage = Stage.ACTIVE
        if pair.join:
            m.door.close(pair.name)
            m.spread.learn(News(NewsKind.JOINED, pair.seat), now)
        m.spread.tell_reach(pair.seat, lost=False, now=now)
        self.tend(now)

    def on_dormant_timeout(self, pair: Pair, now: Instant) -> None:
        m = self._m
        if pair.initiator and pair.join:
            m.joiner.on_timeout(now)
            return
        m.drop(pair)
        m.out.emit(PairDropped(pair.seat, "dormant"))
        if pair.initiator:
            self.not_before(pair.name, now + m.config.lease * (PROBE_LEASES if pair.name in m.spread.lost else 1))
            if pair.theirs is None:
                m.spread.tell_reach(pair.seat, lost=True, now=now)
        self.tend(now)

    def on_stranger(self, sender: NodeId, life: int) -> None:
        """It believes that we watch each other, and we do not."""
        m = self._m
        if m.is_member and (sender, life) not in m.roster.gone:
            m.out.send(sender, Released(m.seat.life, life))

    def on_release(self, sender: NodeId, message: Release, now: Instant) -> None:
        m = self._m
        pair = m.pairs.get((sender, message.life))
        if not m.is_member or (pair is not None and (not pair.watching or pair.seat in self.desired())):
            return
        if pair is not None:
            self._let_go(pair, now)
        self.on_stranger(sender, message.life)

    def on_released(self, sender: NodeId, message: Released, now: Instant) -> None:
        m = self._m
        pair = m.pairs.get((sender, message.life))
        if pair is None or not (pair.stage is not Stage.ACTIVE or pair.release):
            return
        if pair.join and m.joiner.under_way:
            m.joiner.on_timeout(now)
        else:
            self.not_before(pair.name, now + m.config.lease)
            self._let_go(pair, now)

    def _let_go(self, pair: Pair, now: Instant) -> None:
        self._m.drop(pair)
        self._m.out.emit(PairDropped(pair.seat, "released"))
        self.tend(now)

    def recover(self, name: Name, now: Instant) -> None:
        """[ARB Cor. 3] The wait is over: it has left, wherever it was."""
        m = self._m
        pair = m.pairs.get(name)
        if pair is None or not pair.condemned:
            return
        m.drop(pair)
        m.out.emit(RecoveryStarted(pair.seat))
        m.spread.learn(News(NewsKind.DEAD, pair.seat), now)
        self.tend(now)

    def on_tend_due(self, timer: TendDue, now: Instant) -> None:
        if timer.life == self._m.seat.life:
            self._tend_at = -1
            self.tend(now)
