"""Elections by application scores among a fixed set of voters; at most one leader acts at a time.  [POLE]

Whoever misses its leader proposes itself, with its score, in the next epoch; greater proposals overwrite lesser ones,
and spread.  A quorum of proposals starts a timer, all of them end the election at once.  The winner claims its epoch;
each voter grants it once, durably, and acks its heartbeats; while a majority does, it leads, on a lease.

    MEASURING ─▶ ELECTING ─▶ CHOSEN ───▶ FOLLOWING ──silence──▶ ELECTING, next epoch
                     └─────▶ CLAIMING ─▶ LEADING ───lease over─▶ ELECTING, next epoch

Deviation [POLE Alg. 1]: proposals are ordered by epoch first; only same-epoch senders count for the quorum, voters do
  not; the timer is started once, and belongs to its epoch; joining by votes never lowers a promised epoch, the leader
  re-establishes itself above it.
Deviation [POLE §3.1]: connections are not what keeps leaders apart: see `promise` and `lease`.
Extension: a heartbeat of a leader that acts settles whoever hears it, so that nobody waits for a quorum of votes.
Extension: resignation with margin, rounds and cool-down, and hand-over without an election (`resignation`).
"""

from collections.abc import Iterable
from random import Random
from typing import Any, ClassVar

from doyen.core.clock import Instant
from doyen.core.effects import Out
from doyen.core.ids import TERM_LEAP_MAX, TERM_NUMBER_MAX, NodeId, Term
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.link import LinkBroken
from doyen.core.rank import ScoreGiven
from doyen.election.pole import resignation
from doyen.election.pole.ballot import Ballot
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.grants import Grants
from doyen.election.pole.lease import Lease
from doyen.election.pole.messages import (
    MESSAGES,
    ElectionOver,
    Heartbeat,
    HeartbeatAck,
    HeartbeatDue,
    Message,
    NotVoting,
    Propose,
    QueryDue,
    QuorumProposed,
    Resigned,
    RetryDue,
    ScoreOverdue,
    ScoreQuery,
    ScoreReply,
    Selected,
    Standing,
    Unbound,
    Vote,
)
from doyen.election.pole.promise import Promise, Voter
from doyen.election.pole.reign import Reign
from doyen.election.pole.scores import Score, Scores
from doyen.election.pole.status import Status
from doyen.election.pole.watch import Deadline, WatchDue
from doyen.errors import ConfigError, LocalProtocolError


class Pole:
    """One voter, or an observer that lost its file.  Without `score` the world is asked (`ScoreWanted`)."""

    MESSAGES: ClassVar[Any] = MESSAGES
    RECORD: ClassVar[Any] = Promise

    def __init__(
        self,
        me: NodeId,
        config: PoleConfig,
        out: Out,
        rng: Random,
        *,
        voters: Iterable[NodeId],
        score: Score | None = None,
        restored: Promise | None = None,
        newcomer: bool = False,  # The operator's word that nobody of this name ever voted.
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
        self.term: Term | None = None  # The reign last told of, unless lost since.
        self.ballot = Ballot(self.epoch, len(self.voters))
        self._gone: NodeId | None = None  # The leader that fell silent: scores are without it.
        self.modest_in = 0  # The epoch in which it does not want to lead, having resigned.
        self.grants = Grants(self.voter, config.guard, out)
        self.reign = Reign(config, len(self.voters), out)
        self._deadline = Deadline(out)  # Of a claim, a lease, or a leader's silence.

    # Queries.

    @property
    def epoch(self) -> int:
        """As promised: it never goes back."""
        return self.voter.promise.epoch

    @property
    def leader(self) -> NodeId | None:
        return None if self.term is None else self.term.leader

    @property
    def named(self) -> NodeId | None:
        return self.leader

    @property
    def stage(self) -> str:
        return ""

    @property
    def leader_count(self) -> int:
        return 1

    @property
    def is_leader(self) -> bool:
        return self.status is Status.LEADING

    def leads(self, now: Instant) -> bool:
        """Whether it may act at this very instant: right also where timers are late."""
        lease = self.reign.lease
        return self.status is Status.LEADING and lease is not None and now < lease.until

    def lease_until(self) -> Instant | None:
        lease = self.reign.lease
        return None if lease is None else int(lease.until)

    @property
    def lease(self) -> Lease | None:
        """Of the reign under way: what a watchdog outside must end by."""
        return self.reign.lease

    # Inputs.

    def start(self, now: Instant) -> None:
        if not self.voting:
            self.out.emit(NotVoting())
            return
        self.voter.wake(now, self.config.guard)
        self.scores.start(now)
        self._new_election(now)

    def on_message(self, sender: NodeId, message: Message, now: Instant) -> None:
        self._look(now)
        if self.status is Status.LEFT or sender not in self.voters or sender == self.me:
            return  # My own name from the network is an echo, or a namesake.
        if getattr(message, "epoch", 0) - self.epoch > TERM_LEAP_MAX:
            return
        if self.status is Status.OBSERVING:
            if isinstance(message, Heartbeat):
                self._observe(sender, message, now)
            return
        match message:
            case Propose():
                self._on_propose(sender, message, now)
            case Vote():
                self._on_vote(sender, message, now)
            case Heartbeat():
                self._on_heartbeat(sender, message, now)
            case HeartbeatAck():
                self._on_ack(sender, message, now)
            case Resigned():
                resignation.on_resigned(self, sender, message, now)
            case ScoreQuery() if sender == self.chosen:
                self.out.send(sender, ScoreReply(message.number, self.scores.look(self.epoch, None) or ()))
            case ScoreReply():
                self.reign.rivals.reply(sender, message.number, message.standing)

    def on_timer(self, timer: Any, now: Instant) -> None:
        self._look(now)
        match timer:
            case WatchDue() if self._deadline.is_over(timer, now):
                self._on_overdue(now)
            case HeartbeatDue() if timer.tenure == self.reign.tenure and self.status in (
                Status.CLAIMING,
                Status.LEADING,
            ):
                self._beat(now)
                self.out.set_timer(timer, now + self.config.heartbeat_interval)
            case ElectionOver():
                self._on_election_over(timer, now)
            case RetryDue() if timer.epoch == self.epoch and self.status is Status.ELECTING:
                self.out.multicast(self.ballot.proposal())
                wait = min(2 * timer.wait, self.config.retry_max)
                self.out.set_timer(RetryDue(timer.epoch, wait), now + wait)
            case ScoreOverdue() if timer.epoch == self.epoch and self.status is Status.MEASURING:
                self._measured((), now)
            case Unbound() if timer.epoch == self.epoch:
                self._on_unbound(now)
            case QueryDue() if timer.tenure == self.reign.tenure and self.status is Status.LEADING:
                resignation.compare(self, now)

    def on_score_given(self, fact: ScoreGiven, now: Instant) -> None:
        """The world's answer to `ScoreWanted`."""
        self._look(now)
        standing = self.scores.given(fact)
        if self.status is Status.MEASURING and fact.number == self.epoch:
            self._measured(standing, now)

    def on_vectors_changed(self, fact: Any, now: Instant) -> None:
        """Round trips to more members are known, or to fewer: a score that was waited for may be there."""
        self._look(now)
        if self.status is Status.MEASURING:
            standing = self.scores.look(self.epoch, self._gone)
            if standing is not None:
                self._measured(standing, now)

    def resign(self, now: Instant, to: NodeId | None = None) -> None:
        """Stops acting at once, and hands over: to that voter, or to whoever is the best of the others."""
        self._look(now)
        self.check_heir(to)
        if self.status is Status.LEADING:
            resignation.resign(self, now, to)

    def check_heir(self, to: NodeId | None) -> None:
        """Raises what a resignation would."""
        if to is not None and (to not in self.voters or to == self.me):
            raise LocalProtocolError(f"cannot hand over to {to}: it is not another voter")

    def leave(self, now: Instant) -> None:
        """For good: a leader hands over, and waits for no disk."""
        self._look(now)
        if self.status is Status.LEADING:
            self.stop_leading("left")
            self.out.multicast(Resigned(self.epoch, self.reign.rivals.best))
        self._become(Status.LEFT, None)

    # Elections.

    def _new_election(self, now: Instant) -> None:
        if self.epoch < TERM_NUMBER_MAX:
            self.begin_epoch(self.epoch + 1, now)

    def begin_epoch(self, epoch: int, now: Instant, rival: Propose | None = None) -> None:
        """[POLE Alg. 1, start-epoch] With nobody chosen, both sets empty, and the maximum of ours and theirs."""
        self._become(Status.MEASURING, None)
        self.voter.advance(epoch)
        self.grants.forget()
        self.ballot = Ballot(epoch, len(self.voters))
        if rival is not None:
            self.ballot.offer(rival.standing, rival.node)
        if epoch == self.modest_in:
            self._measured((), now)
            return
        standing = self.scores.ask(epoch, self._gone, now)
        if standing is not None:
            self._measured(standing, now)
        else:  # [POLE §5] get-score "simply blocks until enough information is collected": a state, with a deadline.
            self.out.set_timer(ScoreOverdue(epoch), self.scores.patient_until)

    def _measured(self, standing: Standing, now: Instant) -> None:
        """Its own score is known: it takes part."""
        self._become(Status.ELECTING, None)
        self.ballot.offer(standing, self.me)
        self.out.multicast(self.ballot.proposal())
        wait = self.config.election_timeout
        self.out.set_timer(RetryDue(self.epoch, wait), now + wait)
        self._count_proposer(self.me, now)

    def _on_propose(self, sender: NodeId, theirs: Propose, now: Instant) -> None:
        if self.chosen is not None:
            self.out.send(sender, Vote(self.epoch, self.chosen))
            return
        if theirs.node not in self.voters:
            return
        if theirs.epoch > self.epoch:
            self.begin_epoch(theirs.epoch, now, theirs)
        elif self.ballot.is_lesser(theirs):
            self._answer_lesser(sender)
        else:
            self._consider(theirs)
        if theirs.epoch == self.epoch:
            self._count_proposer(sender, now)

    def _answer_lesser(self, sender: NodeId) -> None:
        if self.status is Status.ELECTING:
            self.out.send(sender, self.ballot.proposal())

    def _consider(self, theirs: Propose) -> None:
        """Overwritten by a greater one, which is passed on; while it measures, its own word is still to come."""
        if self.ballot.offer(theirs.standing, theirs.node) and self.status is Status.ELECTING:
            self.out.multicast(self.ballot.proposal())

    def _count_proposer(self, node: NodeId, now: Instant) -> None:
        """[POLE Alg. 1, start-timer?] Only for who proposed in this epoch."""
        ballot = self.ballot
        ballot.proposers.add(node)
        if self.status is not Status.ELECTING:
            return
        if ballot.complete:
            self._select(now)
        elif ballot.has_quorum and not ballot.timed:
            self._start_timer(now)

    def _start_timer(self, now: Instant) -> None:
        self.ballot.timed = True
        self.out.emit(QuorumProposed(self.epoch, now))
        self.out.set_timer(ElectionOver(self.epoch), now + self.config.election_timeout)

    def _on_election_over(self, timer: ElectionOver, now: Instant) -> None:
        if timer.epoch == self.epoch and self.status is Status.ELECTING:
            self._select(now)

    def _select(self, now: Instant) -> None:
        assert self.ballot.best is not None
        leader = self.ballot.best[1]
        self.out.emit(Selected(self.epoch, leader, tuple(sorted(self.ballot.proposers)), now))
        self.choose(leader, now)

    def _on_vote(self, sender: NodeId, vote: Vote, now: Instant) -> None:
        """[POLE Alg. 1, line 54] A late process comes to the established leader."""
        if self.chosen is None and vote.leader in self.voters and self.ballot.vote(sender, vote.epoch, vote.leader):
            self._join(vote.epoch, vote.leader, now)

    def _join(self, epoch: int, leader: NodeId, now: Instant) -> None:
        """An epoch below a promised one is not adopted: the leader will hear of ours, and establish itself above it."""
        if leader != self.me:
            self.voter.advance(max(epoch, self.epoch))
            self.choose(leader, now)

    # Choosing, claiming, granting.

    def choose(self, leader: NodeId, now: Instant) -> None:
        if leader == self.me:
            self._claim_epoch(now)
            return
        self._become(Status.CHOSEN, leader)
        self._deadline.move(now + self.config.guard)
        kept = self.grants.kept(leader, self.epoch)
        if kept is not None:
            self._heed(leader, kept, now)

    def _claim_epoch(self, now: Instant) -> None:
        self._become(Status.CLAIMING, self.me)
        self.reign.end()
        patience = self.config.claim_timeout + int(self._rng.random() * self.config.election_timeout)
        self._deadline.move(now + patience)
        free_at = self.voter.free_at(self.me)
        if now < free_at:
            self.out.set_timer(Unbound(self.epoch), free_at)
        else:
            self._grant_self(now)

    def _grant_self(self, now: Instant) -> None:
        """The first grant of a claim is its own."""
        self.reign.open_claim(now)
        self.voter.advance(self.epoch, self.me)
        self.voter.bound_until = now
        self._beat(now)

    def _on_unbound(self, now: Instant) -> None:
        """An earlier leader's lease is over: whom we chose can have its grant."""
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

    def _on_heartbeat(self, sender: NodeId, beat: Heartbeat, now: Instant) -> None:
        mine = self.chosen == sender and self.status in (Status.CHOSEN, Status.FOLLOWING)
        if beat.epoch < self.epoch:
            if mine:
                self._deadline.move(now + self.config.guard)
            self.grants.refuse(sender, beat)
            return
        if beat.epoch > self.epoch:
            if beat.acting or mine:
                self.voter.advance(beat.epoch)
                if not mine:
                    self.choose(sender, now)
            elif self.chosen is not None:
                self.out.send(sender, Vote(self.epoch, self.chosen))
                return
            else:
                self.begin_epoch(beat.epoch, now)
                self.grants.keep(sender, beat)
                return
        elif self.chosen != sender:
            if not beat.acting:
                if self.chosen is None:
                    self.grants.keep(sender, beat)  # It may yet be chosen here, too.
                return
            self.choose(sender, now)
        self._heed(sender, beat, now)

    def _heed(self, leader: NodeId, beat: Heartbeat, now: Instant) -> None:
        """From whom we chose, in our epoch."""
        self._deadline.move(now + self.config.guard)
        if beat.acting:
            self._follow(Term(beat.epoch, leader))
        self.grants.acknowledge(leader, beat, now)

    def _follow(self, term: Term) -> None:
        self._become(Status.FOLLOWING, term.leader)
        self._gone = None
        self._name(term)

    def _on_ack(self, sender: NodeId, ack: HeartbeatAck, now: Instant) -> None:
        if self.status not in (Status.CLAIMING, Status.LEADING):
            return
        if ack.granted:
            sent_at = self.reign.sent_at(ack.number)
            if ack.epoch == self.epoch and sent_at is not None and self.reign.claim is not None:
                self._on_answered(sender, sent_at, now)
        elif ack.epoch >= self.epoch and self.status is Status.LEADING:
            self._establish_above(ack.epoch, now)
        elif ack.epoch > self.epoch:
            self.begin_epoch(ack.epoch, now)

    def _on_answered(self, voter: NodeId, sent_at: Instant, now: Instant) -> None:
        if self.reign.answered(voter, sent_at, now):
            self._lead(now)
        if self.reign.lease is not None:
            self._deadline.move(self.reign.lease.until)

    # Leading.

    def _lead(self, now: Instant) -> None:
        """A majority has granted the epoch, and is bound."""
        if self.status is not Status.LEADING:
            self.out.set_timer(QueryDue(self.reign.tenure), now + self.config.resign_interval)
        self.reign.begin(now)
        self.term, self._gone = Term(self.epoch, self.me), None
        self._become(Status.LEADING, self.me)
        self.out.emit(LeaderElected(self.term))
        self._beat(now)

    def _establish_above(self, epoch: int, now: Instant) -> None:
        """Some voter promised more than our epoch: it cannot grant it, so we take one that it can."""
        if epoch < TERM_NUMBER_MAX:
            self.voter.advance(epoch + 1)
            self._grant_self(now)

    def stop_leading(self, reason: str) -> None:
        assert self.status is Status.LEADING and self.term is not None
        term, self.term = self.term, None
        self.reign.end()
        self._become(Status.ELECTING, None)
        self.out.emit(LeaderLost(term, reason))

    def _look(self, now: Instant) -> None:
        """Before anything else: a lease that has run out has run out, however late the timer."""
        if self.status is Status.LEADING and self._lease_is_over(now):
            self.stop_leading("lease over")
            self._new_election(now)

    def _lease_is_over(self, now: Instant) -> bool:
        assert self.reign.lease is not None
        return now >= self.reign.lease.until

    # Watching.

    def on_link_broken(self, fact: LinkBroken, now: Instant) -> None:
        """The process of the leader is gone: the election need not wait for its silence.  Its lease is waited for
        all the same, by every voter that is bound to it: nobody else is granted before."""
        if fact.gone and fact.member == self.chosen and self.status in (Status.CHOSEN, Status.FOLLOWING):
            self._on_overdue(now, "gone")

    def _on_overdue(self, now: Instant, reason: str = "silent") -> None:
        if self.status in (Status.CHOSEN, Status.FOLLOWING):
            self._gone = self.chosen
            self.lose(reason)
            self._new_election(now)
        elif self.status is Status.CLAIMING:  # Too few grants in time.
            self._new_election(now)
        elif self.status is Status.OBSERVING:
            self.lose("silent")

    def _name(self, term: Term) -> None:
        if self.term != term:
            self.term = term
            self.out.emit(LeaderElected(term))

    def lose(self, reason: str) -> None:
        """Of a leader that is another."""
        if self.term is not None:
            term, self.term = self.term, None
            self.out.emit(LeaderLost(term, reason))

    def _observe(self, sender: NodeId, beat: Heartbeat, now: Instant) -> None:
        """Without a vote: only who acts counts."""
        term = Term(beat.epoch, sender)
        if beat.acting and (self.term is None or term >= self.term):
            self._deadline.move(now + self.config.guard)
            self._name(term)

    # State.

    def _become(self, status: Status, chosen: NodeId | None) -> None:
        """The sole writer of both.  Whoever leads stops by `stop_leading`, and by nothing else."""
        if self.status is Status.LEADING and status is not Status.LEADING and self.term is not None:
            self.stop_leading("outranked")
        self.status, self.chosen = status, chosen
