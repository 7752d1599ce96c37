"""Elections by application scores among a fixed set of voters; at most one leader acts at a time.  [POLE]

A voter that misses its leader proposes itself, with its score, in the next epoch; greater proposals overwrite lesser
ones, and spread.  A quorum of proposals starts a timer, all of them end the election at once.  The winner claims its
epoch; each voter grants it once, durably, and acks its heartbeats; while a majority does, it leads, on a lease.

    MEASURING ─▶ ELECTING ─▶ CHOSEN ───▶ FOLLOWING ──silence──▶ ELECTING, next epoch
                     └─────▶ CLAIMING ─▶ LEADING ───lease over─▶ ELECTING, next epoch

Deviation [POLE Alg. 1]: proposals are ordered by epoch first; only same-epoch senders count for the quorum, voters do
  not; the timer is started once, and belongs to its epoch; joining by votes never lowers a promised epoch, the leader
  re-establishes itself above it.
Deviation [POLE §3.1]: connections are not what keeps leaders apart: see `promise` and `reign`.
Extension: a heartbeat of a leader that acts settles every voter that hears it: none waits for a quorum of votes.
Extension: resignation with margin, rounds and cool-down, and hand-over without an election (`resignation`).
"""

from collections.abc import Iterable
from random import Random
from typing import Any, ClassVar

from doyen.core.clock import Instant
from doyen.core.commands import LeaveGroup, Resign
from doyen.core.deadline import Deadline
from doyen.core.effects import Out
from doyen.core.ids import TERM_LEAP_MAX, TERM_NUMBER_MAX, NodeId, Term
from doyen.core.kinds import NoLease
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.link import LinkBroken
from doyen.core.machine import Hears, hears
from doyen.core.rank import OracleStanding, ScoreGiven, VectorsChanged
from doyen.election.pole import messages as msg
from doyen.election.pole.ballot import Ballot
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.messages import Status
from doyen.election.pole.promise import Grants, Voter, VoterRecord
from doyen.election.pole.reign import Reign
from doyen.election.pole.scores import Score, Scores
from doyen.errors import ConfigError, LocalProtocolError


class Pole(NoLease):
    """A voter, or an observer that lost its file.  Without `score` the world is asked (`ScoreWanted`)."""

    MESSAGES: ClassVar[Any] = msg.MESSAGES
    RECORD: ClassVar[Any] = VoterRecord

    def __init__(
        self,
        me: NodeId,
        config: PoleConfig,
        out: Out,
        rng: Random,
        *,
        voters: Iterable[NodeId],
        score: Score | None = None,
        restored: VoterRecord | None = None,
        newcomer: bool = False,  # The operator asserts that nobody of this name ever voted.
        durable: bool = True,  # False: promises are kept in memory only; for tests.
    ) -> None:
        self.me, self.config, self.voters = me, config, frozenset(voters)
        if not self.voters or (me not in self.voters and newcomer):
            raise ConfigError(f"{me} must be one of them" if self.voters else "must not be empty", field="voters")
        self.out, self._rng = out, rng
        self.scores = Scores(score, out, config.score_timeout)
        self.voting = me in self.voters and (restored is not None or newcomer)
        self.status = Status.ELECTING if self.voting else Status.OBSERVING
        self.voter = Voter(me, restored, out, durable=durable)
        self.chosen: NodeId | None = None  # The paper's `leader`.
        self.term: Term | None = None  # That of the last `LeaderElected`, unless lost since.
        self.ballot = Ballot(self.epoch, len(self.voters))
        self._gone: NodeId | None = None  # The leader that fell silent: scores leave it out.
        self._modest_in = 0  # The epoch in which this node does not want to lead, having resigned.
        self.grants = Grants(self.voter, config.guard, out)
        self.reign = Reign(config, len(self.voters), out)
        self._deadline = Deadline()  # The end of a claim, of a lease, or of waiting for a leader.

    # Queries.

    @property
    def epoch(self) -> int:
        """Return the promised epoch, which never goes back."""
        return self.voter.promise.epoch

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
        """Whether this node may act as leader at this instant, even where timers are late."""
        lease = self.reign.lease
        return self.status is Status.LEADING and lease is not None and now < lease.until

    def lease_until(self) -> Instant | None:
        """Return when the lease of the present reign ends, by which a watchdog outside must act."""
        lease = self.reign.lease
        return None if lease is None else int(lease.until)

    # Inputs.

    def start(self, now: Instant) -> None:
        if not self.voting:
            known = self.me in self.voters
            self.out.emit(msg.NotVoting() if known else msg.NotAVoter(self.me, tuple(sorted(self.voters))))
            return
        self.voter.wake(now, self.config.guard)
        self.scores.start(now)
        self._new_election(now)

    def on_message(self, sender: NodeId, message: msg.Message, now: Instant) -> None:
        self._look(now)
        if self.status is Status.LEFT or sender not in self.voters or sender == self.me:
            return  # This node's own name from the network is an echo, or a namesake.
        if msg.epoch_of(message) - self.epoch > TERM_LEAP_MAX:
            return
        if self.status is Status.OBSERVING:
            if isinstance(message, msg.Heartbeat):
                self._observe(sender, message, now)
            return
        match message:
            case msg.Propose():
                self._on_propose(sender, message, now)
            case msg.Vote():
                self._on_vote(sender, message, now)
            case msg.Heartbeat():
                self._on_heartbeat(sender, message, now)
            case msg.HeartbeatAck():
                self._on_ack(sender, message, now)
            case msg.Resigned():
                self._on_resigned(sender, message, now)
            case msg.ScoreQuery() if sender == self.chosen:
                self.out.send(sender, msg.ScoreReply(message.number, self.scores.look(self.epoch, None) or ()))
            case msg.ScoreReply():
                self.reign.rivals.reply(sender, message.number, message.standing)

    def on_timer(self, timer: Any, now: Instant) -> None:
        self._look(now)
        match timer:
            case msg.WaitEnds() if timer.number == self._deadline.number:
                if self._deadline.is_over(msg.WaitEnds(timer.number + 1), now, self.out):
                    self._on_overdue(now)
            case msg.HeartbeatIsSent() if timer.tenure == self.reign.tenure and self.status in (
                Status.CLAIMING,
                Status.LEADING,
            ):
                self._beat(now)
                self.out.set_timer(timer, now + self.config.heartbeat_interval)
            case msg.ElectionEnds() if timer.epoch == self.epoch and self.status is Status.ELECTING:
                self._select(now)
            case msg.ProposalRepeats() if timer.epoch == self.epoch and self.status is Status.ELECTING:
                self.out.multicast(self.ballot.proposal())
                wait = min(2 * timer.wait, self.config.retry_max)
                self.out.set_timer(msg.ProposalRepeats(timer.epoch, wait), now + wait)
            case msg.MeasuringEnds() if timer.epoch == self.epoch and self.status is Status.MEASURING:
                self._measured((), now)
            case msg.PromiseEnds() if timer.epoch == self.epoch:
                self._on_promise_ends(now)
            case msg.ScoresAreCompared() if timer.tenure == self.reign.tenure and self.status is Status.LEADING:
                self._compare(now)

    def on_score_given(self, fact: ScoreGiven, now: Instant) -> None:
        """Take the world's answer to `ScoreWanted`."""
        self._look(now)
        standing = self.scores.given(fact)
        if self.status is Status.MEASURING and fact.number == self.epoch:
            self._measured(standing, now)

    def on_vectors_changed(self, fact: VectorsChanged, now: Instant) -> None:
        """Look again for a score that is waited for, as round trips to more members are known."""
        self._look(now)
        if self.status is Status.MEASURING:
            standing = self.scores.look(self.epoch, self._gone)
            if standing is not None:
                self._measured(standing, now)

    def resign(self, command: Resign, now: Instant) -> None:
        """Stop acting at once, and hand over: to that voter, or to the best of the others."""
        self._look(now)
        self.check_heir(command.to)
        if self.status is Status.LEADING:
            self._hand_over(command.to, now)

    def check_heir(self, to: NodeId | None) -> None:
        """Raise what a resignation would raise."""
        if to is not None and (to not in self.voters or to == self.me):
            raise LocalProtocolError(f"cannot hand over to {to}: it is not another voter")

    def leave(self, now: Instant) -> None:
        """Stop for good; a leader hands over, and waits for no disk."""
        self._look(now)
        if self.status is Status.LEADING:
            self._stop_leading("left")
            self.out.multicast(msg.Resigned(self.epoch, self.reign.rivals.best))
        self._become(Status.LEFT, None)

    # Elections.

    def _new_election(self, now: Instant) -> None:
        if self.epoch < TERM_NUMBER_MAX:
            self._begin_epoch(self.epoch + 1, now)

    def _begin_epoch(self, epoch: int, now: Instant, rival: msg.Propose | None = None) -> None:
        """[POLE Alg. 1, start-epoch] Begin with nobody chosen, both sets empty, and the greater of both proposals."""
        self._become(Status.MEASURING, None)
        self.voter.advance(epoch)
        self.grants.forget()
        self.ballot = Ballot(epoch, len(self.voters))
        if rival is not None:
            self.ballot.offer(rival.standing, rival.node)
        if epoch == self._modest_in:
            self._measured((), now)
            return
        standing = self.scores.ask(epoch, self._gone, now)
        if standing is not None:
            self._measured(standing, now)
        else:  # [POLE §5] get-score "simply blocks until enough information is collected": a state, with a deadline.
            self.out.set_timer(msg.MeasuringEnds(epoch), self.scores.patient_until)

    def _measured(self, standing: OracleStanding, now: Instant) -> None:
        """Take part, as the own score is known."""
        self._become(Status.ELECTING, None)
        self.ballot.offer(standing, self.me)
        self.out.multicast(self.ballot.proposal())
        wait = self.config.election_timeout
        self.out.set_timer(msg.ProposalRepeats(self.epoch, wait), now + wait)
        self._count_proposer(self.me, now)

    def _on_propose(self, sender: NodeId, theirs: msg.Propose, now: Instant) -> None:
        if self.chosen is not None:
            self.out.send(sender, msg.Vote(self.epoch, self.chosen))
            return
        if theirs.node not in self.voters:
            return
        if theirs.epoch > self.epoch:
            self._begin_epoch(theirs.epoch, now, theirs)
        elif self.ballot.is_lesser(theirs):
            if self.status is Status.ELECTING:
                self.out.send(sender, self.ballot.proposal())
        elif self.ballot.offer(theirs.standing, theirs.node) and self.status is Status.ELECTING:
            self.out.multicast(self.ballot.proposal())  # A voter that still measures sends its own later.
        if theirs.epoch == self.epoch:
            self._count_proposer(sender, now)

    def _count_proposer(self, node: NodeId, now: Instant) -> None:
        """[POLE Alg. 1, start-timer?] Count a voter that proposed in this epoch."""
        ballot = self.ballot
        ballot.proposers.add(node)
        if self.status is not Status.ELECTING:
            return
        if ballot.complete:
            self._select(now)
        elif ballot.has_quorum and not ballot.timed:
            ballot.timed = True
            self.out.emit(msg.QuorumProposed(self.epoch, now))
            self.out.set_timer(msg.ElectionEnds(self.epoch), now + self.config.election_timeout)

    def _select(self, now: Instant) -> None:
        assert self.ballot.best is not None
        leader = self.ballot.best[1]
        self.out.emit(msg.Selected(self.epoch, leader, tuple(sorted(self.ballot.proposers)), now))
        self._choose(leader, now)

    def _on_vote(self, sender: NodeId, vote: msg.Vote, now: Instant) -> None:
        """[POLE Alg. 1, line 54] Join the established leader, for which a quorum votes."""
        leader = vote.leader
        if self.chosen is None and leader in self.voters and self.ballot.vote(sender, vote.epoch, leader):
            if leader != self.me:
                # Not below the promised epoch: the leader will hear of that one, and establish itself above it.
                self.voter.advance(max(vote.epoch, self.epoch))
                self._choose(leader, now)

    # Choosing, claiming, granting.

    def _choose(self, leader: NodeId, now: Instant) -> None:
        if leader == self.me:
            self._claim_epoch(now)
            return
        self._become(Status.CHOSEN, leader)
        self._wait_until(now + self.config.guard)
        kept = self.grants.kept(leader, self.epoch)
        if kept is not None:
            self._heed(leader, kept, now)

    def _claim_epoch(self, now: Instant) -> None:
        self._become(Status.CLAIMING, self.me)
        self.reign.end()
        patience = self.config.claim_timeout + int(self._rng.random() * self.config.election_timeout)
        self._wait_until(now + patience)
        free_at = self.voter.free_at(self.me)
        if now < free_at:
            self.out.set_timer(msg.PromiseEnds(self.epoch), free_at)
        else:
            self._grant_self(now)

    def _grant_self(self, now: Instant) -> None:
        """Open a claim with its first grant, which is this node's own."""
        self.reign.open_claim(now)
        self.voter.advance(self.epoch, self.me)
        self.voter.bound_until = now
        self._beat(now)

    def _on_promise_ends(self, now: Instant) -> None:
        """Grant the chosen leader its epoch, as an earlier leader's lease is over."""
        if self.status is Status.CLAIMING and self.reign.claim is None:
            self._grant_self(now)
        elif self.chosen is not None:
            kept = self.grants.kept(self.chosen, self.epoch)
            if kept is not None:
                self.grants.acknowledge(self.chosen, kept, now)

    def _beat(self, now: Instant) -> None:
        established = self.status is Status.LEADING and self.term is not None and self.term.number == self.epoch
        self.reign.beat(self.epoch, established, now)
        self._on_answered(self.me, now, now)

    def _on_heartbeat(self, sender: NodeId, beat: msg.Heartbeat, now: Instant) -> None:
        mine = self.chosen == sender and self.status in (Status.CHOSEN, Status.FOLLOWING)
        if beat.epoch < self.epoch:
            if mine:
                self._wait_until(now + self.config.guard)
            self.grants.refuse(sender, beat)
            return
        if beat.epoch > self.epoch:
            if beat.acting or mine:
                self.voter.advance(beat.epoch)
                if not mine:
                    self._choose(sender, now)
            elif self.chosen is not None:
                self.out.send(sender, msg.Vote(self.epoch, self.chosen))
                return
            else:
                self._begin_epoch(beat.epoch, now)
                self.grants.keep(sender, beat)
                return
        elif self.chosen != sender:
            if not beat.acting:
                if self.chosen is None:
                    self.grants.keep(sender, beat)  # It may yet be chosen here, too.
                return
            self._choose(sender, now)
        self._heed(sender, beat, now)

    def _heed(self, leader: NodeId, beat: msg.Heartbeat, now: Instant) -> None:
        """Follow and acknowledge a heartbeat of the chosen leader, in the promised epoch."""
        self._wait_until(now + self.config.guard)
        if beat.acting:
            self._follow(Term(beat.epoch, leader))
        self.grants.acknowledge(leader, beat, now)

    def _follow(self, term: Term) -> None:
        self._become(Status.FOLLOWING, term.leader)
        self._gone = None
        self._name(term)

    def _on_ack(self, sender: NodeId, ack: msg.HeartbeatAck, now: Instant) -> None:
        if self.status not in (Status.CLAIMING, Status.LEADING):
            return
        if ack.granted:
            sent_at = self.reign.sent_at(ack.number)
            if ack.epoch == self.epoch and sent_at is not None and self.reign.claim is not None:
                self._on_answered(sender, sent_at, now)
        elif ack.epoch >= self.epoch and self.status is Status.LEADING:
            self._establish_above(ack.epoch, now)
        elif ack.epoch > self.epoch:
            self._begin_epoch(ack.epoch, now)

    def _on_answered(self, voter: NodeId, sent_at: Instant, now: Instant) -> None:
        if self.reign.answered(voter, sent_at, now):
            self._lead(now)
        if self.reign.lease is not None:
            self._wait_until(self.reign.lease.until)

    # Leading.

    def _lead(self, now: Instant) -> None:
        """Begin to act, as a majority has granted the epoch, and is bound."""
        if self.status is not Status.LEADING:
            self.out.set_timer(msg.ScoresAreCompared(self.reign.tenure), now + self.config.resign_interval)
        self.reign.begin(now)
        self.term, self._gone = Term(self.epoch, self.me), None
        self._become(Status.LEADING, self.me)
        self.out.emit(LeaderElected(self.term))
        self._beat(now)

    def _establish_above(self, epoch: int, now: Instant) -> None:
        """Claim a higher epoch, as some voter has promised more, and must not go back (decision 32)."""
        if epoch < TERM_NUMBER_MAX:
            self.voter.advance(epoch + 1)
            self._grant_self(now)

    def _stop_leading(self, reason: str) -> None:
        assert self.status is Status.LEADING and self.term is not None
        term, self.term = self.term, None
        self.reign.end()
        self._become(Status.ELECTING, None)
        self.out.emit(LeaderLost(term, reason))

    def _look(self, now: Instant) -> None:
        """Before any input: end a reign whose lease is over, however late the timer."""
        if self.status is Status.LEADING and not self.leads(now):
            self._stop_leading("lease over")
            self._new_election(now)

    def _compare(self, now: Instant) -> None:
        """[POLE §5] Hand over if another is the better leader; scores include the present one."""
        winner = self.reign.rivals.winner(self.scores.look(self.epoch, None) or ())
        if winner is not None and now - self.reign.since >= self.config.cool_down:
            self._hand_over(winner, now)
            return
        self.out.multicast(msg.ScoreQuery(self.reign.rivals.ask()))
        self.out.set_timer(msg.ScoresAreCompared(self.reign.tenure), now + self.config.resign_interval)

    def _hand_over(self, to: NodeId | None, now: Instant) -> None:
        epoch, heir = self.epoch, to or self.reign.rivals.best
        self._stop_leading("resigned")
        self.voter.advance(epoch + 1)  # The barrier: nobody hears of the end before this node's own application does.
        self.out.multicast(msg.Resigned(epoch, heir))
        self._modest_in = epoch + 1
        self._succeed(heir, now)

    def _on_resigned(self, sender: NodeId, message: msg.Resigned, now: Instant) -> None:
        self.voter.release(sender, message.epoch)
        if self.chosen == sender and message.epoch >= self.epoch:
            self._lose("resigned")
            self.voter.advance(message.epoch + 1)
            self._succeed(message.to, now)

    def _succeed(self, heir: NodeId | None, now: Instant) -> None:
        """Begin the epoch after a resignation: without an election if there is an heir."""
        if heir is None or heir not in self.voters:
            self._begin_epoch(self.epoch, now)
        else:
            self._choose(heir, now)

    # Watching.

    def _wait_until(self, at: Instant) -> None:
        self._deadline.move(at, msg.WaitEnds(self._deadline.number + 1), self.out)

    def on_link_broken(self, fact: LinkBroken, now: Instant) -> None:
        """Elect at once if the leader's process is gone.  Its lease is waited for all the same by every voter that is
        bound to it: nobody else is granted an epoch before."""
        if fact.gone and fact.member == self.chosen and self.status in (Status.CHOSEN, Status.FOLLOWING):
            self._on_overdue(now, "gone")

    HEARS: ClassVar[Hears] = (
        hears(ScoreGiven, on_score_given)
        | hears(VectorsChanged, on_vectors_changed)
        | hears(LinkBroken, on_link_broken)
        | hears(Resign, resign)
        | hears(LeaveGroup, lambda self, command, now: self.leave(now))
    )

    def _on_overdue(self, now: Instant, reason: str = "silent") -> None:
        if self.status in (Status.CHOSEN, Status.FOLLOWING):
            self._gone = self.chosen
            self._lose(reason)
            self._new_election(now)
        elif self.status is Status.CLAIMING:  # Too few grants in time.
            self._new_election(now)
        elif self.status is Status.OBSERVING:
            self._lose("silent")

    def _name(self, term: Term) -> None:
        if self.term != term:
            self.term = term
            self.out.emit(LeaderElected(term))

    def _lose(self, reason: str) -> None:
        """Lose a leader other than this node."""
        if self.term is not None:
            term, self.term = self.term, None
            self.out.emit(LeaderLost(term, reason))

    def _observe(self, sender: NodeId, beat: msg.Heartbeat, now: Instant) -> None:
        """Name a leader that acts, as a node without a vote."""
        term = Term(beat.epoch, sender)
        if beat.acting and (self.term is None or term >= self.term):
            self._wait_until(now + self.config.guard)
            self._name(term)

    # State.

    def _become(self, status: Status, chosen: NodeId | None) -> None:
        """Set the status and the chosen leader, here alone; a leader stops by `_stop_leading` alone."""
        if self.status is Status.LEADING and status is not Status.LEADING and self.term is not None:
            self._stop_leading("outranked")
        self.status, self.chosen = status, chosen
