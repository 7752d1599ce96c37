"""Membership by leases and arbitration on a ring.  [ARB]

Neighbours watch each other by leases; a lease that expires is arbitrated, at once, by the pair's own group (or by a
central one); a majority decides, and without one the asker leaves.  So two living members never stay in disagreement
about who is dead for longer than 2·T_l + T_a; after that wait (Corollary 3) a survivor may act in the other's stead.

Both modes of the paper's protocol are configurations of this machine (`config.py`).  What carries the theorems is the
neighbourhood alone; the full member list spreads on the leases and may be behind.

The machine routes inputs to its parts, and does what their answers ask for: suspect, join, leave.

Deviation: what the paper leaves open is ours: repair after failures, release of displaced neighbours
(`neighbourhood.py`), waits between joins (`join.py`), the list of all members (`spread.py`).
"""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, ClassVar

from doyen.core.clock import Duration, Instant
from doyen.core.commands import LeaveGroup
from doyen.core.effects import Out
from doyen.core.ids import Address, NodeId
from doyen.core.kinds import Membership
from doyen.core.machine import Hears, hears
from doyen.core.seeds import OwnAddressChanged
from doyen.membership.ring import messages as msg
from doyen.membership.ring.admission import Admission
from doyen.membership.ring.arbitrator import Arbitrator
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import Name, Roster, Seat, Seats, to
from doyen.membership.ring.join import SECOND_LEASES, Joiner
from doyen.membership.ring.lease import Leases
from doyen.membership.ring.listing import Listing
from doyen.membership.ring.messages import Dropped, NewsKind, Why
from doyen.membership.ring.neighbourhood import PROBE_LEASES, Founding, Neighbourhood, founding
from doyen.membership.ring.pair import Electorate, Pair, Stage
from doyen.membership.ring.request import Requests
from doyen.membership.ring.spread import Spread
from doyen.membership.ring.upgrade import Outcome, Upgrades
from doyen.membership.ring.view import RosterView


class Arbitration(Membership):
    """One member.  With `founding` it is there from the start; otherwise it joins through its contacts."""

    MESSAGES: ClassVar[Any] = msg.Messages

    # The parts that a deliberately broken variant replaces.
    ARBITRATOR: ClassVar[type[Arbitrator]] = Arbitrator
    ELECTORATE: ClassVar[type[Electorate]] = Electorate
    ADMISSION: ClassVar[type[Admission]] = Admission

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
        grace: Duration = 0,  # How much later founders begin to watch, where they start one after another.
        view: bool = True,  # Whether to keep a view of all members; large simulations do without.
    ) -> None:
        self.config, self._out, self._rng = config, out, rng
        self.central: Seats = frozenset(central)
        self._founding, self._grace = founding, grace
        self._heard_at: Instant = 0  # The last input: a long gap means that this node slept.
        self._left_for_good = self._forced_for_good = False
        self._farewell: tuple[msg.Leave, list[NodeId | Address]] = (msg.Leave(seat), [])
        seats = founding.seats if founding is not None else ()
        self._spread = spread = Spread(Roster(seats), is_whole=founding is not None)
        self._arbitrator = self.ARBITRATOR(config)
        electorate = self.ELECTORATE(config, spread.gone_at)
        self._requests = Requests(config, self._arbitrator, electorate, self.central)
        self._upgrades = Upgrades(config, rng, self._arbitrator, electorate)
        self._leases = Leases(config, rng, spread)
        self._admission = self.ADMISSION(config, spread)
        upgrades = None if self.central else self._upgrades
        shown = RosterView(spread.roster, spread.lost) if view else None
        self._place = Neighbourhood(seat, config, spread, self._leases, upgrades, self._admission, shown)
        self.pairs = self._place.pairs
        self._listing = Listing(config, spread, self._place)
        self._joiner = Joiner(config, rng, self._leases, self._place, self._listing)
        self._joiner.contacts += contacts

    # Queries.

    @property
    def seat(self) -> Seat:
        return self._place.seat

    @property
    def is_member(self) -> bool:
        return self._place.is_member

    @property
    def is_joining(self) -> bool:
        return self._joiner.under_way

    @property
    def neighbours(self) -> Seats:
        """Return N_P: the members that this one watches in earnest."""
        return self._place.current.members

    @property
    def desired(self) -> Seats:
        """Return the members that this one ought to watch, by the list that it knows."""
        return self._place.desired()

    @property
    def roster(self) -> Roster:
        return self._spread.roster

    @property
    def lost(self) -> frozenset[Name]:
        """Return the members that are out of reach, as far as members next to a gap can tell."""
        return frozenset(self._spread.lost)

    def round_trip(self, node: NodeId) -> Duration | None:
        trips = (pair.round_trip for pair in self.pairs.values() if pair.seat.node == node)
        return next((int(trip) for trip in trips if trip is not None), None)

    # Inputs.

    def start(self, now: Instant) -> None:
        self._heard_at = now
        if self._founding is None:
            self._joiner.begin(now, self._out)
            return
        if not self._joiner.contacts:
            self._joiner.contacts = [to(seat) for seat in self._founding.seats if seat.name != self.seat.name]
        self._place.found(self._founding, self._grace, now, self._out)

    def on_message(self, sender: NodeId, message: msg.Messages, now: Instant) -> None:
        if now - self._heard_at > self.config.lease:
            self._catch_up(now)
        self._heard_at = now
        if type(message) is msg.LeaseRequest:
            if message.to == self._place.seat.incarnation and not self._left_for_good:
                self._on_lease_request(sender, message, now)
            elif self._says_that_it_left:
                self._out.send(sender, msg.Leave(Seat(self.seat.point, self.seat.node, message.to)))
        elif type(message) is msg.LeaseAck:
            if message.to == self._place.seat.incarnation:
                self._on_lease_ack(sender, message, now)
        else:
            self._on_rare(sender, message, now)

    def _on_rare(self, sender: NodeId, message: msg.Messages, now: Instant) -> None:
        place, me, out = self._place, self._place.seat, self._out
        match message:
            case msg.Leave():
                self._learn(msg.News(NewsKind.LEFT, message.seat), now)
            case msg.Discover():
                if place.is_member:
                    self._admission.on_discover(message, me, place.current, self.pairs, now, out)
            case msg.Discovered():
                self._joiner.on_discovered(message, now, out)
            case msg.Lock():
                if place.is_member and message.to == me.incarnation:
                    self._admission.on_lock(sender, message, me, place.current, now, out)
            case msg.Locked():
                self._joiner.on_locked(sender, message, now, out)
            case msg.Unlock():
                self._on_unlock(message)
            case _ if message.to != me.incarnation or self._left_for_good:
                return
            case msg.Arb():
                if self._may_vote:
                    out.send(sender, self._arbitrator.vote(sender, message, me, now))
            case msg.Vote():
                decided = self._requests.on_vote(sender, message, self.pairs.values(), me, now, out)
                if decided is not None:
                    self._decide(decided, now)
            case msg.Propose():
                if self._may_vote:
                    out.send(sender, self._arbitrator.reply(sender, message, me, now))
            case msg.Withdraw():
                self._arbitrator.withdraw((sender, message.incarnation), message.peer.name, message.version)
            case msg.ProposeReply():
                for pair in self._upgrades.on_reply(sender, message, self.pairs.values(), now):
                    self._decide_upgrade(pair, now)
            case msg.ArbUpgrd():
                upgraded = self.pairs.get((sender, message.incarnation))
                if upgraded is not None and upgraded.watching:
                    self.reflect(upgraded, message.version, message.members)
            case msg.Release():
                place.on_release(sender, message, now, out)
            case msg.Released():
                self._on_released(sender, message, now)
            case msg.RosterWanted():
                out.send(sender, self._spread.part(message, me))
            case msg.RosterPart():
                self._listing.on_part(sender, message, now, out)
                for line in message.reigns:
                    if line.kind is NewsKind.REIGN:
                        self._learn(line, now)

    def on_timer(self, timer: Any, now: Instant) -> None:
        if now - self._heard_at > self.config.lease:
            self._catch_up(now)
        self._heard_at = now
        if type(timer) is msg.SessionAdvances:
            self._advance_session(timer, now)
            return
        place, out = self._place, self._out
        match timer:
            case msg.ArbitrationAdvances():
                self._advance_arbitration(timer, now)
            case msg.RecoveryStarts():
                self._recover(timer, now)
            case msg.UpgradeBegins():
                if timer.name in self.pairs and self.pairs[timer.name].upgrade_at >= 0:
                    self._upgrades.begin(self.pairs.values(), place.current, place.seat, now, out)
            case msg.ProposalAdvances():
                pair = self.pairs.get(timer.name)
                if pair is not None and self._upgrades.is_over(pair, timer, place.seat, now, out):
                    self._decide_upgrade(pair, now)
            case msg.JoinAdvances():
                self._joiner.on_step(timer, now, out)
            case msg.ListIsAwaited():
                self._listing.on_awaited(timer, now, out)
            case msg.ReconciliationRepeats():
                place.on_reconciliation_repeats(timer, now, out)
            case msg.LeaveIsAnnounced():
                leave, receivers = self._farewell
                for receiver in receivers:
                    out.send(receiver, leave)

    def on_reign_began(self, fact: msg.ReignBegan, now: Instant) -> None:
        self._learn(msg.News(NewsKind.REIGN, self.seat, fact.number, fact.key), now)

    def leave(self, now: Instant) -> None:
        """Leave for good, by command, and announce it, so that nobody has to find out."""
        if self.is_member:
            self._depart("asked", now, "by command", announced=self.config.announced)
        self._left_for_good = True
        self._joiner.stop(self._out)

    def on_own_address_changed(self, fact: OwnAddressChanged, now: Instant) -> None:
        """Leave, and come back at the new address: a seat has one, and others would look for it at the old one.

        Where this node may not come back it stays; members that hear it know where it is.
        """
        place, out, address = self._place, self._out, str(fact.address)
        if self._left_for_good or not self.config.rejoin or place.seat.address in ("", address):
            return
        if not self.is_member:
            place.take_new_identity(out, address)
            self._joiner.fail(now, out)
        elif any(seat.name != place.seat.name for seat in self.roster):
            self._depart("moved", now, announced=self.config.announced)  # Of its own accord, as by command.
            self._come_back(now, address)
        else:  # Nobody knows the ring but this node.
            place.take_new_identity(out, address)
            self.roster.add(place.seat)
            place.found(founding([place.seat], self.config.neighbours), 0, now, out)

    HEARS: ClassVar[Hears] = (
        hears(msg.ReignBegan, on_reign_began)
        | hears(OwnAddressChanged, on_own_address_changed)
        | hears(LeaveGroup, lambda self, command, now: self.leave(now))
    )

    # Leases.

    def _advance_session(self, timer: msg.SessionAdvances, now: Instant) -> None:
        pair = self.pairs.get(timer.name)
        if pair is None or pair.session != timer.session or pair.suspected_at is not None:
            return
        ends_at = pair.started_at + self.config.lease
        if now < ends_at:
            self._leases.repeat(pair, timer.step, self._place.seat, now, self._out)
        elif not pair.established:
            self._suspect(pair, ends_at, now)
        elif pair.first_of_join:
            self._joiner.on_first_session_over(now, self._out)
        elif not self._leases.begin(pair, ends_at, self._place.seat, now, self._out):
            self._suspect(pair, ends_at + self.config.lease, now)

    def _on_lease_request(self, sender: NodeId, message: msg.LeaseRequest, now: Instant) -> None:
        place, out = self._place, self._out
        pair = self.pairs.get((sender, message.incarnation))
        if message.seat is not None and pair is not None and pair.release and pair.watching:
            place.remove(pair)  # It has let go, as this node asked, and begins anew.
            pair = None
        if message.seat is not None and (pair is None or pair.stage is not Stage.ACTIVE):
            pair = place.on_invitation(pair, message, now, out)
            if pair is None:
                return
        elif pair is None or (pair.stage is Stage.DORMANT and pair.theirs is None and message.session > 1):
            # Of a pair that was let go, not of one that this node asks for: an ack would be taken for its own.
            place.refuse(sender, message.incarnation, out)
            return
        if not self.may_ack(pair):
            return
        if message.said is not None:
            self._read(pair, message.said, now)
        if message.knows > pair.confirmed:
            pair.confirmed = message.knows
        if self.pairs.get(pair.name) is not pair:
            return  # What it said ended the pair.
        self._leases.ack(pair, sender, message, place.seat, out)
        if pair.stage is Stage.DORMANT and not pair.initiator and message.session >= 2:
            place.become_active(pair, now, out)

    def may_ack(self, pair: Pair) -> bool:
        """Return whether to ack a request of the other: never once this side's own lease has expired.  [ARB Rule 1]"""
        return pair.suspected_at is None

    def _on_lease_ack(self, sender: NodeId, message: msg.LeaseAck, now: Instant) -> None:
        pair = self.pairs.get((sender, message.incarnation))
        if pair is None or pair.suspected_at is not None:
            return
        if message.said is not None:
            self._read(pair, message.said, now)
        if message.knows > pair.confirmed:
            pair.confirmed = message.knows
        if not self._leases.establish(pair, message, now):
            return
        took = now - pair.sent_at
        reason = self._leases.refuse(took) if took >= self.config.arbitration else None
        if reason is not None:
            self._left_for_good = True
            self._depart("refused", now, reason, announced=self.config.announced)
        if pair.release and 0 < pair.keep_from <= pair.session:
            self._place.keep(pair, now, self._out)
        if pair.stage is Stage.COMMITTED:
            if pair.join:
                self._joiner.on_second_ack(pair, now, self._out)
            else:
                self._place.become_active(pair, now, self._out)

    def _read(self, pair: Pair, said: msg.Said, now: Instant) -> None:
        """Take in what rides on a lease message."""
        if said.members is not None:
            self.reflect(pair, said.version, said.members)
        for line in self._spread.read(pair, said):
            self._learn(line, now)

    def reflect(self, pair: Pair, version: int, members: tuple[Seat, ...]) -> None:
        """Take N_Q as Q said it."""
        if pair.reflect(version, members):
            self._out.emit(msg.Reflected(pair.seat, version))

    def _on_released(self, sender: NodeId, message: msg.Released, now: Instant) -> None:
        pair = self.pairs.get((sender, message.incarnation))
        if pair is not None and not pair.certain:
            self._on_ended(pair, "released", now, retry_at=now + self.config.lease)
            self._place.reconcile(now, self._out)

    def _on_ended(self, pair: Pair, why: Dropped, now: Instant, *, retry_at: Instant | None = None) -> None:
        """Drop a pair that the other has ended, or the whole attempt, if this node joins."""
        if pair.join and self.is_joining:
            self._joiner.fail(now, self._out)
        else:
            self._place.drop(pair, why, self._out, retry_at=retry_at)

    def _catch_up(self, now: Instant) -> None:
        """Notice on waking what expired in this node's sleep, before it answers anybody."""
        lease = self.config.lease
        for pair in list(self.pairs.values()):
            if pair.watching and now >= pair.session_ends_at(lease):
                self._advance_session(msg.SessionAdvances(pair.name, pair.session, self.config.resends + 1), now)
            if not self.is_member:
                return
            request = pair.request
            if request is not None and now >= request.deadline:
                self._advance_arbitration(msg.ArbitrationAdvances(pair.name, request.number, 0), now)

    # Suspicion and upgrades.

    def _suspect(self, pair: Pair, at: Instant, now: Instant) -> None:
        """Act on a lease that expired at `at`."""
        place, out = self._place, self._out
        if pair.first_of_join or (pair.join and pair.stage is not Stage.DORMANT and self.is_joining):
            self._joiner.fail(now, self._out)
        elif pair.stage is not Stage.DORMANT:
            if not self._requests.open(pair, at, place.seat, now, out):
                self._leave_forced("asleep", now)  # The members that watch it have had their verdict.
        else:
            wait = self.config.lease * (PROBE_LEASES if pair.name in self._spread.lost else 1)
            place.drop(pair, "dormant", out, retry_at=now + wait if pair.initiator else None)
            line = self._spread.reach(pair.seat, lost=True) if pair.initiator and pair.theirs is None else None
            if line is not None:
                self._learn(line, now)
            place.reconcile(now, out)

    def _advance_arbitration(self, timer: msg.ArbitrationAdvances, now: Instant) -> None:
        pair = self.pairs.get(timer.name)
        if pair is not None and self._requests.is_over(pair, timer, self.seat, now, self._out):
            self._decide(pair, now)

    def _decide(self, pair: Pair, now: Instant) -> None:
        short = self._requests.decide(pair, now, self._out)
        if short is not None:
            self._leave_forced(short.why, now, short.detail, short.group)
        elif not pair.condemned:
            self._place.drop(pair, "uncertain", self._out, retry_at=now + self.config.recent)
            self._place.reconcile(now, self._out)

    def _recover(self, timer: msg.RecoveryStarts, now: Instant) -> None:
        """Act on the end of the wait: the condemned has left, wherever it was.  [ARB Cor. 3]"""
        pair = self.pairs.get(timer.name)
        if pair is not None and pair.condemned:
            self._place.remove(pair)
            self._out.emit(msg.RecoveryStarted(pair.seat))
            self._learn(msg.News(NewsKind.DEAD, pair.seat), now)
            self._place.reconcile(now, self._out)

    def _decide_upgrade(self, pair: Pair, now: Instant) -> None:
        outcome = self._upgrades.decide(pair, self._place.current, self.seat, now, self._out)
        if outcome is Outcome.SILENT:
            self._leave_forced("upgrade", now)
        elif outcome is Outcome.ABORTED:
            self._place.renumber()

    @property
    def _may_vote(self) -> bool:
        return self.is_member or self._joiner.phase == SECOND_LEASES

    # The member list.

    def _learn(self, line: msg.News, now: Instant) -> None:
        """Take a line from anybody or from this node itself, and act on it if it is news."""
        place = self._place
        if line.kind is NewsKind.DEAD and line.seat.name == place.seat.name:
            self._leave_forced("told", now)
            return
        if not self._spread.learn(line, place.seat.name, now):
            return
        if line.kind is NewsKind.REIGN:
            self._out.emit(msg.ReignHeard(line.key, line.number, line.seat))
            return
        if line.kind is NewsKind.LEFT and line.seat.name in self.pairs:
            self._on_ended(self.pairs[line.seat.name], "left", now)
        place.show_node(line.seat, self._out)
        if line.kind is NewsKind.LOST and self._is_in_minority:
            self._leave_forced("minority", now)
        else:
            place.reconcile(now, self._out)

    @property
    def _is_in_minority(self) -> bool:
        if self.config.partition != "majority" or not self._spread.is_whole:
            return False
        return 2 * (len(self.roster) - len(self._spread.lost)) <= self.config.expected_size

    def _on_unlock(self, message: msg.Unlock) -> None:
        self._admission.unlock(message.joiner.name, message.attempt)
        pair = self.pairs.get(message.joiner.name)
        if pair is not None and pair.stage is Stage.DORMANT and not pair.initiator:
            self._place.remove(pair)

    # Leaving.

    def _leave_forced(self, why: Why, now: Instant, detail: str = "", group: Seats = frozenset()) -> None:
        """Leave for the consistency of the others, and come back as somebody else.  [ARB §III.4]"""
        if not self.is_member:
            return
        # As printed it goes silently.  Said aloud, those left behind need no majority over it: a partition splits.
        self._depart(why, now, detail, group, announced=self._announces_force)
        if self.config.rejoin and not self._left_for_good:
            self._come_back(now)
        else:
            self._left_for_good = self._forced_for_good = True

    def _come_back(self, now: Instant, address: str | None = None) -> None:
        """Begin to join as the next incarnation, elsewhere if an address is given."""
        joiner = self._joiner
        joiner.contacts = list(dict.fromkeys([*joiner.contacts, *(to(seat) for seat in self.roster)]))
        self._place.take_new_identity(self._out, address)
        joiner.begin(now, self._out, wait=int((1 + self._rng.random()) * self.config.recent))

    def _depart(self, why: Why, now: Instant, detail: str = "", group: Seats = frozenset(), *, announced: bool) -> None:
        self._place.is_member = False
        if announced:
            self._farewell = msg.Leave(self.seat), [pair.to for pair in self.pairs.values()]
            # After this step: the other machines of this node are notified first.
            self._out.set_timer(msg.LeaveIsAnnounced(self.seat.incarnation), now)
        self.pairs.clear()
        self._out.emit(msg.LeftRing(self.seat, why, detail, tuple(sorted(group))))

    @property
    def _announces_force(self) -> bool:
        return self.config.announced and self.config.partition != "collapse"

    @property
    def _says_that_it_left(self) -> bool:
        """Return whether to answer a request to an incarnation that has left."""
        return self._announces_force or (self._left_for_good and not self._forced_for_good and self.config.announced)
