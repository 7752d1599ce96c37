"""Elections that a store decides: one record, changed by compare-and-swap; at most one leader acts at a time.

The holder of the highest epoch renews its record in the store.  It acts for a lease from the instant at which it
*asked* for the last renewal that the store confirmed, and tells the members, so nobody else asks it meanwhile.
The next leader puts its own record in the place of the very one that it knows: from then on no renewal of the old
leader succeeds.  It acts once a guard is over since it first knew that record.

    WATCHING ──nobody holds it──▶ STANDING ──▶ CLAIMING ──▶ WAITING, a guard ──▶ LEADING
        ◀──────────── another's record, or a claim that failed ──────┴── lease over ──┘

Why never two act: the old leader's last confirmed renewal is the record that was replaced, or an earlier one.  It asked
for it before anybody could know it, so its lease has ended a lease after the claimant first knew it, and the claimant
waits for longer than that, on any clocks within the stated drift.
That needs a store that never loses what it confirmed.  Where a member sees that it did, it says so, and frees nothing:
the leader of the epoch that was lost may still act.

A record counts as nobody's
  - at once, after a resignation or a will of that very term: then nothing is waited for, either;
  - once the group knows that its holder is dead, and a renewal is overdue in the store;
  - once it was not renewed for a guard.
A look at the store prolongs nothing: only a swap does, for a claimant may have known the record for long (decision 61).
An answer may come late or never: no deadline waits for one.
"""

from typing import Any, ClassVar

import msgspec

from doyen.core.clock import FOREVER, Instant, format_duration
from doyen.core.commands import LeaveGroup, Resign
from doyen.core.effects import Out
from doyen.core.ids import TERM_NUMBER_MAX, Incarnation, NodeId, Term
from doyen.core.link import LinkBroken
from doyen.core.machine import Hears, hears
from doyen.core.outside import Answered
from doyen.core.rank import ScoreGiven, ScoreWanted
from doyen.core.view import MembershipView, ViewChanged
from doyen.election.claims import Claimant
from doyen.election.engine import messages as msg
from doyen.election.engine.config import EngineConfig
from doyen.election.engine.messages import Found, Record, Status, ToStore
from doyen.election.engine.rivals import CANDIDATES_MAX, Rivals


class Engine(Claimant):
    """A member; one that does not stand only follows."""

    MESSAGES: ClassVar[Any] = msg.Leads | msg.Stands | msg.Vacated
    FAILS, ANSWERS = msg.StoreFails, msg.StoreAnswers

    def __init__(
        self, me: NodeId, incarnation: Incarnation, config: EngineConfig, out: Out, *, stands: bool = True
    ) -> None:
        super().__init__(me, incarnation, out, stands)
        self.config = config
        self._view: MembershipView | None = None
        self._gone: tuple[NodeId, Incarnation] | None = None  # The process that the kernel of its machine said is gone.
        # The store.
        self._asked: ToStore | None = None  # The last request, while it is still to be answered.
        self.record: Record | None = None  # The record, as last known,
        self._known_since: Instant = FOREVER  # and since when; FOREVER: never.
        self._news_at: Instant = 0  # When something was last heard of the store, from it or from its holder.
        self._heard_at: Instant = -FOREVER  # When its holder was last heard.
        self.vacated: tuple[int, NodeId, Incarnation] | None = None  # The last epoch whose leader said that it stopped,
        self._heir: NodeId | None = None  # and whom it named.
        self._rivals = Rivals()
        self._forgotten = 0  # The highest epoch that the store was seen to have lost.

    # Queries.

    def will(self) -> msg.Vacated | None:
        """Return the message that ends the term led now, for when this process is known to be dead."""
        return msg.Vacated(self.epoch, self.incarnation) if self.leading else None

    @property
    def will_goes_to(self) -> frozenset[NodeId]:
        present = () if self._view is None else self._view.present()
        return frozenset(member.node for member in present if member.node != self.me)

    # Inputs.

    def start(self, now: Instant) -> None:
        self._ask(now)

    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
        self._check_lease(now)
        match message:
            case msg.Leads():
                self._on_leads(sender, message.record, now)
            case msg.Stands():
                self._on_stands(sender, message, now)
            case msg.Vacated():
                self._on_vacated(sender, message, now)

    def on_timer(self, timer: Any, now: Instant) -> None:
        self._check_lease(now)
        match timer:
            case msg.LookIsDue() if timer.number == self._number and self._asked is None:
                self._go_on(now)
            case msg.AnswerIsLate() if timer.number == self._number and self._asked is not None:
                silent = format_duration(self.config.guard(0))
                self._fails(f"the store has not answered for {silent}: see whether its server hangs")
                self._lose_sight(now)
            case msg.ScoreIsLate() if timer.epoch == self.candidacy.epoch and self.status is Status.STANDING:
                self._stand(now)
            case msg.ClaimIsDue() if timer.epoch == self.candidacy.epoch and self.status is Status.STANDING:
                self._claim_or_give_way(timer.again, now)
            case msg.ActingBegins() if timer.epoch == self.epoch and self.status is Status.WAITING:
                self._lead_if_possible(now)
            case msg.LeaseEnds() if timer.number == self._deadline.number:
                self._deadline.is_over(msg.LeaseEnds(timer.number + 1), now, self.out)

    def on_score_given(self, fact: ScoreGiven, now: Instant) -> None:
        self._check_lease(now)
        self.candidacy.score = float(fact.value)
        if self.status is Status.STANDING and fact.number == self.candidacy.epoch:
            self._stand(now)

    def on_view_changed(self, fact: ViewChanged, now: Instant) -> None:
        """Ask the store at once if the group knows that the holder is dead."""
        self._check_lease(now)
        self._view = fact.view
        if self.record is not None and self.record.node in fact.changed:
            self._on_death(now)

    def on_link_broken(self, fact: LinkBroken, now: Instant) -> None:
        """Wait no longer for news of a leader whose process is gone; its guard stays."""
        self._check_lease(now)
        if fact.gone:
            self._gone = (fact.member, fact.incarnation)
            self._on_death(now)

    def resign(self, command: Resign, now: Instant) -> None:
        """Stop acting at once, and say so; the others, or the heir, go first."""
        self._check_lease(now)
        self.check_heir(command.to)
        if self.leading:
            self.candidacy.resign(self.epoch)
            self._lose("resigned")
            self._release(now, command.to)

    def leave(self, now: Instant) -> None:
        """Stop for good."""
        self._check_lease(now)
        if self.status in (Status.WAITING, Status.LEADING):
            self._lose("left")
            self._release(now, None)
        self.status = Status.LEFT

    def on_answered(self, fact: Answered, now: Instant) -> None:
        """Take what the store says, or hear that it failed."""
        self._check_lease(now)
        asked = self._asked
        if fact.number != self._number or asked is None or self.status is Status.LEFT:
            return
        self._asked = None
        if fact.failed:
            self._fails(fact.failed)
            self._lose_sight(now)
            if self.status is Status.CLAIMING:  # Swapped or not: if it was, nobody holds it.
                self._watch_only()
            self._look_at(now + self.config.renew_interval)
            return
        self._answers()
        found = msgspec.msgpack.decode(fact.found, type=Found)
        self._news_at = now
        self._note(found.record, now, asked_at=self._asked_at)
        if self.status in (Status.WAITING, Status.LEADING):
            self._on_renewed(asked, found, now)
        elif self.status is Status.CLAIMING:
            self._on_claimed(found, now)
        else:
            self._watch(now)

    HEARS: ClassVar[Hears] = (
        hears(Answered, on_answered)
        | hears(ScoreGiven, on_score_given)
        | hears(ViewChanged, on_view_changed)
        | hears(LinkBroken, on_link_broken)
        | hears(Resign, resign)
        | hears(LeaveGroup, lambda self, command, now: self.leave(now))
    )

    # The store.

    def _ask(self, now: Instant, wanted: Record | None = None) -> None:
        """Look at the record, or put another in the place of the one that is known."""
        self._number += 1
        self._asked_at = now
        expected = None if wanted is None else self.record
        self._asked = ToStore(number=self._number, wanted=wanted, expected=expected)
        self.out.emit(self._asked)
        self.out.set_timer(msg.AnswerIsLate(self._number), now + self.config.guard(0))

    def _look_at(self, at: Instant) -> None:
        if self._asked is None:
            self._number += 1  # Earlier timers are void.
            self.out.set_timer(msg.LookIsDue(self._number), at)

    def _go_on(self, now: Instant) -> None:
        if self.status in (Status.WAITING, Status.LEADING):
            self._renew(now)
        elif self.status is Status.WATCHING:
            quiet = self._heard_at + self.config.guard(0)
            if now < quiet and not self._holder_is_dead():
                self._look_at(quiet)  # The leader was heard since.
            else:
                self._ask(now)
        elif self.status is Status.STANDING:
            self._ask(now)

    def _lose_sight(self, now: Instant) -> None:
        """Name nobody of whom nothing was heard for a guard."""
        if not self.leading and now - self._news_at >= self.config.guard(0):
            self._renews = False
            self._lose("silent")

    def _note(self, record: Record | None, now: Instant, *, asked_at: Instant) -> None:
        """Remember the record, and since when it is known.  An answer that was asked for before that is older news."""
        if self._known_since == FOREVER or record != self.record:
            older = self.record is not None and (record is None or record.order < self.record.order)
            if older and self._known_since > asked_at:
                return
            self._renews = self._known_since != FOREVER
            self.record, self._known_since = record, now
            epoch = 0 if record is None else record.epoch
            self._epoch_max = max(self._epoch_max, epoch)
            if self.has_gone_back() and self._forgotten < self._epoch_max:
                self._forgotten = self._epoch_max
                self.out.emit(msg.StoreForgets(self._epoch_max, epoch))

    def has_gone_back(self) -> bool:
        """Return whether the store lost an epoch that it had confirmed: its leader may still act."""
        return (0 if self.record is None else self.record.epoch) < self._epoch_max

    def _is_mine(self) -> bool:
        """Return whether the record is of the epoch that this incarnation claimed last."""
        record, mine = self.record, (self.epoch, self.me, self.incarnation)
        return record is not None and (record.epoch, record.node, record.incarnation) == mine

    def is_vacated(self) -> bool:
        """Return whether the holder of the record has said that it stopped: by a resignation, or by its will."""
        record = self.record
        return record is not None and self.vacated == (record.epoch, record.node, record.incarnation)

    def _holder_is_dead(self) -> bool:
        """Return whether the group knows that the holder of the record is dead."""
        record = self.record
        if record is None or self._is_mine():
            return False
        if record.node == self.me or self._gone == (record.node, record.incarnation):
            return True
        if self._view is None or record.node not in self._view:
            return False
        member = self._view[record.node]
        return not member.present or member.incarnation > record.incarnation

    # Following.

    def _on_leads(self, sender: NodeId, record: Record, now: Instant) -> None:
        """Learn of a renewal without asking the store."""
        known = self.record
        if record.node != sender or (known is not None and record.order <= known.order) or self._known_since == FOREVER:
            return
        if record.epoch > self._epoch_max + CANDIDATES_MAX or self.status is Status.LEFT:
            return  # Only the store may say so.
        if self.status in (Status.WAITING, Status.LEADING) and self._is_mine():
            return  # The store will say so, if it is true: a lease is not ended by hearsay.
        self._note(record, now, asked_at=now)
        self._news_at = self._heard_at = now
        if self.status is Status.STANDING:
            self._watch_only()
        if self.status is Status.WATCHING:
            self._follow(now)

    def _follow(self, now: Instant) -> None:
        """Name the holder, if it acts, and look again when it has been silent for a guard."""
        record = self.record
        assert record is not None
        if record.phase == "acting" and self._renews and record.node != self.me:  # Else it is an earlier life's.
            self._name(Term(record.epoch, record.node))
        elif self.term is not None and record.epoch > self.term.number:
            self._lose("silent")
        if self._asked is None:
            self._look_at(now + self.config.guard(0))

    def _on_vacated(self, sender: NodeId, message: msg.Vacated, now: Instant) -> None:
        if self.vacated is not None and message.epoch <= self.vacated[0]:
            return
        self.vacated, self._heir = (message.epoch, sender, message.incarnation), message.heir
        if self.is_vacated() and self.status is Status.WATCHING:
            self._watch(now)

    def _on_death(self, now: Instant) -> None:
        if self.status is Status.WATCHING and self._holder_is_dead() and self._asked is None:
            self._look_at(max(now, self._known_since + self.config.overdue))

    def _on_stands(self, sender: NodeId, message: msg.Stands, now: Instant) -> None:
        self._rivals.note(message.epoch, sender, message.standing)
        self._claim_if_all_stand(now)
        if self.status is Status.WATCHING and self._asked is None and message.epoch == self._epoch_max + 1:
            self._ask(now)  # It knows something that this member does not.

    def _watch(self, now: Instant) -> None:
        record = self.record
        if not self.is_vacant(now):
            assert record is not None
            self._watch_only()
            if now - self._known_since < self.config.overdue or record.phase != "acting":
                self._follow(now)
            elif self.term is None or self.term.number != record.epoch:
                self._lose("silent")  # It may be dead: it is named once it renews.
            wait = self.config.overdue if self._holder_is_dead() else self.config.guard(record.lease)
            self._look_at(max(now + self.config.stand_time, self._known_since + wait))
            return
        released = record is not None and (record.phase == "released" or self.is_vacated())
        self._lose("resigned" if released else "silent")
        if not self.stands or self._epoch_max >= TERM_NUMBER_MAX:
            self._look_at(now + self.config.guard(0))
        elif self.status is not Status.STANDING or self.candidacy.epoch != self._epoch_max + 1:
            self._seek(self._epoch_max + 1, now)
        else:
            self._claim_if_all_stand(now)

    def is_vacant(self, now: Instant) -> bool:
        """Return whether nobody holds the record."""
        record = self.record
        if record is None or record.phase == "released" or self._is_mine() or self.is_vacated():
            return True
        known_for = self._asked_at - self._known_since  # By an answer that was asked for then.
        return known_for >= (self.config.overdue if self._holder_is_dead() else self.config.guard(record.lease))

    # Standing and claiming.

    def _seek(self, epoch: int, now: Instant) -> None:
        record = self.record
        self.candidacy.begin(epoch)
        self.status = Status.STANDING
        heir = self._heir if self.is_vacated() else None if record is None else record.heir
        if heir == self.me:
            self._claim(now)
            return
        goes_last = heir is not None or self.candidacy.goes_last
        self.out.set_timer(msg.ClaimIsDue(epoch, False), now + self.config.stand_time * (3 if goes_last else 1))
        self.out.emit(ScoreWanted(epoch))
        self.out.set_timer(msg.ScoreIsLate(epoch), now + self.config.stand_time // 2)

    def _stand(self, now: Instant) -> None:
        """Tell the other candidates of this one, once its score is known."""
        if not self.candidacy.is_announced:
            self.candidacy.is_announced = True
            self.out.multicast(msg.Stands(self.candidacy.epoch, self.candidacy.standing))
            self._claim_if_all_stand(now)

    def _claim_if_all_stand(self, now: Instant) -> None:
        """Wait no longer, after a resignation or a will without an heir, once every other member present stands."""
        may = self.status is Status.STANDING and self.candidacy.is_announced and self._asked is None
        if may and self.vacated is not None and self.is_vacated() and self._heir is None:
            others, rivals = self.will_goes_to - {self.vacated[1]}, self._rivals.of(self.candidacy.epoch)
            if others <= rivals.keys() and not self.candidacy.is_outvied(rivals.items()):
                self._claim(now)

    def _claim_or_give_way(self, again: bool, now: Instant) -> None:
        epoch = self.candidacy.epoch
        if self.candidacy.is_outvied(self._rivals.of(epoch).items()) and not again:
            self.out.set_timer(msg.ClaimIsDue(epoch, True), now + 2 * self.config.stand_time)
        elif self._asked is None:
            self._claim(now)
        else:  # The store is slow.
            self.out.set_timer(msg.ClaimIsDue(epoch, True), now + self.config.stand_time)

    def _claim(self, now: Instant) -> None:
        record = self.record
        # Not after this member's own epoch in which it never acted: an earlier leader may not have stopped yet.
        own = self._is_mine() and self._has_acted
        freed = own or self.is_vacated() or (record is not None and record.phase == "released" and record.free)
        self._free = freed and not self.has_gone_back()
        lease = self.config.lease if self._free or record is None else max(self.config.lease, record.lease)
        self._acts_at = self.acts_from(now)
        self.outvied = tuple(sorted(self._rivals.of(self.candidacy.epoch)))
        self.status, self.epoch, self._has_acted = Status.CLAIMING, self._epoch_max + 1, False
        self._serial = 0
        self._ask(now, self._written("claimed", lease))

    def acts_from(self, now: Instant) -> Instant:
        """Return from when on no earlier leader can act, if the record that is known now is replaced."""
        if self._free:
            return now
        return self._known_since + self.config.guard(0 if self.record is None else self.record.lease)

    def _written(self, phase: msg.Phase, lease: int, heir: NodeId | None = None) -> Record:
        return Record(
            epoch=self.epoch,
            node=self.me,
            incarnation=self.incarnation,
            serial=self._serial,
            phase=phase,
            lease=lease,
            free=self._has_acted,
            heir=heir,
        )

    def _on_claimed(self, found: Found, now: Instant) -> None:
        if not (found.swapped and self._is_mine()):
            self._watch_only()
            self._watch(now)
            return
        self.status, self.candidacy.epoch = Status.WAITING, 0
        self._lease_end = self._asked_at + self.config.lease
        self.out.emit(msg.EpochClaimed(self.epoch, self.outvied))
        assert found.record is not None
        self.out.multicast(msg.Leads(found.record))  # The other candidates wait no longer.
        if now < self._acts_at:
            self.out.set_timer(msg.ActingBegins(self.epoch), self._acts_at)
        self._look_at(max(now, self._asked_at + self.config.renew_interval))
        self._lead_if_possible(now)

    # Holding.

    def _renew(self, now: Instant) -> None:
        assert self.record is not None and self._is_mine()
        self._serial = max(self._serial, self.record.serial) + 1
        lease = self.config.lease if self.leading else self.record.lease
        self._ask(now, self._written("acting" if self.leading else "claimed", lease))

    def _release(self, now: Instant, heir: NodeId | None) -> None:
        """Say that this member has stopped: to the members, and in the store."""
        self._watch_only()
        if self._has_acted:
            self.out.multicast(msg.Vacated(self.epoch, self.incarnation, heir))
        if self.record is not None and self._is_mine():
            self._serial = max(self._serial, self.record.serial) + 1
            self._ask(now, self._written("released", self.record.lease, heir))

    def _on_renewed(self, asked: ToStore, found: Found, now: Instant) -> None:
        """Count the lease from when the store was asked for the swap that it confirmed."""
        if not self._is_mine():
            was_leading = self.leading
            self.status = Status.WATCHING
            if was_leading:
                self._lose("outranked")
            self._watch(now)
            return
        if not found.swapped:  # An earlier swap, whose answer was lost, has come first.
            self._renew(now)
            return
        self._lease_end = self.lease_after(asked, now)
        assert found.record is not None
        self.out.multicast(msg.Leads(found.record))
        if self.leading:
            self._hold()
        self._look_at(max(now, self._asked_at + self.config.renew_interval))
        if self.status is Status.WAITING:
            self._lead_if_possible(now)

    def lease_after(self, asked: ToStore, now: Instant) -> Instant:
        """Return the end of the lease after a renewal that the store has just confirmed."""
        return self._asked_at + self.config.lease

    def _lead_if_possible(self, now: Instant) -> None:
        if self._acts_at <= now < self._lease_end:
            self._act()
            if self._asked is None:
                self._renew(now)  # The others learn that it acts.

    def _check_lease(self, now: Instant) -> None:
        """Before any input: end a reign whose lease is over, however late the timer."""
        if self.leading and not self.leads(now):
            self._lose("lease over")
            self._watch_only()
            if self._asked is None:
                self._ask(now)
