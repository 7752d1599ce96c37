"""Announce-listen elections: a leader announces itself, and falls silent when it hears a better one.  [LE Ch. 5]

Leadership is soft state.  A leader announces itself every T_A; the others listen, and after T_L of silence take
leadership back and start anew.  Nothing is acknowledged, and nobody is counted: the group converges on the best
member that can be heard, with one small multicast per interval.  Three variants of one machine:

    LE-A   claims at once                                (suppress_interval = 0)
    LE-S   claims after a random wait, unless it hears a better claim first
    LE-M   as LE-S, but the earliest to wake is the best (leader_is = "earliest")

        start ─▶ WAITING ──wake──▶ [ASKING ──silence──▶] LEADING ──every T_A──▶ Announcement
                    ▲  └── better claim ──▶ FOLLOWING ◀── better claim ──┘
                    └───── T_L of silence, or Bye ──┘

Every process always names a leader, itself while it waits; it *acts* as one (`LeaderElected`) from its first
announcement on.  This is a weak election: two sides of a partition have a leader each, and heal by rank.

Deviation [LE Prog. 5.1, 5.2]: equality refreshes the listen timer (as printed only a greater address does, and
  the leader's own heartbeats would not).  A worse claim is ignored without rebuttal.
Deviation [LE §5.4.3]: in LE-M an announcement carries its wake-up instant as a value, and a process lifts its own
  above any it has heard, so that a late joiner or a slow clock cannot usurp a stable leader.
Deviation: announcements carry a term.  Rank decides, not the term; a leader that hears an equal or a higher one
  lifts its own above it at its next scheduled announcement (decision 3).  A leader that was restarted without its
  state hears of none; who names it under a later term than it announces says so (`Behind`).
Extension [LE §5.7]: Bye, Query, suppress-then-Query, k leaders, gradual ageing; all off by default.
"""

from random import Random
from typing import Any, ClassVar

from doyen.core.clock import FOREVER, Duration, Instant
from doyen.core.commands import LeaveGroup, Resign, Stand
from doyen.core.deadline import Deadline
from doyen.core.effects import Out
from doyen.core.ids import TERM_LEAP_MAX, TERM_NUMBER_MAX, NodeId, Term
from doyen.core.kinds import Election
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.link import LinkBroken
from doyen.core.machine import Hears, hears
from doyen.core.rank import RANKS, Claim, ScoreGiven, Standing, VitalsObserved
from doyen.core.traffic import Series
from doyen.election.announce import messages as msg
from doyen.election.announce.config import AnnounceConfig, bye_count
from doyen.election.announce.leaders import NOBODY, NOTHING, UNBEATABLE, Heard, Leaders, PassedOver
from doyen.election.announce.messages import STANDING_MAX, Announcement, Status
from doyen.election.announce.wakeup import RankedPlace, draw
from doyen.errors import ConfigError, LocalProtocolError


class Announce(Election):
    """One process of an announce-listen election.  Its standing decides; a process without one only follows."""

    MESSAGES: ClassVar[Any] = Announcement | msg.Query | msg.Bye | msg.Behind
    MEASURED: ClassVar = (Series(message=Announcement, interval=lambda machine: machine.config.announce_interval),)
    RECORD: ClassVar[Any] = int  # The number of the last reign, where terms are kept over restarts.

    def __init__(
        self,
        me: NodeId,
        config: AnnounceConfig,
        out: Out,
        rng: Random,
        *,
        standing: Standing | None = 0,  # None: not eligible.
        place: RankedPlace | None = None,
        common_seed: int = 0,
        corrects: bool = False,  # Whether to correct a leader that has lost its count; as published: no.
        restored: int | None = None,  # The term of the last reign of an earlier incarnation; None: none is kept.
    ) -> None:
        if standing is not None and not -STANDING_MAX <= standing <= STANDING_MAX:  # Also false for nan.
            raise ConfigError(f"{standing} is out of range: give a number within ±2^62", field="standing")
        self.me, self.config = me, config
        self.standing, self.place = standing, place
        self._durable, self._corrects = restored is not None, corrects
        self._out, self._rng, self.common_seed = out, rng, common_seed
        self.status = Status.ABSENT
        self.term_number = restored or 0  # The greatest seen; this process's own reign is numbered above it.
        self.claim: Claim | None = None  # This process's own, while it contends or leads.
        self._mine: Announcement | None = None  # What this process announces, while it leads.
        self._leaders = Leaders(config.leader_count)
        self._heard: dict[NodeId, Heard] = {}  # The leaders other than itself.
        self._latest: Heard = NOTHING  # The one of them that was heard last.
        self._passed_over = PassedOver(config.suppress_interval or config.announce_interval)
        self._floor: Standing = STANDING_MAX  # LE-M: the latest wake-up heard, as a standing.
        self._wait_no = self._reign_no = self.election_no = self._announce_no = 0
        self._lift = False
        self._silence = Deadline()  # When the leader that was silent for longest is dropped.
        self._retired: Standing | None = None  # Its true standing, while it has resigned and does not contend.

    # Inputs.

    def start(self, now: Instant) -> None:
        if self.standing is None:
            self.status, self._leaders.bar = Status.FOLLOWING, NOBODY
        else:
            self._become_waiting(now, self.config.suppress_interval)

    def on_message(self, sender: NodeId, message: msg.Message, now: Instant) -> None:
        latest = self._latest
        if message is latest.said and sender is latest.node:
            # In a settled group nearly every input is a leader's next announcement, and in a simulation the same object
            # again; so large groups touch only this machine and one record per message.
            latest.at = now
            return
        if message.__class__ is not Announcement:
            self._on_rare_message(sender, message, now)
            return
        heard = self._heard.get(sender)
        if heard is not None:
            self._latest, heard.at = heard, now
            if message != heard.said:
                self._renew(heard, message, now)
        elif (message.standing, sender) > self._leaders.bar:
            self._admit(sender, message, now)
        else:
            self._hear_worse(sender, message, now)

    def on_timer(self, timer: Any, now: Instant) -> None:
        match timer:  # One that was set for a wait or a reign that is over matches nothing.
            case msg.AnnouncementRepeats() if timer.reign_no == self._reign_no:
                self._announce(now)
            case msg.WakeUp() if timer.wait_no == self._wait_no:
                self._wake(now)
            case msg.AskingEnds() if timer.wait_no == self._wait_no:
                self._become_leader(now)
            case msg.QueryIsAnswered() if timer.announce_no == self._announce_no and self._mine is not None:
                self._announce_no += 1  # One reply serves all who asked.
                self._out.multicast(self._mine)
            case msg.SilenceIsNoticed():
                self._listen(now)
            case msg.LeaderIsCorrected():
                self._correct(timer, now)

    def on_score_given(self, fact: ScoreGiven, now: Instant) -> None:
        """Take this process's standing from the application; it counts from the next announcement on."""
        if fact.value != fact.value:
            return  # Not a number: no news.
        value = min(max(fact.value, -STANDING_MAX), STANDING_MAX)
        if self._retired is not None:
            self._retired = value
            return
        self.standing = value
        if self.status is Status.ABSENT:
            return
        if self.config.leader_is == "earliest":  # Only whether it may lead counts.
            if not self._leaders.full:
                self._take_back(now, self.config.suppress_interval)
        elif self.claim is None:
            self._prefer_myself(now)
        else:
            self._replace(self.me, (self.standing, self.me))
            if self._mine is not None:
                self._mine = Announcement(self._mine.term, self.standing)

    def on_vitals_observed(self, fact: VitalsObserved, now: Instant) -> None:
        """Take this process's standing from what it observes itself, where its rank asks for that."""
        if self.config.observed_rank != "none" and (self.standing is not None or self._retired is not None):
            self.on_score_given(ScoreGiven(0, RANKS[self.config.observed_rank](fact.vitals)), now)

    def on_link_broken(self, fact: LinkBroken, now: Instant) -> None:
        """Drop a leader whose process is gone at once; one that lives after all announces again.

        Some processes see it before others: one that has claimed meanwhile will not repeat its claim before T_A is
        over, so its last claim counts now.
        """
        if fact.gone and fact.member in self._heard:
            self._drop(fact.member, "gone")
            claimed = self._passed_over.take(now, (fact.member, *self._heard))
            if claimed is not None:
                self._admit(claimed.node, claimed.said, now)
                self._prefer_myself(now)
            else:
                self._take_back(now, self.config.suppress_interval or self.config.announce_interval)

    def leave(self, now: Instant) -> None:
        """End in order: say Bye, if this process leads or all say so, and fall silent."""
        if self.status is Status.ABSENT:
            return
        if self.status is Status.LEADING or self.config.bye_from_all:
            for _ in range(bye_count(self.config)):
                self._out.multicast(msg.Bye(self.term_number))
        self._become_absent()

    def resign(self, command: Resign, now: Instant) -> None:
        """Stop leading and go on as a follower: say Bye, and claim nothing until `stand`."""
        self.check_heir(command.to)
        if self.status is Status.LEADING:
            retired = self.standing
            self.leave(now)
            self.standing, self._retired = None, retired
            self.start(now)

    def check_heir(self, to: NodeId | None) -> None:
        """Raise what a resignation would raise."""
        if to is not None:
            raise LocalProtocolError(f"announce-listen elects by rank and cannot hand over to {to}: raise its standing")

    def stand(self, now: Instant) -> None:
        """Contend again after a resignation."""
        if self._retired is not None:
            retired, self._retired = self._retired, None
            self.on_score_given(ScoreGiven(0, retired), now)

    HEARS: ClassVar[Hears] = (
        hears(ScoreGiven, on_score_given)
        | hears(VitalsObserved, on_vitals_observed)
        | hears(LinkBroken, on_link_broken)
        | hears(Resign, resign)
        | hears(Stand, lambda self, command, now: self.stand(now))
        | hears(LeaveGroup, lambda self, command, now: self.leave(now))
    )

    # Queries.

    @property
    def leader(self) -> NodeId | None:
        """Return the best leader that this process names: itself while it waits; None if it names nobody."""
        return self._leaders.claims[0][1] if self._leaders.claims else None

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Return (standing, name) of each leader that this process names, best first."""
        return tuple(self._leaders.claims)

    @property
    def leaders(self) -> tuple[NodeId, ...]:
        return tuple(node for _, node in self._leaders.claims)

    @property
    def is_leader(self) -> bool:
        return self.status is Status.LEADING

    @property
    def named(self) -> NodeId | None:
        return self.leader

    @property
    def stage(self) -> str:
        return self.status.value

    @property
    def leader_count(self) -> int:
        return self.config.leader_count

    def leads(self, now: Instant) -> bool:
        return self.is_leader

    def contradiction(self) -> str | None:
        """Return what in this machine's state contradicts itself, for checkers; None if nothing does."""
        mine = self._mine
        if (self.status in (Status.WAITING, Status.ASKING, Status.LEADING)) != (self.claim is not None):
            return "it contends and has no claim, or the other way round"
        if self.is_leader != (mine is not None):
            return "it leads and has nothing to announce, or the other way round"
        if mine is not None and mine.term > self.term_number:
            return "it acts under a term above the greatest it has seen"
        if self._latest.node and self._latest is not self._heard.get(self._latest.node):
            return "whom it heard last is nobody whom it names"
        return self._leaders.contradiction(self.claim, self._heard)

    # Transitions: each the sole writer of its state.

    def _become_waiting(self, now: Instant, spread: Duration) -> None:
        assert self.status in (Status.ABSENT, Status.FOLLOWING) and self.standing is not None
        self.status = Status.WAITING
        self._wait_no += 1
        self.election_no += 1
        wake_at = now + self._draw(spread)
        # [LE §5.4.3] LE-M: the instant is the claim, and never better than one heard.
        standing = self.standing if self.config.leader_is == "best" else min(-wake_at, self._floor - 1)
        self._enter((max(standing, -STANDING_MAX), self.me))
        if spread == 0:
            self._wake(now)
        else:
            self._out.set_timer(msg.WakeUp(self._wait_no), wake_at)

    def _become_asking(self, now: Instant) -> None:
        assert self.status is Status.WAITING and self.claim is not None
        self.status = Status.ASKING
        self._out.multicast(msg.Query(self.term_number, self.claim[0]))
        self._out.set_timer(msg.AskingEnds(self._wait_no), now + self.config.query_timeout)

    def _become_leader(self, now: Instant) -> None:
        assert self.status in (Status.WAITING, Status.ASKING)
        self.status = Status.LEADING
        self._reign_no += 1
        self._lift = True  # A reign begins above every term seen.
        self._announce(now)

    def _become_follower(self, reason: str) -> None:
        assert self.status in (Status.WAITING, Status.ASKING, Status.LEADING)
        self.status = Status.FOLLOWING
        self._wait_no += 1
        self._reign_no += 1
        self.claim = None
        if self._mine is not None:
            self._out.emit(LeaderLost(Term(self._mine.term, self.me), reason))
            self._mine = None

    def _become_absent(self) -> None:
        if self.status is not Status.FOLLOWING:
            self._become_follower("left")
        self.status = Status.ABSENT
        self._leaders.clear()
        self._heard, self._latest = {}, NOTHING
        self.election_no = 0

    # Steps.

    def _draw(self, spread: Duration) -> Duration:
        if spread == 0:
            return 0
        config, seed = self.config, self.common_seed + self.term_number  # The same on all that lost one leader.
        return int(draw(config.timer, config.group_size, config.rank_map, self.place, self._rng, seed) * spread)

    def _wake(self, now: Instant) -> None:
        # [LE §5.7] Query only at the outset; a process that lost its leader knows that there is none.
        if self.config.query_timeout and self.election_no == 1:
            self._become_asking(now)
        else:
            self._become_leader(now)

    def _announce(self, now: Instant) -> None:
        assert self.claim is not None
        if self._lift or self._mine is None:
            self._lift = False
            self.term_number = min(self.term_number + 1, TERM_NUMBER_MAX)
            self._mine = Announcement(self.term_number, self.claim[0])
            if self._durable:
                self._out.persist(self.term_number)
            self._out.emit(LeaderElected(Term(self.term_number, self.me)))
        self._announce_no += 1
        self._out.multicast(self._mine)
        self._out.set_timer(msg.AnnouncementRepeats(self._reign_no), now + self.config.announce_interval)

    def _listen(self, now: Instant) -> None:
        """[LE Prog. 5.2 l. 11] Drop leaders that were silent for T_L; one timer serves all, and is set again."""
        self._silence.fired()
        silent = [node for node, heard in self._heard.items() if now - heard.at >= self.config.listen_timeout]
        for node in silent:
            self._drop(node, "silent")
        if silent:
            self._take_back(now, self.config.suppress_interval)
        self._keep_listening()

    def _keep_listening(self) -> None:
        if self._heard:
            oldest = min(heard.at for heard in self._heard.values())
            self._silence.move(oldest + self.config.listen_timeout, msg.SilenceIsNoticed(), self._out)

    def _take_back(self, now: Instant, spread: Duration) -> None:
        """Contend for the room in the table, if this process may lead."""
        if self.status is Status.FOLLOWING and self.standing is not None:
            self._become_waiting(now, spread)

    def _admit(self, sender: NodeId, message: Announcement, now: Instant) -> None:
        """Enter a claim that is good enough to be named; the worst leaves a full table."""
        if sender == self.me or message.term - self.term_number > TERM_LEAP_MAX:
            return  # Its own name from the network, an echo or a namesake, cannot depose it; nor can a wild term.
        if message.term > self.term_number:
            self.term_number = message.term
        if self.config.leader_is == "earliest":
            self._note_wake_up(message.standing)
        if self._leaders.full:
            self._displace(self._leaders.claims[-1][1])
        term = Term(self.term_number, sender)
        self._heard[sender] = self._latest = Heard(sender, message, now, term)
        self._enter((message.standing, sender))
        self._out.emit(LeaderElected(term))
        self._keep_listening()
        if message.term < term.number:
            self._correct_later(sender, now)

    def _renew(self, heard: "Heard", message: Announcement, now: Instant) -> None:
        """Take a higher term or another standing from a leader that is named already."""
        if message.term - self.term_number > TERM_LEAP_MAX:
            return
        sender, said, heard.said = heard.node, heard.said, message
        if message.term > self.term_number:
            self.term_number = message.term
        if message.term < heard.told.number <= said.term:
            self._correct_later(sender, now)
        if message.term > heard.told.number:
            heard.told = Term(message.term, sender)
            self._out.emit(LeaderElected(heard.told))
        if self.config.leader_is == "earliest":
            self._note_wake_up(message.standing)
        if message.standing != said.standing:
            self._replace(sender, (message.standing, sender))
            self._prefer_myself(now)

    def _hear_worse(self, sender: NodeId, message: Announcement, now: Instant) -> None:
        """Ignore a worse claim without rebuttal, but for its term, its wake-up, and the age of the worst leader."""
        if sender == self.me or self._leaders.bar is UNBEATABLE:
            return  # An echo or a namesake; or this process is absent.
        self._note_term(message.term)
        if self.status is Status.FOLLOWING:
            self._passed_over.note(sender, message, now)
        if self.config.leader_is == "earliest":
            self._note_wake_up(message.standing)
            if (message.standing, sender) > self._leaders.bar:
                self._admit(sender, message, now)
        elif self.config.ageing_after < FOREVER:
            # [LE §5.1.3, note 1] A leader long silent has aged: any fresh claim takes its place.
            worst = self._heard.get(self._leaders.claims[-1][1])
            if worst is not None and now - worst.at >= self.config.ageing_after:
                self._drop(worst.node, "silent")
                self._admit(sender, message, now)
                self._prefer_myself(now)  # Fresher than both.

    def _correct_later(self, leader: NodeId, now: Instant) -> None:
        """Plan to tell a leader that it has lost its count, unless its announcements show a later term by then."""
        if self._corrects:
            wait = int((1 + self._rng.random()) * self.config.announce_interval)
            self._out.set_timer(msg.LeaderIsCorrected(leader), now + wait)

    def _correct(self, timer: msg.LeaderIsCorrected, now: Instant) -> None:
        heard = self._heard.get(leader := NodeId(timer.leader))
        if heard is not None and heard.said.term < heard.told.number:
            self._out.send(leader, msg.Behind(heard.told.number))
            self._correct_later(leader, now)

    def _note_term(self, term: int) -> None:
        """Note a term; a leader lifts its own above it, at its next scheduled announcement (decision 3)."""
        if self.term_number <= term <= self.term_number + TERM_LEAP_MAX:
            self.term_number = term
            self._lift = self._mine is not None

    def _note_wake_up(self, standing: Standing) -> None:
        """LE-M: a process heard before this one has announced woke earlier, whatever the clocks say."""
        self._floor = min(self._floor, standing)
        if self.claim is not None and self._mine is None and self.claim[0] >= self._floor:
            self._replace(self.me, (max(self._floor - 1, -STANDING_MAX), self.me))

    def _prefer_myself(self, now: Instant) -> None:
        """Contend, if this process belongs in the table now: its standing rose, or a leader's fell."""
        if self.status is Status.FOLLOWING and self.standing is not None and self.config.leader_is == "best":
            if (self.standing, self.me) > self._leaders.bar:
                if self._leaders.full:
                    self._displace(self._leaders.claims[-1][1])
                self._become_waiting(now, self.config.suppress_interval)

    def _on_rare_message(self, sender: NodeId, message: msg.Message, now: Instant) -> None:
        if sender == self.me or self.status is Status.ABSENT:
            return
        self._note_term(message.term)
        match message:
            case msg.Bye() if sender in self._heard:
                # [LE §5.7] Receivers redraw and do not announce at once, or all would speak together.
                self._drop(sender, "left")
                self._take_back(now, self.config.suppress_interval or self.config.announce_interval)
            case msg.Query():
                self._on_query(sender, message, now)
            case msg.Behind() if self._mine is not None and self._mine.term < message.term <= self.term_number:
                self._lift = True
                self._reign_no += 1  # The next announcement is now, and others need not say it again.
                self._announce(now)

    def _on_query(self, sender: NodeId, query: msg.Query, now: Instant) -> None:
        """[LE §5.7] Take the sender's claim like an announcement; a leader that is better answers it."""
        # In LE-M no process that still asks has woken before one that leads, whatever it claims.
        better = (query.standing, sender) > self._leaders.bar and self.config.leader_is == "best"
        if sender in self._heard or better or self._mine is None:
            self.on_message(sender, Announcement(query.term, query.standing), now)
        elif not self.config.suppress_interval:
            self._out.send(sender, self._mine)
        else:
            # Suppress, then Query: replies are suppressed too, by this leader's next announcement or by a better one's.
            patience = int(self._rng.random() * (self.config.query_timeout // 2))
            self._out.set_timer(msg.QueryIsAnswered(self._announce_no), now + patience)

    # The table.

    def _enter(self, claim: Claim) -> None:
        if claim[1] == self.me:
            self.claim = claim
        self._leaders.enter(claim)

    def _replace(self, node: NodeId, claim: Claim) -> None:
        self._leaders.remove(node)
        self._enter(claim)

    def _displace(self, node: NodeId) -> None:
        """Make room for a better claim.  The loss of one leader among several, or of this process, is emitted."""
        if node == self.me:
            self._leaders.remove(node)
            self._become_follower("outranked")
        elif self.config.leader_count > 1:
            self._drop(node, "outranked")
        else:
            self._forget(node)  # Its successor's LeaderElected says it all.

    def _drop(self, node: NodeId, reason: str) -> None:
        self._out.emit(LeaderLost(self._forget(node).told, reason))

    def _forget(self, node: NodeId) -> Heard:
        self._leaders.remove(node)
        self._latest = NOTHING
        return self._heard.pop(node)
