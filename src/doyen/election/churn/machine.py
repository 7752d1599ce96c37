"""Elections that tolerate weak views: c missing entries, f stale ones, and churn while they run.  [CTOL]

Any node may begin one: it asks c+f+1 members for the lowest hash each knows, so that at least one of c+1 answers knows
the lowest of all, and notifies it; that node announces itself to everybody.  Four variants of one machine:

    base        decides when c+1 answers are in
    optimistic  notifies after each answer that changes the leader, then confirms
    preferred   answers also list the y most unhealthy members, who are not elected
    hybrid      both

Every node is a member: it answers, accepts the greatest LEADER (`supersedes`), and watches that what was begun ends.
An election is initiated by a node whose view says that the leader is gone, by one that hears of no leader after its
start, or by an operator (`initiate`).  This is a weak election: two sides of a partition have a leader
each, and heal by term.

Deviation [CTOL §III-B]: a node that holds a tentative leader for too long, or has heard of an election whose initiator
  died before a final LEADER, begins the next term.
Deviation [CTOL §III-B]: "hears of a lower ID initiator" has no mechanism in the paper.  Here a member that knows a
  better election refuses a worse one's QUERY and names the better; the worse initiator stops, and begins the next term
  if no final LEADER comes.
Deviation: a LEADER of a member that the view holds dead or does not know is accepted while the node itself answers,
  and otherwise answered by the next term: views err, and one that errs must not unseat a living leader.
Deviation [CTOL Alg. 2, 4]: a tentative leader that stays is confirmed by multicasts; a member that misses them asks
  (decision 21).
Deviation [CTOL]: a leader whose score falls behind hands over (`challengers`).
Extension: members ask each other at a low rate whom they hold (`ask_interval`), so that a node that a LEADER never
  reached, one that returns, and two halves that meet again agree without an election.
"""

from random import Random
from typing import Any, ClassVar, Final

from doyen.core.clock import FOREVER, Duration, Instant
from doyen.core.commands import Initiate, Resign, Stand
from doyen.core.effects import Out
from doyen.core.ids import TERM_LEAP_MAX, TERM_NUMBER_MAX, Incarnation, NodeId, Term
from doyen.core.kinds import Election
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.machine import Hears, hears
from doyen.core.view import MemberWanted, Status, ViewChanged
from doyen.election.churn import messages as msg
from doyen.election.churn.asking import Asking
from doyen.election.churn.challengers import HandOver
from doyen.election.churn.config import TIMEOUT_MIN, CTolerantConfig
from doyen.election.churn.confirming import Confirming
from doyen.election.churn.doubt import Doubt, Patience
from doyen.election.churn.initiator import Initiator, Role
from doyen.election.churn.messages import ElectionId, Memory, Record
from doyen.election.churn.standpoint import Health, Rank, Standpoint, hash_rank, suspicions
from doyen.membership.missing import MissingEstimated
from doyen.membership.notes import NotesChanged
from doyen.membership.reliable import CopiesAreSent, GossipMulticast, ReliableMulticast
from doyen.membership.swim.roundtrip import RoundTripEstimated

ASK_AFTER: Final = 4  # Times response_timeout, after which a tentative leader is asked whether it is final.


class CTolerant(Election):
    """A member of a group that elects over weak views, and at times the initiator."""

    MESSAGES: ClassVar[Any] = msg.MESSAGES
    RECORD: ClassVar[Any] = Memory

    def __init__(
        self,
        me: NodeId,
        incarnation: Incarnation,
        config: CTolerantConfig,
        out: Out,
        rng: Random,
        *,
        rank: Rank = hash_rank,
        ranks_differ: bool = False,  # Nodes rank by scores, as each knows them: answers carry the ranks.
        tie: Rank | None = None,  # Decides between members of one rank; None: the name does.
        health: Health = suspicions,
        restored: Memory | None = None,
        durable: bool = True,  # Whether there is a disk to keep the term on.
    ) -> None:
        self.me, self.config = me, config
        self._out, self._rng, self._ranks_differ, self._durable = out, rng, ranks_differ, durable
        self._kept = 0 if restored is None else restored.number  # The term on the disk,
        self._floor = self._kept  # and as an earlier incarnation left it: whatever is older is over.
        self.point = Standpoint(me, incarnation, config, rank, tie, health, self._kept)
        self.initiator = Initiator(self.point, out, rng)
        self.multicast: ReliableMulticast | GossipMulticast = (
            GossipMulticast(out, rng, config.resend_interval, config.fan_out)
            if config.fan_out
            else ReliableMulticast(out, config.resend_interval, self.point.presence)
        )
        self.held: Record | None = None
        self._told: Term | None = None  # The term of the last `LeaderElected`, unless lost since.
        self._confirmed = False  # Whether this node has been final since it leads without a break.
        self._awaited: ElectionId | None = None  # An election that has no final LEADER yet.
        self._confirming = Confirming(config.resend_interval, out)
        self._patience = Patience(config.final_timeout, self._kept)
        self._begin_at: Instant | None = None  # When to begin an election, as planned.
        self._doubt = Doubt(self.point, rng)  # Of the leader, while the view does not hold it present.
        self._resignation = 0
        hands_over = ranks_differ and config.better_for < FOREVER
        self._hand_over = HandOver(self.point, out) if hands_over else None
        self._asking = Asking(self.point, out, rng)

    # Inputs.

    def start(self, now: Instant) -> None:
        self._asking.soon(now)
        if self.config.bootstrap_after < FOREVER:
            wait = self.config.bootstrap_after + self._some(self.config.begin_spread)
            self._out.set_timer(msg.BootstrapBegins(), now + wait)

    def on_message(self, sender: NodeId, message: msg.Message, now: Instant) -> None:
        if msg.term_number(message) - self.point.number > TERM_LEAP_MAX:
            return
        if self.held is not None and sender == self.held.leader:
            self._doubt.hear(now)
        match message:
            case msg.Leader():
                self._on_leader(sender, message, now)
            case msg.LeaderAck():
                self.multicast.on_ack(sender, message.number)
            case msg.Query():
                self._on_query(sender, message, now)
            case msg.Response():
                if message.better is not None:
                    self._hear_of(message.better, now)
                else:
                    self.initiator.on_response(sender, message, now)
            case msg.NotifyLeader():
                self._on_notify(sender, message, now)
            case msg.Confirm():
                self._confirming.hear(sender, message)
                self._accept_confirmed(now)
            case msg.Ask():
                self._on_ask(sender, message)
            case msg.HandedOver():
                self.point.handed_over = message

    def on_timer(self, timer: Any, now: Instant) -> None:
        match timer:
            case msg.MoreAreAsked():
                self.initiator.ask_more(timer, now)
            case msg.NotifyRepeats():
                self.initiator.on_notify_repeats(timer, now)
            case CopiesAreSent():
                self.multicast.on_timer(timer, now)
            case msg.BackOffEnds():
                self.initiator.on_back_off_ends(timer, now)
            case msg.NextTermBegins():
                if self._awaited == timer.election:
                    self._give_up_awaited(now)
            case msg.ConfirmRepeats():
                self._confirming.repeat(timer, self.held, now)
            case msg.LeaderIsAsked():
                self._ask_tentative_leader(timer, now)
            case msg.ElectionBegins():
                self._on_election_begins(timer, now)
            case msg.DoubtRepeats():
                self._on_doubt_repeats(timer, now)
            case msg.MemberIsAsked():
                self._asking.ask(timer, self._question(), now)
            case msg.CoolDownEnds():
                if timer.resignation == self._resignation:
                    self.stand(now)
            case msg.ScoresAreWeighed():
                if self._hand_over is not None and self._hand_over.is_due(timer, now):
                    self._weigh(now)
            case msg.BootstrapBegins():
                if self.held is None and self._awaited is None and self.initiator.role is Role.IDLE:
                    self.initiate(now)

    def on_view_changed(self, fact: ViewChanged, now: Instant) -> None:
        self.point.view = fact.view
        find, me, leads = fact.view.members.get, self.me, self.is_leader
        for node in fact.changed:
            if node != me:
                member = find(node)
                status = None if member is None else member.status
                if member is None or (status is not Status.ALIVE and status is not Status.SUSPECTED):
                    self._on_gone(node, Status.FAILED if member is None else member.status, now)
                    leads = self.is_leader
                elif leads:
                    self.multicast.include(node, now)
        self.initiator.on_view(fact.changed, now)
        self._weigh(now)

    def on_missing_estimated(self, fact: MissingEstimated, now: Instant) -> None:
        self.point.estimated, self.point.confidence = fact.missing_max, fact.confidence

    def on_round_trip_estimated(self, fact: RoundTripEstimated, now: Instant) -> None:
        if self.config.timeout == "auto":
            self.point.timeout = min(max(2 * fact.timeout, TIMEOUT_MIN), self.config.final_timeout // 3)

    def initiate(self, now: Instant) -> None:
        """Begin an election, even if there is a leader."""
        if self.point.number >= TERM_NUMBER_MAX:
            return
        self.initiator.stop()
        self._keep(self.point.number + 1)
        self._begin_at = self._awaited = None
        self.point.hear_wishes(self.me, (), now)
        self.initiator.begin(now)

    def resign(self, command: Resign, now: Instant) -> None:
        """Stop leading, go on as a member, and hand over: to that member, or to the best of the others.

        Elections pass this node over for `cool_down` (`resign_cool_down` unless given), or until `stand`.
        """
        to = command.to
        if to is not None or self.is_leader:
            self.check_heir(to)
        if not self.is_leader:
            return
        self.point.resigned = True
        self._resignation += 1
        wait = self.config.resign_cool_down if command.cool_down is None else command.cool_down
        self._out.set_timer(msg.CoolDownEnds(self._resignation), now + wait)
        self.multicast.stop()
        self._lose(command.because or "resigned")
        if to is None:
            self.initiate(now)
        elif self.point.number < TERM_NUMBER_MAX:
            self._keep(self.point.number + 1)
            self._begin_at = self._awaited = None
            self.initiator.appoint(to, command.because, now)

    def check_heir(self, to: NodeId | None) -> None:
        self.point.check_heir(to)

    def stand(self, now: Instant) -> None:
        """Let elections consider this node again after its resignation."""
        self.point.resigned = False

    HEARS: ClassVar[Hears] = (
        hears(ViewChanged, on_view_changed)
        | hears(MissingEstimated, on_missing_estimated)
        | hears(RoundTripEstimated, on_round_trip_estimated)
        | hears(NotesChanged, lambda self, fact, now: self._weigh(now))
        | hears(Initiate, lambda self, command, now: self.initiate(now))
        | hears(Resign, resign)
        | hears(Stand, lambda self, command, now: self.stand(now))
    )

    # Queries.

    @property
    def leader(self) -> NodeId | None:
        return None if self._told is None else self._told.leader

    @property
    def named(self) -> NodeId | None:
        return self.leader

    @property
    def is_leader(self) -> bool:
        return self.leader == self.me

    def leads(self, now: Instant) -> bool:  # Decision 38.
        return self.is_leader and self._confirmed

    @property
    def waits_for(self) -> str:
        return "" if self._confirmed or not self.is_leader else "its election is not final yet"

    @property
    def final(self) -> bool:
        return self._told is not None and self.held is not None and self.held.final

    # The member's part.

    def _on_query(self, sender: NodeId, query: msg.Query, now: Instant) -> None:
        best = self.point.best
        if best is not None and best.outranks(query.election):
            self._out.send(sender, msg.Response(query.election, query.attempt, (), better=best))
            if self.held is not None and self.held.election.number > query.election.number:
                self._out.send(sender, msg.Leader(self.held))  # It is behind by a term: it may have missed a leader.
            return
        self._hear_of(query.election, now)
        self.point.hear_wishes(sender, query.without, now)
        candidates, excluded = self.point.answer(query.candidate_count, query.unhealthy_count, query.without)
        ranks = tuple(self.point.rank(node) for node in candidates) if self._ranks_differ else ()
        ranks = ranks if any(ranks) else ()  # Nobody has a score, and the initiator knows that.
        self._out.send(sender, msg.Response(query.election, query.attempt, candidates, excluded, None, ranks))

    def _on_notify(self, sender: NodeId, notify: msg.NotifyLeader, now: Instant) -> None:
        record = Record(notify.election, notify.sequence, notify.final, self.me, self.point.incarnation)
        before = self.held
        if self.point.passes_on(now):
            self.initiate(now)  # The initiator did not know that this node does not wish to lead.
        elif self.accepts(record):
            told = before is not None and (before.election, before.leader) == (record.election, self.me)
            self._accept(record, now)
            if told and before is not None and record.final:
                # Members know who leads, and need only hear that it is final; who has not acknowledged gets it all.
                self._confirm(msg.Confirm(record.election, before.sequence, record.sequence), now)
            else:
                self.multicast.publish(lambda number: msg.Leader(record, number), self.point.audience(), now)
        elif self.held is not None and sender != self.me:
            self._out.send(sender, msg.Leader(self.held))  # Its LEADER was lost, or it is behind.

    def _confirm(self, confirm: msg.Confirm, now: Instant) -> None:
        """Multicast a confirmation as often as the LEADER had to be repeated so far, without acks (decision 21)."""
        record, initiator = self.held, confirm.election.initiator
        assert record is not None
        waiting = () if initiator == self.me else (initiator,)
        self.multicast.amend(lambda number: msg.Leader(record, number), waiting, now)
        self._confirming.send(confirm, self.multicast.round_count - 1, record, now)

    def _on_leader(self, sender: NodeId, message: msg.Leader, now: Instant) -> None:
        record = message.record
        if message.number:
            self._out.send(sender, msg.LeaderAck(message.number))
        if record.leader == self.me and record.leader_incarnation != self.point.incarnation:
            # An earlier incarnation of this node led, and that reign ended with it (decision 20).
            if self.accepts(record):
                self._hear_of(record.election, now)
                self._plan_to_begin(now, 0)
            return
        if self.config.dead_leader == "next-term" and self.accepts(record) and self.point.is_dead(record.leader):
            self._hear_of(record.election, now)
            self._plan_to_begin(now, self.config.begin_spread)
        elif self.accepts(record):
            self._accept(record, now)
            if self.config.fan_out:
                self.multicast.publish(lambda number: msg.Leader(record, number), self.point.audience(), now)
            self._accept_confirmed(now)
            if not self.point.lists(record.leader):
                self.begin_doubt(now, was_watched=False)
        elif self.held is None:  # An earlier incarnation knew a later term; now nobody else does.
            self._plan_to_begin(now, self.config.begin_spread)
        elif message.number and self.held != record:
            self._out.send(sender, msg.Leader(self.held))  # A leader that is none any more learns of it.

    def _accept_confirmed(self, now: Instant) -> None:
        confirmed = self._confirming.confirmed(self.held)
        if confirmed is not None:
            self._accept(confirmed, now)

    def _ask_tentative_leader(self, timer: msg.LeaderIsAsked, now: Instant) -> None:
        """Ask a leader that has been tentative for long, and others: perhaps its confirmation was lost here alone."""
        held = self.held
        if held is not None and not held.final and (held.election, held.sequence) == (timer.election, timer.sequence):
            self._out.send(held.leader, self._question())
            self._asking.ask_others(held.leader, self._question())
            self._out.set_timer(timer, now + timer.wait)

    def _on_ask(self, sender: NodeId, ask: msg.Ask) -> None:
        if self.held is not None and (ask.echo or ask.is_behind(self.held)):
            self._out.send(sender, msg.Leader(self.held))
        elif ask.is_ahead(self.held):
            self._out.send(sender, self._question())

    # LEADER acceptance.

    def accepts(self, record: Record) -> bool:
        return record.election.number >= self._floor and record.supersedes(self.held)

    def ends(self, record: Record) -> bool:
        """Return whether the election of a record is over, and is no longer waited for."""
        return record.final

    def _accept(self, record: Record, now: Instant) -> None:
        """Hold a record; no other method writes `held`."""
        before, told = self.held, self._told
        self._keep(record.election.number)
        self._doubt.weigh(before, record, now)
        self.held = record
        self._hear_of(record.election, now)
        if self.ends(record):
            self._patience.note_final(record.election.number, now)
            if self._awaited is not None and self._awaited.number <= record.election.number:
                self._awaited = None
        else:
            if self._awaited is None:
                self._await_final(record.election, now)
            if record.leader != self.me:
                wait = min(ASK_AFTER * self.point.timeout, self.config.final_timeout // 4)
                self._out.set_timer(
                    msg.LeaderIsAsked(record.election, record.sequence, wait), now + wait + self._some(wait)
                )
        if before is not None and before.leader == self.me != record.leader:
            self.multicast.stop()
        if told is not None and told.leader == self.me != record.leader:
            self._out.emit(LeaderLost(told, "outranked"))
        self._told = record.term
        self._confirmed = record.final or (self._confirmed and told is not None and told.leader == self.me)
        if told != record.term:
            self._out.emit(LeaderElected(record.term))
        self._out.emit(msg.LeaderHeld(record))
        self._begin_at = None
        self.initiator.on_record(record, now)
        self._asking.soon(now)
        self._weigh(now)

    def _lose(self, reason: str) -> None:
        """Note that the leader is gone; its record stays, as the least that counts."""
        if self._told is not None:
            told, self._told = self._told, None
            self._out.emit(LeaderLost(told, reason))

    # What was begun must end.

    def _hear_of(self, election: ElectionId, now: Instant) -> None:
        """Note an election: if it is the best so far, this node's own stops, and the better one's end is awaited."""
        point = self.point
        point.number = max(point.number, election.number)
        if not election.outranks(point.best):
            return
        point.best = election
        if self.initiator.role is not Role.IDLE:
            self.initiator.stop()
        self._await_final(election, now)

    def _await_final(self, election: ElectionId, now: Instant) -> None:
        self._awaited = election
        if self.initiator.role is Role.IDLE or election != self.initiator.election:
            patience = self._patience.of(election.number, now)
            self._out.set_timer(msg.NextTermBegins(election), now + patience + self._some(patience // 2))

    def _give_up_awaited(self, now: Instant) -> None:
        """Begin the next term in place of an election that brought no final LEADER, unless there is a leader.

        A member that lost its leader, or has accepted a tentative one, begins it; the others have nothing to vote on.
        """
        if self.final and self._is_led():
            self._awaited = None
            self._asking.soon(now)
        else:
            self.initiate(now)

    def _is_led(self) -> bool:
        """Return whether this node names a leader whom its view holds present."""
        return self._told is not None and self.point.lists(self._told.leader) and not self.point.declined

    def _plan_to_begin(self, now: Instant, spread: Duration) -> None:
        """Plan to begin an election within `spread`, unless another node does first."""
        if self._begin_at is None and self.initiator.role is Role.IDLE:
            self._begin_at = now + self._some(spread)
            self._out.set_timer(msg.ElectionBegins(self.point.number), self._begin_at)

    def _on_election_begins(self, timer: msg.ElectionBegins, now: Instant) -> None:
        if self._begin_at is not None and now >= self._begin_at:
            self._begin_at = None
            if timer.number == self.point.number:
                self.initiate(now)

    def begin_doubt(self, now: Instant, *, was_watched: bool) -> None:
        """Ask a leader that the view holds dead or does not know: a LEADER may be late, or the view may err.

        Nobody watches such a leader, so nobody would tell this node of its end (decisions 22, 37).
        """
        self._doubt.begin(now, was_watched=was_watched)
        self._ask_doubted_leader(now)

    def _ask_doubted_leader(self, now: Instant) -> None:
        held = self.held
        assert held is not None
        self._out.send(held.leader, self._question(echo=True))
        self._out.emit(MemberWanted(held.leader))
        self._out.set_timer(msg.DoubtRepeats(self._doubt.number), self._doubt.next_at(now))

    def _on_doubt_repeats(self, timer: msg.DoubtRepeats, now: Instant) -> None:
        held = self.held
        if timer.number != self._doubt.number or held is None or self._told is None or self.point.lists(held.leader):
            return
        if not self._doubt.is_over(now):
            self._ask_doubted_leader(now)  # It lives, whatever the view says, or has had too little time to answer.
            return
        self._lose("failed" if self.point.is_dead(held.leader) else "dead")
        if self._doubt.begun_at_term == self.point.number:  # Else another election is under way.
            self._plan_to_begin(now, 0)

    # The view.

    def _on_gone(self, node: NodeId, status: Status, now: Instant) -> None:
        self.multicast.forget(node)
        if node == self.leader and status is not Status.LEFT:
            self.begin_doubt(now, was_watched=True)
        elif node == self.leader:
            self._lose("left")
            self._plan_to_begin(now, self.config.begin_spread)
        elif self._awaited is not None and node == self._awaited.initiator and not self._is_led():
            self._plan_to_begin(now, self.config.begin_spread)

    # Scores.

    def _weigh(self, now: Instant) -> None:
        """Look whether a member is the better leader by now, if this node leads."""
        if self._hand_over is not None:
            self._hand_over.weigh(self.is_leader and self.final and self.initiator.role is Role.IDLE, now)

    def _question(self, echo: bool = False) -> msg.Ask:
        return msg.Ask(echo=echo) if self.held is None else msg.Ask(self.held.election, self.held.sequence, echo)

    def _some(self, span: Duration) -> Duration:
        return int(self._rng.random() * span)

    def _keep(self, number: int) -> None:
        """Make a term durable before any message carries it."""
        if number > self._kept and self._durable:
            self._kept = number
            self._out.persist(Memory(number))
