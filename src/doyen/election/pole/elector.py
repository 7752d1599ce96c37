"""A voter: it chooses a leader, claims an epoch, and answers the claims of others.  [POLE Alg. 1]

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
Extension: only voters that exchange messages with a majority stand, a voter without a quorum answers claims, and one
  that does not hear the leader believes another that does (`connectivity`, decision 33).
"""

from collections.abc import Iterable
from random import Random

from doyen.core.clock import Duration, Instant
from doyen.core.deadline import Deadline
from doyen.core.effects import Out
from doyen.core.ids import TERM_NUMBER_MAX, NodeId, Term
from doyen.core.rank import OracleStanding
from doyen.election.pole import messages as msg
from doyen.election.pole.ballot import Ballot
from doyen.election.pole.charter import Keeper
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.connectivity import Links, Lookout, Sight, told
from doyen.election.pole.electorate import Electorate
from doyen.election.pole.messages import Status
from doyen.election.pole.naming import Naming
from doyen.election.pole.patience import Patience
from doyen.election.pole.promise import Grants, Voter, VoterRecord
from doyen.election.pole.reign import Reign
from doyen.election.pole.scores import Score, Scores
from doyen.errors import ConfigError


class Elector:
    """One voter's elections: its state, and what it does in each."""

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
        stands: bool = True,  # False: it votes, and is never a candidate: a witness.
    ) -> None:
        self.me, self.config, self.stands = me, config, stands
        self.able = restored is not None or newcomer  # It votes wherever it is a voter.
        self.voter = Voter(me, restored, out, durable=durable and self.able)
        self.keeper = Keeper(me, Electorate(0, frozenset(voters)), self.voter, out)
        self.electorate = self.keeper.newest.electorate  # A durable one wins over the configured one.
        if not self.voters:
            raise ConfigError("must not be empty", field="voters")
        self.out, self._rng = out, rng
        self.scores = Scores(score, out, config.score_timeout)
        self.status = Status.ELECTING if self.voting else Status.OBSERVING
        self.epoch = self.voter.promise.epoch  # That of the present election or leader, never below the promise.
        self.chosen: NodeId | None = None  # The paper's `leader`.
        self.naming = Naming(out)
        self.lookout = Lookout(config)
        self.links = Links(me, config.window)
        self.ballot = Ballot(self.epoch, self.electorate)
        self.modest_in = 0  # The epoch in which this node does not want to lead, having resigned.
        self.inherited_in = 0  # The epoch whose leader the one before it has named.
        self.grants = Grants(self.voter, config.guard, out)
        self.reign = Reign(me, config, self.voter, self.electorate, out)
        self.deadline = Deadline()  # The end of a claim, of a lease, or of waiting for a leader.
        self.absent: NodeId | None = None  # One that resigned, or whose process is gone: elections do not wait for it.
        self.patience = Patience(config, self.voter)

    # Queries.

    @property
    def voting(self) -> bool:
        return self.able and self.me in self.electorate.names

    @property
    def may_lead(self) -> bool:
        """Return whether a claim that has its majority is enough to lead."""
        return True

    @property
    def voters(self) -> frozenset[NodeId]:
        """Return everybody whose vote counts."""
        return self.electorate.names

    @property
    def term(self) -> Term | None:
        """Return the term of the leader that is named here."""
        return self.naming.term

    def is_connected(self, now: Instant) -> bool:
        """Return whether this voter and a majority have heard each other lately."""
        return not self.config.connected or self.electorate.is_majority(self.links.both_ways(now))

    @property
    def is_established(self) -> bool:
        """Return whether this node leads in the very epoch that it claims."""
        return self.status is Status.LEADING and self.term is not None and self.term.number == self.epoch

    # Elections.

    def new_election(self, now: Instant) -> None:
        if self.epoch < TERM_NUMBER_MAX:
            self.begin_epoch(self.epoch + 1, now)

    def begin_epoch(self, epoch: int, now: Instant, rival: msg.Propose | None = None) -> None:
        """[POLE Alg. 1, start-epoch] Begin with nobody chosen, both sets empty, and the greater of both proposals."""
        self.become(Status.MEASURING, None)
        self.enter(epoch)
        self.out.emit(msg.ElectionBegun(epoch))
        if rival is not None:
            self.ballot.offer_of(rival)
        if epoch == self.modest_in or not self.stands:
            self.measured((), now)
            return
        standing = self.scores.ask(epoch, self.lookout.gone, now)
        if standing is not None:
            self.measured(standing, now)
        else:  # [POLE §5] get-score "simply blocks until enough information is collected": a state, with a deadline.
            self.out.set_timer(msg.MeasuringEnds(epoch), self.scores.patient_until)

    def enter(self, epoch: int) -> None:
        """Take part in that epoch, and no longer in the last; only a grant is a promise not to return."""
        self.epoch = epoch
        self.grants.forget()
        self.ballot = Ballot(epoch, self.electorate)

    def measured(self, standing: OracleStanding, now: Instant) -> None:
        """Take part, as the own score is known."""
        self.become(Status.ELECTING, None)
        self.ballot.mine = standing
        self._stand(now)
        self.repeat(self.config.election_timeout, now)
        self.count_proposer(self.me, now)

    def _stand(self, now: Instant) -> bool:
        """Be a candidate once this voter is connected; return whether it is the greatest one thereby."""
        mine = self.ballot.mine
        if mine is None or not self.stands or self.me in self.ballot.standing or not self.is_connected(now):
            return False
        self.ballot.standing.add(self.me)
        return self.ballot.offer(mine, self.me)

    def proposal(self, now: Instant) -> msg.Propose:
        heard = self.links.heard(now) if self.config.connected else None
        return self.ballot.proposal(heard, self.me, self.voter.stamp)

    def repeat(self, wait: Duration, now: Instant) -> None:
        """Propose, and again after a while."""
        self.out.multicast(self.proposal(now))
        self.ballot.repeat_wait = wait
        self.out.set_timer(msg.ProposalRepeats(self.epoch, wait), now + wait)

    def on_propose(self, sender: NodeId, theirs: msg.Propose, is_news: bool, now: Instant) -> None:
        if self.chosen is not None and self._is_settled(sender, theirs, now):
            return
        if theirs.node is not None and theirs.node not in self.voters:
            return
        ballot, said = self.ballot, False
        if theirs.epoch > self.epoch:
            self.begin_epoch(theirs.epoch, now, theirs)
            ballot, said = self.ballot, True
        elif self.status is Status.ELECTING:
            lesser = ballot.is_lesser(theirs)
            if theirs.epoch == self.epoch and (ballot.offer_of(theirs) | self._stand(now)):
                self.out.multicast(self.proposal(now))
            elif lesser or (is_news and self.config.connected):
                self.out.send(sender, self.proposal(now))
        elif theirs.epoch == self.epoch:
            ballot.offer_of(theirs)  # A voter that still measures sends its own later.
        if theirs.epoch == self.epoch:
            if theirs.stands:
                ballot.standing.add(sender)
            if self._stand(now) and not said:
                self.out.multicast(self.proposal(now))
            self.count_proposer(sender, now)

    def _is_settled(self, sender: NodeId, theirs: msg.Propose, now: Instant) -> bool:
        """Tell a proposer of the leader here; return False if this voter only heard of that one, too long ago."""
        vote = None if self._is_revoked(sender, theirs.epoch) else self._vouch(now)
        if vote is not None:
            self.out.send(sender, vote)
        elif self.lookout.seen is None and theirs.epoch <= self.epoch:
            self.out.send(sender, self.proposal(now))
        return vote is not None or self.lookout.seen is None or theirs.epoch <= self.epoch

    def _is_revoked(self, sender: NodeId, epoch: int) -> bool:
        """Return whether the voter that reported the chosen one has turned to a later epoch: its report is void."""
        return sender == self.lookout.source and epoch > self.epoch

    def _vouch(self, now: Instant) -> msg.Vote | None:
        """Return what a settled voter says of its leader; None while it cannot know that there is one."""
        assert self.chosen is not None
        if not self.config.connected:
            return msg.Vote(self.epoch, self.chosen)
        if self.chosen != self.me:
            return self.lookout.vote(now)
        if self.status is Status.LEADING and self.term is not None:
            return msg.Vote(self.term.number, self.me, 0, True)
        return msg.Vote(self.epoch, self.me, 0, False)

    def count_proposer(self, node: NodeId, now: Instant) -> None:
        """[POLE Alg. 1, start-timer?] Count a voter that proposed in this epoch."""
        ballot = self.ballot
        ballot.proposers.add(node)
        if self.status is not Status.ELECTING or ballot.best is None:
            return
        if ballot.is_complete(self.absent):
            self.select(now)
        elif ballot.has_quorum and not ballot.timed:
            ballot.timed = True
            ends_at = now + self.patience.stretched(self.config.election_timeout)
            self.out.emit(msg.QuorumProposed(self.epoch, ends_at))
            self.out.set_timer(msg.ElectionEnds(self.epoch), ends_at)

    def select(self, now: Instant) -> None:
        assert self.ballot.best is not None
        leader = self.ballot.best[1]
        if leader == self.me and not self.is_connected(now):
            self.new_election(now)
            return
        self.out.emit(msg.Selected(self.epoch, leader, tuple(sorted(self.ballot.proposers)), now))
        self.choose(leader, now)

    def on_vote(self, sender: NodeId, vote: msg.Vote, now: Instant) -> None:
        """[POLE Alg. 1, line 54] Join the established leader: for which a quorum votes, or which somebody hears."""
        if vote.leader not in self.voters or vote.leader == self.me:
            return
        sight = told(sender, vote, self.config.election_timeout, now) if self.config.connected else None
        if sight is not None:
            self.on_told(sender, sight, now)
        elif self.chosen is None and self.ballot.vote(sender, vote.epoch, vote.leader):
            # Not below the promised epoch: the leader will hear of that one, and establish itself above it.
            self.epoch = max(vote.epoch, self.epoch)
            self.choose(vote.leader, now)

    # Hearsay.

    def on_told(self, source: NodeId, sight: Sight, now: Instant) -> None:
        """Follow a leader that another voter hears, or wait for its claim, although it is not heard here."""
        past = sight.epoch < self.voter.promise.epoch or self.naming.is_past(sight.epoch, sight.leader)
        past = past or (not sight.acting and self.naming.is_withdrawn(sight.epoch, sight.leader))
        if past or self.status is Status.LEADING or not self.lookout.is_news(sight, self.chosen, now):
            return
        if self.chosen is None:
            if not sight.acting and self.ballot.has_quorum:
                return  # This election supersedes that claim.
        elif self.chosen != sight.leader:
            seen, revoked = self.lookout.seen, self._is_revoked(source, sight.epoch)
            claims = not sight.acting and not revoked
            if self.reign.is_awaited or claims or (seen is not None and sight.epoch <= seen.epoch):
                return
        self._join(sight.leader, sight.epoch)
        if sight.source is not None and self.lookout.source is None:
            self.out.set_timer(self.lookout.next_question(), now + self.config.ask_interval)
        self._see(sight)
        if sight.acting:
            self._follow(Term(sight.epoch, sight.leader))

    def ask(self, timer: msg.LeaderIsAskedFor, now: Instant) -> None:
        """Ask again for the leader: the voter that reported it, or all voters when that one does not answer."""
        source = self.lookout.source
        if source is None:
            return
        if self.lookout.is_fresh(now):
            self.out.send(source, self.question(now))
        else:
            self.out.multicast(self.question(now))
        self.out.set_timer(timer, now + self.config.ask_interval)

    def question(self, now: Instant) -> msg.Propose:
        """Return a proposal of nobody: each voter that hears it and is settled answers with a vote."""
        return msg.Propose(self.epoch, (), None, self.links.heard(now), False, *self.voter.stamp)

    def _see(self, sight: Sight) -> None:
        """Note when the chosen leader was heard, and wait for it from then on."""
        self.lookout.seen = sight
        self.wait_until(self.lookout.awaited_until)

    def ask_leader(self, now: Instant) -> bool:
        """Ask the leader itself, as a heartbeat is missing; return False if it has been silent for too long."""
        seen = self.lookout.seen
        if seen is None or not seen.is_own or now >= seen.heard_at + self.config.guard:
            return False
        self.out.send(seen.leader, self.question(now))
        self.wait_until(min(now + self.config.ask_interval, seen.heard_at + self.config.guard))
        return True

    # Choosing and granting.

    def choose(self, leader: NodeId, now: Instant) -> None:
        if leader == self.me:
            self._claim_epoch(now)
            return
        self.become(Status.CHOSEN, leader)
        self.wait_until(now + (self.patience.for_answers if self.config.connected else self.config.guard))
        kept = self.grants.kept(leader, self.epoch)
        if kept is not None:
            self._heed(leader, kept, now)

    def choose_waiting(self, now: Instant) -> bool:
        """Choose the claimant of this epoch whose heartbeat is kept; return whether there is one."""
        waiting = self.grants.waiting(self.epoch)
        if waiting is None or waiting == self.chosen:
            return False
        self.choose(waiting, now)
        return True

    def _join(self, leader: NodeId, epoch: int) -> None:
        """Choose a leader or claimant that others know already, in its epoch."""
        if self.chosen != leader:
            self.become(Status.CHOSEN, leader)
        if epoch != self.epoch:
            self.enter(epoch)

    def on_heartbeat(self, sender: NodeId, beat: msg.Heartbeat, now: Instant) -> None:
        mine = self.chosen == sender and self.status in (Status.CHOSEN, Status.FOLLOWING)
        promised = self.voter.promise.epoch
        if self.naming.is_past(beat.epoch, sender):
            return
        if not beat.acting and self.naming.is_withdrawn(beat.epoch, sender, beat.number):
            return
        if beat.epoch < promised:
            if mine:
                self.wait_until(now + self.config.guard)
            self.grants.refuse(sender, beat, promised if beat.acting else self.epoch)
        elif beat.acting or mine:
            self._join(sender, beat.epoch)
            self._heed(sender, beat, now)
        elif self.chosen is not None:
            self._on_rival(sender, beat, now)
        else:
            self.on_claim(sender, beat, now)

    def on_claim(self, sender: NodeId, beat: msg.Heartbeat, now: Instant) -> None:
        """Grant a claim unless a greater candidate is known here: wait a while for the claim of that one."""
        if beat.epoch < self.epoch and (self.ballot.has_quorum or not self.config.connected):
            self.grants.refuse(sender, beat, self.epoch)
        elif not self.config.connected:
            if beat.epoch > self.epoch:
                self.begin_epoch(beat.epoch, now)
            self.grants.keep(sender, beat)  # It may yet be chosen here, too.
        elif beat.epoch != self.epoch or self.ballot.best is None or self.ballot.best[1] == sender:
            self._join(sender, beat.epoch)
            self._heed(sender, beat, now)
        else:
            self.grants.keep_claim(sender, beat, now + self.config.election_timeout)

    def _on_rival(self, sender: NodeId, beat: msg.Heartbeat, now: Instant) -> None:
        """Answer a claim with a vote for another; grant it if that one is not known to lead, or to claim."""
        vote = None if self._is_revoked(sender, beat.epoch) else self._vouch(now)
        claims = self.status is Status.CLAIMING
        if not self.config.connected:
            if beat.epoch > self.epoch:
                self.out.send(sender, msg.Vote(self.epoch, self.chosen or self.me))
        elif beat.epoch > self.epoch and (vote is None or (claims and not self.reign.is_awaited)):
            self._join(sender, beat.epoch)
            self._heed(sender, beat, now)
        elif vote is not None:
            self.out.send(sender, vote)
            if self.lookout.source is not None and beat.epoch > self.epoch:
                self.out.send(self.lookout.source, self.question(now))  # It may know that this one's time is over.
        elif beat.epoch == self.epoch:
            self.grants.keep_claim(sender, beat, now + self.config.election_timeout)

    def _heed(self, leader: NodeId, beat: msg.Heartbeat, now: Instant) -> None:
        """Follow and acknowledge a heartbeat of the chosen leader, in the present epoch."""
        self._see(Sight(leader, beat.epoch, beat.acting, now))
        asked = msg.charter_of(beat) != self.voter.stamp or beat.asks(self.me, self.voters)
        standing = None if beat.trips is None else self.scores.told(self.epoch, self.stands)
        self.grants.acknowledge(leader, beat, now, asked=asked, standing=standing)
        if beat.acting:
            self._follow(Term(beat.epoch, leader))

    def _follow(self, term: Term) -> None:
        if self.term != term:
            self.reign.heir = None
        self.become(Status.FOLLOWING, term.leader)
        self.lookout.lost, self.patience.vain = None, 0
        if self.voter.promise.epoch < term.number:
            self.voter.advance(term.number)  # Terms do not go back over a restart, either.
        self.naming.name(term)

    def answer_kept(self, now: Instant) -> None:
        kept = None if self.chosen is None else self.grants.kept(self.chosen, self.epoch)
        if kept is not None and self.chosen is not None:
            self.grants.acknowledge(self.chosen, kept, now)

    def on_free(self, now: Instant) -> None:
        """Grant the epoch, as an earlier leader's lease is over."""
        if self.reign.claim is None:
            self.answer_kept(now)
        else:
            self.reign.free(now)
            self.on_answer(now)

    # Claiming and leading.

    def _claim_epoch(self, now: Instant) -> None:
        if not self.voter.may_grant(self.epoch, self.me):
            self.new_election(now)
            return
        self.become(Status.CLAIMING, self.me)
        some = int(self._rng.random() * self.config.election_timeout)
        self.wait_until(now + self.patience.for_a_claim + some)
        self.reign.open(self.epoch, now)
        self.on_answer(now)
        if self.config.connected:
            self.out.set_timer(msg.AnswersAreDue(self.reign.tenure), now + self.patience.for_answers)

    def on_answers_due(self, timer: msg.AnswersAreDue, now: Instant) -> None:
        """Give a claim up that no majority has granted, or will."""
        if self.reign.is_awaited or not self.voter.is_written:
            self.out.set_timer(timer, now + self.config.answer_timeout)
        elif self.reign.claim is not None:
            self.links.forget(self.reign.claim.silent)
            self.patience.vain += 1
            self.new_election(now)

    def on_ack(self, sender: NodeId, ack: msg.HeartbeatAck, now: Instant) -> None:
        if self.reign.claim is None:
            return
        if ack.granted:
            if ack.epoch == self.epoch:
                self.reign.on_ack(sender, ack.number, now)
                if ack.standing is not None:
                    self.reign.rivals.told(sender, ack.standing)
                self.on_answer(now)
        elif ack.epoch >= self.epoch and self.status is Status.LEADING:
            self._establish_above(ack.epoch, now)
        elif ack.epoch > self.epoch and not (self.config.connected and self.reign.is_awaited):
            self.begin_epoch(ack.epoch, now)

    def on_answer(self, now: Instant) -> None:
        """Lead if the claim has got its majority, and wait for the end of the lease."""
        if self.reign.is_won(now) and self.may_lead:
            self._lead(now)
        if self.reign.lease is not None:
            self.wait_until(self.reign.lease.until)

    def _lead(self, now: Instant) -> None:
        """Begin to act, as a majority has granted the epoch, and is bound."""
        if self.status is not Status.LEADING:
            self.reign.heir = None
        self.reign.begin(now)
        self.become(Status.LEADING, self.me)
        self.lookout.lost, self.patience.vain = None, 0
        self.naming.name(Term(self.epoch, self.me))
        self.reign.beat(True, now)

    def _establish_above(self, epoch: int, now: Instant) -> None:
        """Claim a higher epoch, as some voter has granted more, and must not go back (decision 32)."""
        if epoch < TERM_NUMBER_MAX:
            self.epoch = epoch + 1
            self.reign.open(self.epoch, now)
            self.on_answer(now)

    def hand_over(self, to: NodeId | None, now: Instant) -> None:
        """Stop leading, and have that voter lead, or the best of the others."""
        raise NotImplementedError

    def stop_leading(self, reason: str) -> None:
        self.reign.end()
        self.status, self.chosen = Status.ELECTING, None
        self.naming.lose(reason)

    # State.

    def wait_until(self, at: Instant) -> None:
        self.deadline.move(at, msg.WaitEnds(self.deadline.number + 1), self.out)

    def become(self, status: Status, chosen: NodeId | None) -> None:
        """Set the status and the chosen leader, here alone; a leader stops by `stop_leading` alone."""
        if self.status is Status.LEADING and status is not Status.LEADING:
            self.stop_leading("outranked")
        elif self.status is Status.CLAIMING and status is not Status.LEADING:
            self._withdraw()
        if chosen != self.chosen:
            self.lookout.seen = None
        self.status, self.chosen = status, chosen

    def _withdraw(self) -> None:
        """Free the voters that have granted this claim, as it comes to nothing."""
        if self.config.connected and self.reign.last_number:  # Else nobody has heard of any claim.
            self.out.multicast(msg.Resigned(self.epoch, None, self.reign.last_number))
        self.reign.end()
