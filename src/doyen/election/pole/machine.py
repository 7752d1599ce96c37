"""Elections by application scores among a fixed set of voters; at most one leader acts at a time.  [POLE]

This is the machine: its inputs and queries, and how a leader ends.  What a voter does in an election is in `elector`.

Extension: resignation with margin, rounds and cool-down, and hand-over without an election (`resignation`).
"""

from typing import Any, ClassVar

from doyen.core.clock import Duration, Instant
from doyen.core.commands import ChangeVoters, LeaveGroup, PassOn, Resign
from doyen.core.effects import RecordDurable
from doyen.core.ids import TERM_LEAP_MAX, NodeId, Term
from doyen.core.kinds import Election
from doyen.core.link import LinkBroken
from doyen.core.machine import Hears, hears
from doyen.core.rank import ScoreGiven, VectorsChanged
from doyen.core.traffic import Exchange
from doyen.election.pole import messages as msg
from doyen.election.pole.chartered import Chartered
from doyen.election.pole.messages import Status
from doyen.election.pole.promise import VoterRecord
from doyen.errors import LocalProtocolError


class Pole(Chartered, Election):
    """A voter, or an observer that lost its file.  Without `score` the world is asked (`ScoreWanted`)."""

    MESSAGES: ClassVar[Any] = msg.MESSAGES
    MEASURED: ClassVar = (
        Exchange(
            question=msg.Heartbeat,
            answer=msg.HeartbeatAck,
            number=lambda message: message.number,
            targets=lambda machine, heartbeat: machine.who_answers(heartbeat),
        ),
    )
    RECORD: ClassVar[Any] = VoterRecord

    # Queries.

    @property
    def leader(self) -> NodeId | None:
        return None if self.term is None else self.term.leader

    @property
    def named(self) -> NodeId | None:
        return self.leader

    @property
    def is_leader(self) -> bool:
        return self.status is Status.LEADING

    def leads(self, now: Instant) -> bool:
        """Return whether this node may act as leader at this instant, even where timers are late."""
        lease = self.reign.lease
        return self.status is Status.LEADING and lease is not None and now < lease.until

    def lease_until(self) -> Instant | None:
        """Return when the lease of the present reign ends, by which a watchdog outside must act."""
        lease = self.reign.lease
        return None if lease is None else int(lease.until)

    def round_trip(self, node: NodeId) -> Duration | None:
        return self.reign.trips.get(node)

    def will(self) -> msg.Resigned | None:
        """Return the resignation that ends the term led now, for when this process is known to be dead."""
        if self.status is not Status.LEADING or self.term is None:
            return None
        return msg.Resigned(self.term.number, self.reign.rivals.best)

    def who_answers(self, heartbeat: msg.Heartbeat) -> list[NodeId]:
        """Return the voters that answer this heartbeat at once; a claim is granted only when a voter is free to."""
        if not heartbeat.acting:
            return []
        return [voter for voter in self.voters if voter != self.me and heartbeat.asks(voter, self.voters)]

    # Inputs.

    def start(self, now: Instant) -> None:
        if not self.voting:
            known = self.me in self.voters
            self.out.emit(msg.NotVoting() if known else msg.NotAVoter(self.me, tuple(sorted(self.voters))))
            self.ask_voters(self.config.election_timeout, now)
            return
        self.voter.wake(now, self.config.guard)
        self.scores.start(now)
        self.new_election(now)

    def on_message(self, sender: NodeId, message: msg.Message, now: Instant) -> None:
        self._look(now)
        if self.status is Status.LEFT or sender == self.me:
            return  # This node's own name from the network is an echo, or a namesake.
        if msg.epoch_of(message) - self.epoch > TERM_LEAP_MAX:
            return
        self.hear_charter(sender, message, now)
        if sender not in self.voters and sender != self.chosen:  # One that removes itself is still followed.
            return
        if self.status is Status.OBSERVING:
            if isinstance(message, msg.Heartbeat):
                self._observe(sender, message, now)
            return
        if sender == self.absent:
            self.absent = None
        is_news = self.links.received(sender, message, now)
        match message:
            case msg.Propose():
                self.on_propose(sender, message, is_news, now)
            case msg.Vote():
                self.on_vote(sender, message, now)
            case msg.Heartbeat():
                self.on_heartbeat(sender, message, now)
                self.hear_heir(sender, message)
            case msg.HeartbeatAck():
                self.on_ack(sender, message, now)
            case msg.Pending() if message.epoch == self.epoch and self.reign.claim is not None:
                self.reign.claim.pending.add(sender)
            case msg.Resigned():
                self._on_resigned(sender, message, now)
            case msg.ScoreQuery() if sender == self.chosen:
                self._on_score_query(message, now)
            case msg.ScoreReply():
                replies = self.reign.rivals
                if replies.reply(sender, message.number, message.standing, message.connected) and self.is_leader:
                    self.hand_over(sender, now)
            case msg.CharterStored() if message.epoch == self.epoch:
                self.on_stored(sender, (message.epoch, message.serial), now)

    def on_timer(self, timer: Any, now: Instant) -> None:
        self._look(now)
        match timer:
            case msg.WaitEnds() if timer.number == self.deadline.number:
                if self.deadline.is_over(msg.WaitEnds(timer.number + 1), now, self.out):
                    self._on_overdue(now)
            case msg.HeartbeatIsSent() if timer.tenure == self.reign.tenure and self.reign.claim is not None:
                if self.is_established:
                    self.name_heir(self.reign.rivals.best)
                if self.is_leader and self.reign.rivals.is_due(now) and self._compare(now):
                    return
                self.reign.rivals.refresh(now, self.reign.silent)
                self.reign.beat(self.is_established, now, all_answer=False)
                self.keeper.repeat()
                self.on_answer(now)
                self.write_charter(now)
                self.out.set_timer(timer, now + self.reign.interval)
            case msg.ElectionEnds() if timer.epoch == self.epoch and self.status is Status.ELECTING:
                if self.ballot.has_quorum and self.ballot.best is not None:
                    self.select(now)
                else:  # There are more voters by now, or nobody stands.
                    self.ballot.timed = False
            case msg.ProposalRepeats() if (timer.epoch, timer.wait) == (self.epoch, self.ballot.repeat_wait):
                if self.status is Status.ELECTING:
                    self.repeat(min(2 * timer.wait, self.config.retry_max), now)
            case msg.MeasuringEnds() if timer.epoch == self.epoch and self.status is Status.MEASURING:
                self.measured((), now)
            case msg.PromiseEnds() if timer.epoch == self.epoch:
                self.on_free(now)
            case msg.GreaterIsGivenUp() if timer.epoch == self.epoch and self.reign.claim is None:
                if self.lookout.seen is None:
                    self.choose_waiting(now)
            case msg.AnswersAreDue() if timer.tenure == self.reign.tenure and self.status is Status.CLAIMING:
                self.on_answers_due(timer, now)
            case msg.LeaderIsAskedFor() if timer.number == self.lookout.asked:
                self.ask(timer, now)
            case msg.ReachIsReported() if timer.leader == self.chosen:
                self._report(timer.number, self.is_connected(now))
            case msg.VotersAreAsked() if self.status is Status.OBSERVING:
                self.ask_voters(min(2 * timer.wait, self.config.retry_max), now)
            case msg.RollEnds() if self.keeper.roll is not None and timer.number == self.keeper.roll.number:
                self.end_roll(now)
            case msg.AnswersAreMissed() if timer.tenure == self.reign.tenure and self.is_established:
                if self.reign.is_missed(timer.number):
                    self.reign.beat(True, now)

    def on_record_durable(self, fact: RecordDurable, now: Instant) -> None:
        """Count or send a grant, now that it is durable."""
        self._look(now)
        self.voter.written()
        if self.reign.claim is not None:
            self.reign.beat(self.is_established, now)
            self.on_answer(now)
        else:
            self.answer_kept(now)

    def on_score_given(self, fact: ScoreGiven, now: Instant) -> None:
        """Take the world's answer to `ScoreWanted`."""
        self._look(now)
        standing = self.scores.given(fact)
        if self.status is Status.MEASURING and fact.number == self.epoch:
            self.measured(standing, now)

    def on_vectors_changed(self, fact: VectorsChanged, now: Instant) -> None:
        """Look again for a score that is waited for, as round trips to more members are known."""
        self._look(now)
        if self.status is Status.MEASURING:
            standing = self.scores.look(self.epoch, self.lookout.gone)
            if standing is not None:
                self.measured(standing, now)

    def resign(self, command: Resign, now: Instant) -> None:
        """Stop acting at once, and hand over: to that voter, or to the best of the others."""
        self._look(now)
        self.check_heir(command.to)
        if self.status is Status.LEADING:
            self.hand_over(command.to, now)

    def pass_on(self, command: PassOn, now: Instant) -> None:
        """Write a baton for the next leader."""
        self._look(now)
        self.write_baton(command, now)

    def change_voters(self, command: ChangeVoters, now: Instant) -> None:
        """Replace the voters, if those that shall vote are there."""
        self._look(now)
        self.call_roll(command, now)

    def check_heir(self, to: NodeId | None) -> None:
        """Raise what a resignation would raise."""
        if to is not None and (to not in self.voters or to == self.me):
            raise LocalProtocolError(f"cannot hand over to {to}: it is not another voter")

    def leave(self, now: Instant) -> None:
        """Stop for good; a leader hands over, and waits for no disk."""
        self._look(now)
        if self.status is Status.LEADING:
            self.stop_leading("left")
            self.out.multicast(msg.Resigned(self.epoch, self.reign.rivals.best))
        self.become(Status.LEFT, None)

    # Handing over.

    def _look(self, now: Instant) -> None:
        """Before any input: end a reign whose lease is over, however late the timer."""
        self.voter.now = now
        if self.status is Status.LEADING and not self.leads(now):
            ended = msg.Resigned(self.epoch)
            self.stop_leading("lease over")
            if self.config.connected:
                self.out.multicast(ended)  # Some voters may have answered just now, and are bound.
            self.new_election(now)

    def _compare(self, now: Instant) -> bool:
        """[POLE §5] Hand over if another is the better leader, and return whether it is; scores include the present
        one."""
        mine = self.scores.look(self.epoch, None) or ()
        winner = self.reign.rivals.compare(mine, now - self.reign.since, now, self.reign.silent)
        if winner is not None:
            self.hand_over(winner, now)
        return winner is not None

    def _on_score_query(self, query: msg.ScoreQuery, now: Instant) -> None:
        """Report the score; as the heir also, after a round trip to all, whether this voter reaches a majority."""
        if query.reach and self.chosen is not None:
            self.out.multicast(self.question(now))
            timer = msg.ReachIsReported(self.chosen, query.number)
            self.out.set_timer(timer, now + self.config.election_timeout)
        else:
            self._report(query.number, False)

    def _report(self, number: int, connected: bool) -> None:
        if self.chosen is not None:
            self.out.send(self.chosen, msg.ScoreReply(number, self.scores.told(self.epoch, self.stands), connected))

    def hand_over(self, to: NodeId | None, now: Instant) -> None:
        epoch, heir = self.epoch, to or self.reign.rivals.best
        self.stop_leading("resigned")
        self.voter.advance(epoch + 1)  # The barrier: nobody hears of the end before this node's own application does.
        self.out.multicast(msg.Resigned(epoch, heir))
        self.modest_in = epoch + 1
        self._succeed(heir, epoch + 1, now)

    def _on_resigned(self, sender: NodeId, message: msg.Resigned, now: Instant) -> None:
        if message.withdrawn:
            is_free = self.voter.let_go(sender, message.epoch, message.withdrawn)
            self.naming.withdraw(message.epoch, sender, message.withdrawn)
            acts = self.lookout.seen is not None and self.lookout.seen.acting  # That claim is an earlier one.
            over = message.epoch >= self.epoch and not acts
        else:
            is_free = self.voter.release(sender, message.epoch)
            self.naming.end(message.epoch, sender)
            over = message.epoch >= self.epoch or self.term == Term(message.epoch, sender)
        if self.chosen == sender and over:
            self.absent = sender
            self.naming.lose("resigned")
            self._succeed(message.to, max(message.epoch, self.epoch) + 1, now)
            return
        self.on_free(now)
        if is_free:  # It was missed before it resigned: an election waits for it.
            self.absent = sender
            self._end_election(Term(message.epoch, sender), message.to, now)

    def _end_election(self, resigned: Term, heir: NodeId | None, now: Instant) -> None:
        """Choose the heir of a leader that was missed before it resigned, as the others do that heard it in time.

        A will often comes a little later than the end of the connection to its author.
        """
        electing = self.status in (Status.MEASURING, Status.ELECTING)
        named = heir in self.voters and heir != resigned.leader and (heir != self.me or self.stands)
        if heir is None or not (electing and named and self.lookout.has_lost(resigned)):
            self.count_proposer(self.me, now)
        elif not self.choose_waiting(now):
            self.inherited_in = self.epoch
            self.choose(heir, now)

    def _succeed(self, heir: NodeId | None, epoch: int, now: Instant) -> None:
        """Begin the epoch after a resignation: without an election if there is an heir."""
        if heir is None or heir not in self.voters or (heir == self.me and not self.stands):
            self.begin_epoch(epoch, now)
        else:
            self.inherited_in = epoch
            self.become(Status.ELECTING, None)
            self.enter(epoch)
            self.choose(heir, now)

    # Watching.

    def on_link_broken(self, fact: LinkBroken, now: Instant) -> None:
        """Elect at once if the leader's process is gone.  Its lease is waited for all the same by every voter that is
        bound to it: nobody else is granted an epoch before."""
        if fact.gone and fact.member == self.chosen and self.status in (Status.CHOSEN, Status.FOLLOWING):
            self._on_overdue(now, "gone")

    HEARS: ClassVar[Hears] = (
        hears(ScoreGiven, on_score_given)
        | hears(VectorsChanged, on_vectors_changed)
        | hears(LinkBroken, on_link_broken)
        | hears(RecordDurable, on_record_durable)
        | hears(Resign, resign)
        | hears(PassOn, pass_on)
        | hears(ChangeVoters, change_voters)
        | hears(LeaveGroup, lambda self, command, now: self.leave(now))
    )

    def _on_overdue(self, now: Instant, reason: str = "silent") -> None:
        if self.status in (Status.CHOSEN, Status.FOLLOWING):
            if self.lookout.seen is None and self.choose_waiting(now):
                return
            if reason == "silent" and self.config.connected and self.ask_leader(now):
                return
            self.patience.vain += self.lookout.seen is None
            missed = self.config.connected and self.lookout.is_missed(now)
            self.absent = self.chosen if missed or reason == "gone" else None
            self.lookout.give_up(now, gone=reason == "gone")
            self.naming.lose(reason)
            self.new_election(now)
        elif self.status is Status.CLAIMING:  # Too few grants in time.
            self.patience.vain += 1
            self.new_election(now)
        elif self.status is Status.OBSERVING:
            self.naming.lose("silent")

    def _observe(self, sender: NodeId, beat: msg.Heartbeat, now: Instant) -> None:
        """Name a leader that acts, as a node without a vote."""
        if beat.acting and not self.naming.is_past(beat.epoch, sender):
            self.wait_until(now + self.config.guard)
            self.naming.name(Term(beat.epoch, sender))
            self.hear_heir(sender, beat)
