"""Membership by leases and arbitration on a ring.  [ARB]

Neighbours watch each other by leases; a lease that runs out is arbitrated, at once, by the pair's own group (or by a
central one); a majority decides, and without one the asker leaves.  So two living members never stay in disagreement
about who is dead for longer than 2·T_l + T_a; after that wait (Corollary 3) a survivor may act in the other's stead.

Both modes of the paper's protocol are configurations of this machine (`config.py`).  What carries the theorems is the
neighbourhood alone; the full member list spreads on the leases and may be behind.

Deviation: what the paper leaves open is ours: repair after failures, release of displaced neighbours
(`neighbourhood.py`), waits between joins (`join.py`), the list of all members (`spread.py`).
"""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, ClassVar

from msgspec import Struct

from doyen.core.clock import Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import Address, Incarnation, NodeId, parse_address
from doyen.core.view import Member, Status, ViewChanged, ViewEditor
from doyen.membership.arbitration.arbitrator import Arbitrator, Version
from doyen.membership.arbitration.config import ArbitrationConfig
from doyen.membership.arbitration.join import Door, Joiner
from doyen.membership.arbitration.lease import Leases
from doyen.membership.arbitration.messages import (
    Arb,
    ArbitrationStep,
    ArbUpgrd,
    Discover,
    Discovered,
    Farewell,
    JoinStep,
    LeaseAck,
    LeaseRequest,
    Leave,
    LeftRing,
    Lock,
    Locked,
    Messages,
    News,
    NewsKind,
    PairDropped,
    ProposalStep,
    Propose,
    ProposeReply,
    RecoveryDue,
    ReignBegan,
    Release,
    Released,
    RosterPart,
    RosterWanted,
    SessionStep,
    TendDue,
    Unlock,
    UpgradeDue,
    Vote,
    Why,
    Withdraw,
)
from doyen.membership.arbitration.neighbourhood import Neighbourhood
from doyen.membership.arbitration.pair import Pair, Stage
from doyen.membership.arbitration.request import Requests
from doyen.membership.arbitration.spread import Spread
from doyen.membership.arbitration.upgrade import Upgrades
from doyen.membership.ring import Name, Roster, Seat, Seats, neighbours, to

SLOW_ENOUGH = 3  # Round trips, to judge T_a by.


class Founding(Struct, frozen=True):
    """A ring that begins with all its members: the list, and each one's neighbourhood, shared by all."""

    seats: tuple[Seat, ...]
    neighbourhoods: dict[Name, Seats]


def founding(seats: Iterable[Seat], each_side: int) -> Founding:
    ordered = tuple(sorted(seats))
    size, found = len(ordered), {}
    for i, seat in enumerate(ordered):
        if size <= 2 * each_side + 1:
            found[seat.name] = frozenset(ordered) - {seat}
        else:
            window = [ordered[(i + step) % size] for step in range(-each_side, each_side + 1) if step]
            found[seat.name] = neighbours(seat, window, each_side)
    return Founding(ordered, found)


class Arbitration:
    """One member.  `founding`: it is there from the start; else it joins through its contacts."""

    MESSAGES: ClassVar[Any] = Messages

    def __init__(
        self,
        seat: Seat,
        config: ArbitrationConfig,
        out: Out,
        rng: Random,
        *,
        founding: Founding | None = None,
        contacts: Sequence[NodeId | Address] = (),
        central: Iterable[Seat] = (),  # The arbitrators, where they are not the neighbours.
        grace: Duration = 0,  # Founders that start one after another begin to watch so much later.
        view: bool = True,  # Whether to keep a view of all members; large simulations do without.
    ) -> None:
        self.seat, self.config, self.out, self.rng = seat, config, out, rng
        self.central: Seats = frozenset(central)
        self.is_member = False
        self.pairs: dict[Name, Pair] = {}
        self.round_trip_max: Duration = 0
        self.proven = False  # Whether a round trip has ever been shorter than T_a.
        self._slow: list[Duration] = []  # Those that were not.
        self._farewell: tuple[Leave, list[NodeId | Address]] = (Leave(seat), [])
        self._founding, self._grace = founding, grace
        self._left_for_good = self._forced_for_good = False
        self._heard_at: Instant = 0  # The last input: a long gap means that we slept.
        self._complete = founding is not None  # Whether the member list is all there.
        self._editor = ViewEditor() if view else None
        self.spread = Spread(self, Roster(founding.seats if founding is not None else ()))
        self.arbitrator = self.build_arbitrator()
        self.leases, self.requests, self.upgrades = Leases(self), Requests(self), Upgrades(self)
        self.neighbourhood, self.door = Neighbourhood(self), Door(self)
        self.joiner = Joiner(self, contacts)

    def build_arbitrator(self) -> Arbitrator:
        return Arbitrator(self.config)

    # Inputs.

    def start(self, now: Instant) -> None:
        self._heard_at = now
        if self._founding is None:
            self.joiner.begin(now)
            return
        hoods, mine = self._founding.neighbourhoods, Version(1, self._founding.neighbourhoods[self.seat.name])
        self.neighbourhood.reset(mine)
        self.is_member = True
        self.joiner.contacts = self.joiner.contacts or [to(s) for s in self._founding.seats if s.name != self.seat.name]
        for seat in sorted(mine.members):
            pair = self.pairs[seat.name] = Pair(seat, Stage.ACTIVE, mine, Version(1, hoods[seat.name]), 0)
            pair.session = 2  # None of these is an invitation.
            self.leases.begin_sometime(pair, now + self._grace)
        if self._editor is not None:
            self._show(self._founding.seats)
        self.neighbourhood.tend(now)

    def on_message(self, sender: NodeId, message: Messages, now: Instant) -> None:
        if now - self._heard_at > self.config.lease:
            self._catch_up(now)
        self._heard_at = now
        kind = message.__class__
        if kind is LeaseRequest:
            if message.to == self.seat.life and not self._left_for_good:  # type: ignore[union-attr]
                self.leases.on_request(sender, message, now)  # type: ignore[arg-type]
            elif self._says_that_it_left:
                self.out.send(sender, Leave(Seat(self.seat.point, self.seat.node, message.to)))  # type: ignore[union-attr]
        elif kind is LeaseAck:
            if message.to == self.seat.life:  # type: ignore[union-attr]
                self.leases.on_ack(sender, message, now)  # type: ignore[arg-type]
        else:
            self._on_rare(sender, message, now)

    def _on_rare(self, sender: NodeId, message: Messages, now: Instant) -> None:
        match message:
            case Leave():
                self.spread.learn(News(NewsKind.LEFT, message.seat), now)
            case Discover():
                self.door.on_discover(message, now)
            case Discovered():
                self.joiner.on_discovered(message, now)
            case Lock():
                self.door.on_lock(sender, message, now)
            case Locked():
                self.joiner.on_locked(sender, message, now)
            case Unlock():
                self.door.on_unlock(message)
            case _ if message.to != self.seat.life or self._left_for_good:
                return
            case Arb():
                if self.is_member or self.joiner.phase == 4:
                    self.requests.on_arb(sender, message, now)
            case Vote():
                self.requests.on_vote(sender, message, now)
            case Propose():
                if self.is_member or self.joiner.phase == 4:
                    self.upgrades.on_propose(sender, message, now)
            case Withdraw():
                self.upgrades.on_withdraw(sender, message)
            case ProposeReply():
                self.upgrades.on_reply(sender, message, now)
            case ArbUpgrd():
                self.upgrades.on_upgraded(sender, message, now)
            case Release():
                self.neighbourhood.on_release(sender, message, now)
            case Released():
                self.neighbourhood.on_released(sender, message, now)
            case RosterWanted():
                self.door.on_roster_wanted(sender, message)
            case RosterPart():
                self.joiner.on_roster(sender, message, now)

    def on_timer(self, timer: Any, now: Instant) -> None:
        if now - self._heard_at > self.config.lease:
            self._catch_up(now)
        self._heard_at = now
        if timer.__class__ is SessionStep:
            self.leases.on_step(timer, now)
            return
        match timer:
            case ArbitrationStep():
                self.requests.on_step(timer, now)
            case RecoveryDue():
                self.neighbourhood.recover(timer.name, now)
            case UpgradeDue():
                self.upgrades.on_due(timer, now)
            case ProposalStep():
                self.upgrades.on_step(timer, now)
            case JoinStep():
                self.joiner.on_step(timer, now)
            case TendDue():
                self.neighbourhood.on_tend_due(timer, now)
            case Farewell():
                self._say_farewell(timer)

    def leave(self, now: Instant) -> None:
        """A command: for good, and announced, so that nobody has to find out."""
        if self.is_member:
            self._depart("asked", now, "by command", announced=self.config.announced)
        self._left_for_good = True
        self.joiner.stop()

    def on_reign_began(self, fact: ReignBegan, now: Instant) -> None:
        self.spread.learn(News(NewsKind.REIGN, self.seat, fact.number, fact.key), now)

    # Queries.

    def accusers(self, node: NodeId) -> tuple[NodeId, ...]:
        """Nobody is suspected on a ring: a member is voted out, or it stays."""
        return ()

    def refute_by(self, node: NodeId) -> Instant | None:
        return None

    def round_trip(self, node: NodeId) -> Duration | None:
        trips = (pair.round_trip for pair in self.pairs.values() if pair.seat.node == node)
        return next((int(trip) for trip in trips if trip is not None), None)

    @property
    def roster(self) -> Roster:
        return self.spread.roster

    @property
    def _announces_force(self) -> bool:
        return self.config.announced and self.config.partition != "collapse"

    @property
    def _says_that_it_left(self) -> bool:
        """To whoever speaks to a life that is over."""
        return self._announces_force or (self._left_for_good and not self._forced_for_good and self.config.announced)

    def majority(self, count: int, total: int) -> bool:
        """Exactly half is none."""
        return 2 * count > total

    def electorate(self, group: Seats, now: Instant) -> Seats:
        """Of whom a majority is needed.

        Deviation: who has been gone for T_arb no longer counts, unless as printed.  Of those who are left, any two
        majorities still meet: whoever counts more of the gone needs more of the living.
        """
        if not self.config.abort_silent:
            return group
        gone, recent = self.spread.gone_at, self.config.recent
        return frozenset(seat for seat in group if now - gone.get(seat.name, now) < recent)

    # Transitions.

    def become_member(self, known: Iterable[Seat], now: Instant) -> None:
        assert not self.is_member
        self.is_member = True
        self._complete = False
        self.door.reset()
        self.learn_roster(sorted(known), (), complete=False, now=now)

    def leave_forced(self, why: Why, now: Instant, detail: str = "", group: Seats = frozenset()) -> None:
        """[ARB §III.4] It sacrifices itself for the consistency of the others; and comes back as somebody else."""
        if not self.is_member:
            return
        # As printed it goes silently.  Said aloud, those left behind need no majority over it: a partition splits.
        self._depart(why, now, detail, group, announced=self._announces_force)
        if self.config.rejoin and not self._left_for_good:
            self.joiner.contacts = list(dict.fromkeys([*self.joiner.contacts, *(to(s) for s in self.roster)]))
            self.take_new_identity(now)
            self.joiner.begin(now, wait=int((1 + self.rng.random()) * self.config.recent))
        else:
            self._left_for_good = self._forced_for_good = True

    def _depart(self, why: Why, now: Instant, detail: str = "", group: Seats = frozenset(), *, announced: bool) -> None:
        self.is_member = False
        if announced:
            self._farewell = Leave(self.seat), [pair.to for pair in self.pairs.values()]
            self.out.set_timer(Farewell(self.seat.life), now)  # After this step: first of all, our own node is told.
        self.pairs.clear()
        self.out.emit(LeftRing(self.seat, why, detail, tuple(sorted(group))))

    def take_new_identity(self, now: Instant) -> None:
        """What was promised under the old one is void; the memory of an arbitrator is kept."""
        old = self.seat
        if self.config.announced and not self.is_member and self.pairs:
            for pair in self.pairs.values():
                self.out.send(pair.to, Leave(old))
        self.pairs.clear()
        self.roster.remove(old, left=True)
        self.seat = Seat(old.point, old.node, old.life + 1, old.address)

    def _say_farewell(self, timer: Farewell) -> None:
        leave, receivers = self._farewell
        for receiver in receivers:
            self.out.send(receiver, leave)

    def on_peer_left(self, seat: Seat, now: Instant) -> None:
        pair = self.pairs.get(seat.name)
        if pair is None:
            return
        if pair.join and self.joiner.under_way:
            self.joiner.on_timeout(now)
            return
        self.drop(pair)
        self.out.emit(PairDropped(seat, "left"))

    def drop(self, pair: Pair) -> None:
        if self.pairs.get(pair.name) is pair:
            del self.pairs[pair.name]

    def on_news(self, line: News, now: Instant) -> None:
        """Something in the list of members has changed."""
        if self._editor is not None and line.kind is not NewsKind.REIGN:
            self._show((line.seat, *(seat for seat in self.roster if seat.node == line.seat.node)))  # All its lives.
        if not self.is_member:
            return
        config = self.config
        if line.kind is NewsKind.LOST and config.partition == "majority" and self._complete:
            if 2 * (len(self.roster) - len(self.spread.lost)) <= config.expected_size:
                self.leave_forced("minority", now)
                return
        if line.kind is not NewsKind.REIGN:
            self.neighbourhood.tend(now)

    def learn_roster(self, seats: Sequence[Seat], gone: Iterable[Name], *, complete: bool, now: Instant) -> None:
        """From somebody who has been here for longer; nobody else needs to hear it again."""
        for name in gone:
            self.roster.remove(Seat(0, name[0], name[1]), left=False)
        for seat in seats:
            if seat.name != self.seat.name:
                self.roster.add(seat)
        self._complete = self._complete or complete
        if self._editor is not None:
            self._show((*seats, self.seat))
        self.neighbourhood.tend(now)

    def on_slow_round_trip(self, measured: Duration, now: Instant) -> None:
        """[settled 11] A T_a below the round trip cannot work: say so, with the numbers, and do not stay.

        One slow ack is no measurement: a machine that starts is slow.  So many, and none that was faster, are.
        """
        self.round_trip_max = max(self.round_trip_max, measured)
        if self.proven or not self.config.resends:
            return
        self._slow.append(measured)
        reason = self.config.refuse_round_trip(min(self._slow))
        if reason is not None and len(self._slow) >= SLOW_ENOUGH:
            self._left_for_good = True
            self._depart("refused", now, reason, announced=self.config.announced)

    # Time that passed while we were not there.

    def _catch_up(self, now: Instant) -> None:
        """A machine that slept notices on waking, before it answers anybody."""
        for pair in list(self.pairs.values()):
            if pair.watching and now >= pair.session_ends_at(self.config.lease):
                self.leases.on_step(SessionStep(pair.name, pair.session, self.config.resends + 1), now)
            if not self.is_member:
                return
            request = pair.request
            if request is not None and now >= request.deadline:
                self.requests.on_step(ArbitrationStep(pair.name, request.number, 0), now)

    # The view of all members.

    def _show(self, seats: Iterable[Seat]) -> None:
        assert self._editor is not None
        changed = []
        for seat in seats:
            gone = self.roster.gone.get(seat.name)
            status = (
                Status.LEFT if gone else Status.FAILED if gone is False
                else Status.SUSPECTED if seat.name in self.spread.lost else Status.ALIVE
            )  # fmt: skip
            shown = self._editor.view.members.get(seat.node)
            if shown is not None and shown.incarnation != seat.life:
                # Of two lives the one that is here, else the later: a clock that was set back makes a lesser number.
                if (shown.present, shown.incarnation) > (gone is None, seat.life):
                    continue
            where = parse_address(seat.address) if seat.address else None
            member = Member(node=seat.node, incarnation=Incarnation(seat.life), status=status, address=where)
            if self._editor.put(member):
                changed.append(seat.node)
        if changed:
            self.out.emit(ViewChanged(self._editor.view, tuple(changed)))
