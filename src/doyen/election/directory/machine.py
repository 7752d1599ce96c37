"""Elections by a directory that all members reach: at most one leader acts at a time, and nobody votes.

An epoch is claimed by making its file, which succeeds once.  Who claims has first seen no renewal of the last epoch for
a guard, by its own clock, and then waits another guard before it acts.  Who holds an epoch renews it, and looks for
higher ones each time; it acts for a lease from the instant at which it *began* the last look that found none.

    WATCHING ──no renewal for a guard──▶ STANDING ──▶ CLAIMING ──▶ WAITING, a guard ──▶ LEADING
        ◀──────────── a higher epoch, or a claim that failed ──────────┴──── lease over ────┘

Why never two act: the holder's last look that found no higher epoch began before the claim was made, so its lease has
ended one lease after the claim, and the claimant waits for longer than that, on any clocks within the stated drift.
That needs a directory in which a file that was made is seen by every later look, on every host (decision 60).

The two waits are left out after a leader that acted has written that it stopped.
An answer may come late or never: no deadline waits for one, and a late one prolongs nothing.
"""

from typing import Any, ClassVar

import msgspec

from doyen.core.clock import FOREVER, Duration, Instant, format_duration
from doyen.core.commands import LeaveGroup, Resign
from doyen.core.effects import Out
from doyen.core.ids import TERM_NUMBER_MAX, Incarnation, NodeId, Term
from doyen.core.link import LinkBroken
from doyen.core.machine import Hears, Nothing, hears
from doyen.core.outside import Answered
from doyen.core.rank import ScoreGiven, ScoreWanted
from doyen.election.claims import Claimant
from doyen.election.directory import messages as msg
from doyen.election.directory.config import DirectoryConfig
from doyen.election.directory.messages import Found, Status, ToDirectory, Top


class Directory(Claimant):
    """A member; one that does not stand only follows."""

    MESSAGES: ClassVar[Any] = Nothing
    FAILS, ANSWERS = msg.DirectoryFails, msg.DirectoryAnswers

    def __init__(
        self, me: NodeId, incarnation: Incarnation, config: DirectoryConfig, out: Out, *, stands: bool = True
    ) -> None:
        super().__init__(me, incarnation, out, stands)
        self.config = config
        # The directory.
        self._pending = False
        self._seen_at: Instant = 0  # When the last look was asked for that was answered.
        self._odd: tuple[str, ...] = ()
        self.top: Top | None = None  # The highest epoch, at the last look,
        self._unchanged_since: Instant = FOREVER  # and since when it was not renewed; FOREVER: never looked.
        # A candidacy.
        self._claim_at: Instant = 0  # When this member claims the epoch that it stands for,
        self._gave_way = False  # and whether it has waited for a better candidate.
        self._claim_lease: Duration = 0

    # Queries.

    # Inputs.

    def start(self, now: Instant) -> None:
        self._ask(now, "look")

    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
        """Members send each other nothing."""

    def on_timer(self, timer: Any, now: Instant) -> None:
        self._check_lease(now)
        match timer:
            case msg.LookIsDue() if timer.number == self._number and not self._pending:
                self._go_on(now)
            case msg.AnswerIsLate() if timer.number == self._number and self._pending:
                silent = format_duration(self.config.guard(0))
                self._fails(f"the directory has not answered for {silent}: see whether its disk or server hangs")
                self._lose_sight(now)
            case msg.ScoreIsLate() if timer.epoch == self.candidacy.epoch and self.status is Status.STANDING:
                self._stand(now)
            case msg.LeaseEnds() if timer.number == self._deadline.number:
                self._deadline.is_over(msg.LeaseEnds(timer.number + 1), now, self.out)

    def on_score_given(self, fact: ScoreGiven, now: Instant) -> None:
        self._check_lease(now)
        self.candidacy.score = float(fact.value)
        if self.status is Status.STANDING and fact.number == self.candidacy.epoch:
            self._stand(now)

    def on_link_broken(self, fact: LinkBroken, now: Instant) -> None:
        """Wait no longer for renewals of a leader whose process is gone; the wait after the claim stays."""
        self._check_lease(now)
        if fact.gone and fact.member == self.named != self.me and self.status is Status.WATCHING:
            self._unchanged_since = -FOREVER
            if not self._pending:
                self._ask(now, "look")

    def resign(self, command: Resign, now: Instant) -> None:
        """Stop acting at once, and say so; the others, or the heir, go first."""
        self._check_lease(now)
        self.check_heir(command.to)
        if self.status is Status.LEADING:
            self.candidacy.resign(self.epoch)
            self._stop_leading("resigned")
            self._release(now, command.to)

    def leave(self, now: Instant) -> None:
        """Stop for good."""
        self._check_lease(now)
        holds = self.status in (Status.WAITING, Status.LEADING)
        if self.status is Status.LEADING:
            self._stop_leading("left")
        if holds:
            self._release(now, None)
        self.status = Status.LEFT

    def on_answered(self, fact: Answered, now: Instant) -> None:
        """Take what a look found, or hear that it failed."""
        self._check_lease(now)
        if fact.number != self._number or not self._pending or self.status is Status.LEFT:
            return
        self._pending = False
        if fact.failed:
            self._fails(fact.failed)
            self._lose_sight(now)
            if self.status is Status.CLAIMING:  # Made or not: if it was, nobody holds it.
                self.status = Status.WATCHING
            self._look_at(now + self.config.renew_interval)
            return
        found = msgspec.msgpack.decode(fact.found, type=Found)
        self._on_found(found, now)

    HEARS: ClassVar[Hears] = (
        hears(Answered, on_answered)
        | hears(ScoreGiven, on_score_given)
        | hears(LinkBroken, on_link_broken)
        | hears(Resign, resign)
        | hears(LeaveGroup, lambda self, command, now: self.leave(now))
    )

    # Looking.

    def _ask(self, now: Instant, do: Any, **fields: Any) -> None:
        self._number += 1
        self._asked_at, self._pending = now, True
        self.out.emit(ToDirectory(number=self._number, do=do, **fields))
        self.out.set_timer(msg.AnswerIsLate(self._number), now + self.config.guard(0))

    def _look_at(self, at: Instant) -> None:
        self.out.set_timer(msg.LookIsDue(self._number), at)

    def _go_on(self, now: Instant) -> None:
        if self.status in (Status.WAITING, Status.LEADING):
            self._renew(now)
        elif self.status is not Status.LEFT:
            self._ask(now, "look")

    def _lose_sight(self, now: Instant) -> None:
        """Name nobody whom this member has not seen for a guard."""
        if self.status is not Status.LEADING and now - self._seen_at >= self.config.guard(0):
            self._renews = False
            self._lose("silent")

    def _on_found(self, found: Found, now: Instant) -> None:
        self._seen_at = self._asked_at
        self._answers()
        if found.odd != self._odd:
            self._odd = found.odd
            if found.odd:
                self.out.emit(msg.OddFiles(found.odd))
        self._note(found.top, now)
        match self.status:
            case Status.WAITING | Status.LEADING:
                self._on_renewed(now)
            case Status.CLAIMING:
                self._on_claimed(found, now)
            case Status.WATCHING | Status.STANDING:
                self._watch(found, now)

    def _note(self, top: Top | None, now: Instant) -> None:
        """Remember since when the directory has not changed, by this member's own clock."""
        if self._unchanged_since == FOREVER:
            self._unchanged_since = now
        elif (top is None) != (self.top is None) or (top and self.top and top.mark != self.top.mark):
            self._unchanged_since, self._renews = now, True
        self.top = top
        self._epoch_max = max(self._epoch_max, 0 if top is None else top.epoch)

    def _is_mine(self, top: Top | None) -> bool:
        """Return whether the highest epoch is the one that this incarnation claimed last."""
        return top is not None and (top.epoch, top.node, top.incarnation) == (self.epoch, self.me, self.incarnation)

    # Following.

    def _watch(self, found: Found, now: Instant) -> None:
        top, config = self.top, self.config
        if not self._is_vacant():
            self._watch_only()
            if top is not None and top.phase == "acting" and top.node not in (None, self.me) and self._renews:
                self._name(Term(top.epoch, NodeId(str(top.node))))
            elif top is not None and self.term is not None and top.epoch > self.term.number:
                self._lose("silent")
            self._look_at(max(now, self._asked_at + config.renew_interval))
            return
        self._lose("resigned" if top is not None and top.phase == "released" else "silent")
        self._renews = False
        if self.stands and self._epoch_max < TERM_NUMBER_MAX:
            self._seek(self._epoch_max + 1, found, now)
        else:
            self._look_at(max(now, self._asked_at + config.renew_interval))

    def _is_vacant(self) -> bool:
        """Return whether the last look shows that nobody holds the highest epoch."""
        top = self.top
        if top is not None and (top.phase == "released" or self._is_mine(top)):
            return True
        wait = self.config.guard(0 if top is None else top.lease)
        return self._asked_at - self._unchanged_since >= wait

    # Standing and claiming.

    def _seek(self, epoch: int, found: Found, now: Instant) -> None:
        heir = None if self.top is None else self.top.heir
        if self.candidacy.epoch != epoch:
            self.candidacy.begin(epoch)
            self._gave_way, self.status = False, Status.STANDING
            if heir == self.me:
                self._claim(found, now)
                return
            goes_last = heir is not None or self.candidacy.goes_last
            self._claim_at = now + self.config.stand_time * (3 if goes_last else 1)
            self.out.emit(ScoreWanted(epoch))
            self.out.set_timer(msg.ScoreIsLate(epoch), now + self.config.renew_interval)
        elif self._asked_at < self._claim_at:
            self._look_at(max(now, min(self._claim_at, now + self.config.renew_interval)))
        elif not self._gave_way and self.candidacy.is_outvied(self._rivals(found)):
            self._gave_way, self._claim_at = True, now + self.config.stand_time
            self._look_at(self._claim_at)
        else:
            self._claim(found, now)

    def _stand(self, now: Instant) -> None:
        """Tell the other candidates of this one, once its score is known."""
        if not self._pending and not self.candidacy.is_announced:
            self.candidacy.is_announced = True
            self._ask(now, "stand", epoch=self.candidacy.epoch, standing=self.candidacy.standing)

    def _rivals(self, found: Found) -> list[tuple[NodeId, float | None]]:
        """Return the other candidates for the epoch that this member stands for, with their scores."""
        epoch = self.candidacy.epoch
        return [(c.node, c.standing) for c in found.candidates if c.epoch == epoch and c.node != self.me]

    def _claim(self, found: Found, now: Instant) -> None:
        top = self.top
        # Not after this member's own epoch in which it never acted: an earlier leader may not have stopped yet.
        own = self._is_mine(top) and self._has_acted
        self._free = own or (top is not None and top.phase == "released" and top.free)
        self._claim_lease = self.config.lease if self._free or top is None else max(self.config.lease, top.lease)
        self.outvied = tuple(sorted(node for node, _ in self._rivals(found)))
        self.status, self.epoch, self._has_acted, self._serial = Status.CLAIMING, self.candidacy.epoch, False, 0
        self._ask(now, "claim", epoch=self.epoch, lease=self._claim_lease)

    def _on_claimed(self, found: Found, now: Instant) -> None:
        self._watch_only()
        if not self._is_mine(self.top):
            self._watch(found, now)
            return
        self.status = Status.WAITING
        self._acts_at = self.acts_from(now)
        self.out.emit(msg.EpochClaimed(self.epoch, self.outvied))
        self._on_renewed(now)

    def acts_from(self, claimed_at: Instant) -> Instant:
        """Return from when on no earlier leader can act."""
        return claimed_at if self._free else claimed_at + self.config.guard(self._claim_lease)

    # Holding.

    def _renew(self, now: Instant) -> None:
        acting = self.status is Status.LEADING
        self._serial += 1
        self._ask(
            now,
            "renew",
            epoch=self.epoch,
            serial=self._serial,
            phase="acting" if acting else "claimed",
            lease=self.config.lease if acting else self._claim_lease,
            free=acting,
        )

    def _release(self, now: Instant, heir: NodeId | None) -> None:
        """Write that this member has stopped, even while an earlier request is on its way: they are done in order."""
        self._serial += 1
        self._watch_only()
        lease = self.config.lease if self._has_acted else self._claim_lease
        self._ask(
            now,
            "renew",
            epoch=self.epoch,
            serial=self._serial,
            phase="released",
            lease=lease,
            free=self._has_acted,
            heir=heir,
        )

    def is_deposed(self) -> bool:
        """Return whether the last look found a higher epoch, or no longer this member's own."""
        return not self._is_mine(self.top)

    def _on_renewed(self, now: Instant) -> None:
        """Count the lease from when the look was asked for, if it found no higher epoch."""
        if self.is_deposed():
            if self.status is Status.LEADING:
                self._stop_leading("outranked")
            self.status, self._renews = Status.WATCHING, True
            self._look_at(now)
            return
        self._lease_end = self._asked_at + self.config.lease
        if self.status is Status.WAITING and self._acts_at <= now < self._lease_end:
            self._act()
            self._renew(now)  # The others see that it acts.
            return
        if self.status is Status.LEADING:
            self._hold()
        due = self._asked_at + self.config.renew_interval
        self._look_at(max(now, min(due, self._acts_at) if now < self._acts_at else due))

    def _check_lease(self, now: Instant) -> None:
        """Before any input: end a reign whose lease is over, however late the timer."""
        if self.status is Status.LEADING and not self.leads(now):
            self._stop_leading("lease over")
            if not self._pending:
                self._ask(now, "look")

    def _stop_leading(self, reason: str) -> None:
        assert self.status is Status.LEADING and self.term is not None
        self._watch_only()
        self._lose(reason)
