"""The neighbours that a member watches: the k nearest on each side, made and unmade pair by pair.

A new pair begins dormant.  Its initiator sends LR(1) with N_P, the other acks with its own and watches in turn; with
LR(2) the initiator is committed, and on hearing it the other is active; on ACK(2) both are.  A member that is committed
but not yet active arbitrates on a timeout like anyone, and leaves if it loses; but a victory convicts nobody, for the
other may have let the pair go.  The same holds for a pair that one side has asked to end.  So no victory is ever
counted against a member that would not know that it lost (decision 50).
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from doyen.core.clock import Duration, Instant
from doyen.core.deadline import Deadline
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.membership.ring import messages as msg
from doyen.membership.ring.admission import Admission
from doyen.membership.ring.arbitrator import Version
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import Name, Seat, Seats, around, neighbours, to
from doyen.membership.ring.lease import Leases
from doyen.membership.ring.messages import Dropped, NewsKind
from doyen.membership.ring.pair import Pair, Stage
from doyen.membership.ring.spread import Spread
from doyen.membership.ring.upgrade import Upgrades
from doyen.membership.ring.view import RosterView

PROBE_LEASES: Final = 4  # T_l between two looks whether a member out of reach is back.


class Founding(Struct, frozen=True):
    """A ring that begins with all its members: the list, and each member's neighbourhood, shared by all."""

    seats: tuple[Seat, ...]
    neighbourhoods: dict[Name, Seats]


def founding(seats: Iterable[Seat], each_side: int) -> Founding:
    """Return the ring that begins with these members."""
    ordered = tuple(sorted(seats))
    found = {}
    for i, seat in enumerate(ordered):
        window = {ordered[(i + step) % len(ordered)] for step in range(-each_side, each_side + 1)}
        found[seat.name] = neighbours(seat, window, each_side)
    return Founding(ordered, found)


class Neighbourhood:
    """A member's place on the ring: its seat, the pairs that it is in, and N_P.

    It invites and releases neighbours by itself; when to suspect one, and when to leave, is up to the machine.
    """

    def __init__(
        self,
        seat: Seat,
        config: ArbitrationConfig,
        spread: Spread,
        leases: Leases,
        upgrades: Upgrades | None,  # None: the arbitrators are not the neighbours.
        admission: Admission,
        view: RosterView | None,
    ) -> None:
        self.seat, self._config = seat, config
        self.is_member = False
        self.pairs: dict[Name, Pair] = {}
        self.current = Version(0, frozenset())  # N_P, as it is.
        self._spread, self._leases, self._upgrades, self._view = spread, leases, upgrades, view
        self._admission = admission
        self._not_before: dict[Name, Instant] = {}  # When a member may be invited again.
        self._repeats = Deadline()  # When the next of them may be.
        self._published: tuple[Seat | None, Seat | None, Seats] | None = None

    def reset(self, current: Version) -> None:
        self.current, self._published = current, None
        self._not_before.clear()
        self._repeats.fired()

    def renumber(self) -> None:
        """Take a new number: a version that was proposed is not proposed again."""
        self.current = Version(self.current.number + 1, self.current.members)

    def desired(self) -> Seats:
        """Return the members that this one ought to watch."""
        return self._spread.roster.near(self.seat, self._config.neighbours, self._spread.lost)

    def found(self, ring: Founding, grace: Duration, now: Instant, out: Out) -> None:
        """Begin as one of the founders of a ring."""
        mine = Version(1, ring.neighbourhoods[self.seat.name])
        self.reset(mine)
        self.is_member = True
        for seat in sorted(mine.members):
            pair = self.pairs[seat.name] = Pair(seat, mine, 0)
            pair.stage, pair.theirs = Stage.ACTIVE, Version(1, ring.neighbourhoods[seat.name])
            pair.session = 2  # No session of these is an invitation.
            self._leases.begin_sometime(pair, now + grace, out)
        self.show(ring.seats, out)
        self.reconcile(now, out)

    def become_member(self, known: Iterable[Seat], now: Instant, out: Out) -> None:
        """Enter the ring that the neighbours, and theirs, belong to."""
        assert not self.is_member
        everybody = set(known)
        for pair in self.pairs.values():
            pair.stage, pair.join = Stage.ACTIVE, 0
            assert pair.theirs is not None
            everybody |= pair.theirs.members
        self.is_member = True
        self._spread.is_whole = False
        self._admission.reset()
        self.learn_list(sorted(everybody), (), now, out, whole=False)

    def take_new_identity(self, out: Out, address: str | None = None) -> None:
        """Become another incarnation, elsewhere if an address is given.

        What the last one promised is void; the memory of an arbitrator is kept.
        """
        old = self.seat
        if self._config.announced and not self.is_member:
            for pair in self.pairs.values():
                out.send(pair.to, msg.Leave(old))
        self.pairs.clear()
        self._spread.roster.remove(old, left=True)
        self.seat = Seat(old.point, old.node, old.incarnation + 1, old.address if address is None else address)

    # What this member learns.

    def learn(self, line: msg.News, now: Instant, out: Out) -> None:
        """Take a line about another member that no pair depends on, and act on it if it is news."""
        if self._spread.learn(line, self.seat.name, now):
            self.show_node(line.seat, out)
            self.reconcile(now, out)

    def learn_found(self, seat: Seat, now: Instant, out: Out) -> None:
        """Take note that a member is in reach."""
        line = self._spread.reach(seat, lost=False)
        if line is not None:
            self.learn(line, now, out)

    def learn_list(self, seats: Sequence[Seat], gone: Iterable[Name], now: Instant, out: Out, *, whole: bool) -> None:
        """Take the list of a member that has been here for longer; nobody else needs to hear it again."""
        self._spread.learn_list(seats, gone, self.seat.name, whole=whole)
        self.show((*seats, self.seat), out)
        self.reconcile(now, out)

    def show(self, seats: Iterable[Seat], out: Out) -> None:
        """Show in the view what is known of these seats."""
        fact = self._view.update(seats) if self._view is not None else None
        if fact is not None:
            out.emit(fact)

    def show_node(self, seat: Seat, out: Out) -> None:
        """Show in the view what is known of all incarnations of a node."""
        if self._view is not None:
            self.show((seat, *(other for other in self._spread.roster if other.node == seat.node)), out)

    # Reconciliation.

    def reconcile(self, now: Instant, out: Out) -> None:
        """Reconcile with the roster: invite desired neighbours, release the others, publish the result as N_P."""
        if not self.is_member:
            return
        for name in list(self._spread.lost):
            pair = self.pairs.get(name)
            if pair is not None and pair.stage is Stage.ACTIVE and pair.watching:
                self.learn_found(pair.seat, now, out)  # This member knows better.
        desired = self.desired()
        self._invite_missing(desired, now, out)
        self._release_displaced(desired, out)
        members = frozenset(pair.seat for pair in self.pairs.values() if pair.stage is Stage.ACTIVE)
        if members != self.current.members:
            self.current = Version(self.current.number + 1, members)
            self._plan_upgrades(now, out)
        self._publish(members, out)

    def on_reconciliation_repeats(self, timer: msg.ReconciliationRepeats, now: Instant, out: Out) -> None:
        if timer.incarnation == self.seat.incarnation:
            self._repeats.fired()
            self.reconcile(now, out)

    def _invite_missing(self, desired: Seats, now: Instant, out: Out) -> None:
        """Invite members that are not watched yet, and now and then those that would be neighbours if in reach."""
        waits = []
        for seat in sorted(desired):
            if seat.name not in self.pairs:
                due = self._not_before.get(seat.name, now)
                if due <= now:
                    self.invite(seat, now, out)
                else:
                    waits.append(due)
        if self._spread.lost:
            probed_at = now + PROBE_LEASES * self._config.lease
            for seat in sorted(self._spread.roster.near(self.seat, self._config.neighbours) - desired):
                if seat.name not in self.pairs:
                    due = self._not_before.setdefault(seat.name, probed_at)
                    if due <= now:
                        self._not_before[seat.name] = due = probed_at
                        self.invite(seat, now, out)
                    waits.append(due)
        if waits:
            self._repeats.move(min(waits), msg.ReconciliationRepeats(self.seat.incarnation), out, now=now)

    def invite(self, seat: Seat, now: Instant, out: Out, *, join: int = 0) -> None:
        """Begin a pair; `join` is the attempt, if this node is a joiner."""
        pair = Pair(seat, self.current, self._spread.length, initiator=True, join=join)
        self.pairs[seat.name] = pair
        self._leases.begin(pair, now, self.seat, now, out)

    def _release_displaced(self, desired: Seats, out: Out) -> None:
        """Ask to be released by those who are no neighbours, once everybody who ought to be there is."""
        pairs = self.pairs
        for pair in pairs.values():
            if pair.release:
                # It is wanted again.  It has had the last Release by the session after next: if it acks then, it stays.
                pair.keep_from = (pair.keep_from or pair.session + 2) if pair.seat in desired else 0
        if any(seat.name not in pairs or pairs[seat.name].stage is not Stage.ACTIVE for seat in desired):
            return
        for pair in pairs.values():
            if pair.certain and pair.watching and pair.seat not in desired:
                pair.release = True
                out.send(pair.to, msg.Release(self.seat.incarnation, pair.seat.incarnation))

    def _plan_upgrades(self, now: Instant, out: Out) -> None:
        if self._upgrades is not None:
            self._upgrades.plan_all(self.pairs.values(), self.current, now, out)

    def _publish(self, members: Seats, out: Out) -> None:
        # Members out of reach are among them: nobody takes their keys (decision 52).
        nearest = around(self.seat, self._spread.roster.near(self.seat, 1))
        before, after = (nearest[-1], nearest[0]) if nearest else (None, None)
        if (before, after, members) != self._published:
            self._published = (before, after, members)
            out.emit(msg.NeighboursChanged(self.seat, before, after, tuple(sorted(members))))

    # Pairs.

    def on_invitation(self, pair: Pair | None, message: msg.LeaseRequest, now: Instant, out: Out) -> Pair | None:
        """Take LR(1) of a member or joiner that would watch this one; return the pair, if it may be one."""
        seat, spread = message.seat, self._spread
        assert seat is not None
        if seat.name in spread.roster.gone or not self.is_member:
            return None
        if pair is not None and pair.initiator:
            if pair.stage is not Stage.DORMANT or self.seat < seat:
                return None  # Of two invitations that cross, the lower seat's counts.
            self.remove(pair)
            pair = None
        if pair is not None and pair.join == message.join:
            return pair
        if message.join:
            welcome = self._admission.admits(seat.name, message.join, now)
        else:
            if seat not in spread.roster:
                self.learn(msg.News(NewsKind.JOINED, seat), now, out)
            self.learn_found(seat, now, out)
            welcome = seat in self.desired()
        if not welcome:
            out.send(to(seat), msg.Released(self.seat.incarnation, seat.incarnation))
            return None
        if pair is not None:
            self.remove(pair)  # Of an attempt that the joiner has given up.
        pair = self.pairs[seat.name] = Pair(seat, self.current, spread.length, join=message.join)
        self._leases.begin_sometime(pair, now, out)
        return pair

    def become_active(self, pair: Pair, now: Instant, out: Out) -> None:
        assert pair.stage is not Stage.ACTIVE and pair.theirs is not None
        pair.stage = Stage.ACTIVE
        if pair.join:
            self._admission.close(pair.name)
            self.learn(msg.News(NewsKind.JOINED, pair.seat), now, out)
        self.learn_found(pair.seat, now, out)
        self.reconcile(now, out)

    def keep(self, pair: Pair, now: Instant, out: Out) -> None:
        """Keep a pair that this member had asked to end."""
        pair.release, pair.keep_from = False, 0
        self._plan_upgrades(now, out)

    def refuse(self, sender: NodeId, incarnation: int, out: Out) -> None:
        """Answer a node that believes that the two watch each other, which they do not."""
        if self.is_member and (sender, incarnation) not in self._spread.roster.gone:
            out.send(sender, msg.Released(self.seat.incarnation, incarnation))

    def on_release(self, sender: NodeId, message: msg.Release, now: Instant, out: Out) -> None:
        pair = self.pairs.get((sender, message.incarnation))
        if not self.is_member or (pair is not None and (not pair.watching or pair.seat in self.desired())):
            return
        if pair is not None:
            self.drop(pair, "released", out)
            self.reconcile(now, out)
        self.refuse(sender, message.incarnation, out)

    def drop(self, pair: Pair, why: Dropped, out: Out, *, retry_at: Instant | None = None) -> None:
        """Stop watching the other, which may be invited again from `retry_at` on."""
        self.remove(pair)
        out.emit(msg.PairDropped(pair.seat, why))
        if retry_at is not None:
            self._not_before[pair.name] = retry_at

    def remove(self, pair: Pair) -> None:
        if self.pairs.get(pair.name) is pair:
            del self.pairs[pair.name]
