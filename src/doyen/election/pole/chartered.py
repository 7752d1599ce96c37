"""A voter with a charter: when its leader writes it, when the leader may act on it, and who votes from when on.

The argument is decision 34, the register itself is in `charter`.
"""

from typing import Final

from doyen.core.clock import Duration, Instant, ms
from doyen.core.commands import ChangeVoters, PassOn
from doyen.core.ids import NodeId
from doyen.core.leadership import BATON_MAX, Electors, HeirNamed, VotersChanged
from doyen.core.rank import RoundTripsTold
from doyen.election.pole import messages as msg
from doyen.election.pole.elector import Elector
from doyen.election.pole.messages import Status
from doyen.errors import LocalProtocolError

ANSWERS_LEASES: Final = 3  # Within how many leases a voter has answered that is taken to be there.
ROLL_MIN: Final[Duration] = ms(500)  # How long those that shall vote may take to say that they are there.


class Chartered(Elector):
    """A voter whose baton and electorate are on the disks of a majority."""

    # Queries.

    @property
    def heir(self) -> NodeId | None:
        """Return who would be the next leader, as the present one says."""
        return None if self.term is None or self.reign.heir == self.term.leader else self.reign.heir

    @property
    def baton(self) -> bytes:
        """Return what a leader committed last; on other nodes, the newest that has come here."""
        leads = self.status is Status.LEADING
        return ((leads and self.keeper.committed) or self.keeper.newest).baton

    def electors(self, now: Instant) -> Electors:
        """Return the voters that count, and who of them answers this node, if it leads."""
        lease, voters = self.reign.lease, self.electorate
        answering: tuple[NodeId, ...] | None = None
        if lease is not None and self.status is Status.LEADING:
            answering = tuple(sorted(voters.names.intersection(lease.bound(now, ANSWERS_LEASES))))
        abstains = not self.able and self.me in voters.names
        return Electors(voters.number, tuple(sorted(voters.voters)), tuple(sorted(voters.earlier)), answering, abstains)

    # What the leader is asked to write.

    def check_baton(self, baton: bytes) -> None:
        """Raise what handing that on would raise."""
        if len(baton) > BATON_MAX:
            raise LocalProtocolError(
                f"a baton has at most {BATON_MAX} bytes, not {len(baton):,}: hand on where it is kept"
            )
        self._check_leading("hands anything on")

    def write_baton(self, command: PassOn, now: Instant) -> None:
        self.check_baton(command.baton)
        self.keeper.register.pass_on(command.number, command.baton)
        self.write_charter(now)

    def check_voters(self, voters: frozenset[NodeId]) -> None:
        """Raise what replacing the voters by these would raise at once."""
        self._check_leading("can change the voters")
        if self.keeper.is_changing or not self.voting:  # One that is no voter is about to hand over.
            raise LocalProtocolError("the voters are being changed already: wait until that is done")
        now = self.electorate.voters
        if not voters or voters == now or len(voters - now) > 1 or len(now - voters) > 1:
            raise LocalProtocolError("voters are changed one at a time: add one, remove one, or replace one by another")

    def call_roll(self, command: ChangeVoters, now: Instant) -> None:
        """Ask who is there before the voters are replaced."""
        self.check_voters(command.voters)
        self.keeper.call_roll(command.number, command.voters)
        self.out.set_timer(msg.RollEnds(command.number), now + max(self.config.election_timeout, ROLL_MIN))
        if command.voters <= {self.me}:
            self.end_roll(now)

    def end_roll(self, now: Instant) -> None:
        self.keeper.end_roll()
        self.write_charter(now)

    def _check_leading(self, what: str) -> None:
        if self.status is not Status.LEADING:
            who = "nobody leads" if self.term is None else f"{self.term.leader} leads"
            raise LocalProtocolError(f"only the leader {what}, and {who}")

    # Writing it.

    def write_charter(self, now: Instant) -> None:
        """Write what is next, one after the other, while a majority is bound in this epoch."""
        claim = self.reign.claim
        if self.keeper.register.epoch != self.reign.epoch:
            self.keeper.begin(self.reign.epoch)
        while self.status in (Status.CLAIMING, Status.LEADING) and claim is not None and claim.until > now:
            found = self.keeper.register.written is None
            if not (found or claim is self.reign.lease):  # The lease of an earlier epoch may count other voters.
                return
            if not self.keeper.write(claim.bound(now)):
                return
            self.use_electorate()
            if not self._count_stored(self.me, self.keeper.newest.stamp):
                return

    def on_ack(self, sender: NodeId, ack: msg.HeartbeatAck, now: Instant) -> None:
        counted = ack.granted and ack.epoch == self.epoch and self.reign.claim is not None
        if counted and not self.keeper.counts(sender, ack):
            return
        super().on_ack(sender, ack, now)
        if counted:
            self.on_stored(sender, msg.charter_of(ack), now)

    def on_answer(self, now: Instant) -> None:
        """Lead once the claim has its majority, and what was handed on is committed again."""
        if self.reign.is_won(now):
            self.write_charter(now)
        super().on_answer(now)

    @property
    def may_lead(self) -> bool:
        return self.keeper.may_act

    def on_stored(self, voter: NodeId, stamp: tuple[int, int], now: Instant) -> None:
        """Count a voter that has accepted what this node wrote in its epoch."""
        if self.reign.claim is None or not self._count_stored(voter, stamp):
            return
        self.on_answer(now)
        settled = self.keeper.register.committed and not self.keeper.is_changing
        if self.status is Status.LEADING and not self.voting and settled:  # It has removed itself.
            self.hand_over(None, now)  # Batons that wait are not written: it would lead for as long as they come.
            self._observe_only()
        else:
            self.write_charter(now)

    def _count_stored(self, voter: NodeId, stamp: tuple[int, int]) -> bool:
        committed = self.keeper.stored(voter, stamp)
        leased_by = self.keeper.register.leased_by
        if leased_by is not None and self.reign.lease is not None and self.reign.lease is self.reign.claim:
            self.reign.lease.electorate = leased_by
        return committed

    def stop_leading(self, reason: str) -> None:
        super().stop_leading(reason)
        self.keeper.end()

    # Going by it.

    def hear_charter(self, sender: NodeId, message: msg.Message, now: Instant) -> None:
        """Take what a message says of charters and voters; any sender will do."""
        if self.keeper.hear(sender, message):
            self._on_new_charter(now)
        if isinstance(message, msg.RollCall):
            self.out.send(sender, msg.Present(message.number, self.able))
        elif isinstance(message, msg.Present) and self.keeper.present(sender, message):
            self.end_roll(now)

    def _on_new_charter(self, now: Instant) -> None:
        self.use_electorate()
        if self.voting == (self.status is Status.OBSERVING):
            if self.voting:
                self._begin_to_vote(now)
            elif self.status is not Status.LEADING:
                self._observe_only()

    def use_electorate(self) -> None:
        """Go by the newest voters that are stored."""
        after = self.keeper.newest.electorate
        if after != self.electorate:
            self.electorate = self.ballot.electorate = after
            self.reign.use(after)
            self.out.emit(VotersChanged(after.number, *(tuple(sorted(side)) for side in (after.voters, after.earlier))))

    def _begin_to_vote(self, now: Instant) -> None:
        self.voter.wake(now, self.config.guard)
        self.scores.start(now)
        self.epoch = max(self.epoch, self.naming.last)
        if self.term is None:
            self.new_election(now)
        else:
            self.become(Status.CHOSEN, self.term.leader)
            self.enter(max(self.term.number, self.voter.promise.epoch))
            self.wait_until(now + self.config.guard)

    def _observe_only(self) -> None:
        self.become(Status.OBSERVING, None)
        self.reign.end()

    def ask_voters(self, wait: Duration, now: Instant) -> None:
        """Let the voters know of this node while it hears no leader: they may not have its address."""
        if self.term is None:
            self.out.multicast(msg.CharterWanted())
        self.out.set_timer(msg.VotersAreAsked(wait), now + wait)

    # The heir.

    def hear_heir(self, sender: NodeId, beat: msg.Heartbeat) -> None:
        """Note whom the leader would have follow it, and how far away it is."""
        names = sorted(self.electorate.names)
        if self.term is not None and self.term.leader == sender and msg.charter_of(beat) == self.voter.stamp:
            if 0 < beat.heir <= len(names):
                self.name_heir(names[beat.heir - 1])
            if beat.trips and len(beat.trips) == len(names) and self.me in names:
                self._hear_trip(sender, beat.trips[names.index(self.me)] * msg.TRIP_STEP)

    def _hear_trip(self, leader: NodeId, took: Duration) -> None:
        """Note the round trip to the leader, which measures it."""
        self.reign.trips = {leader: took} if took else {}
        if took:
            self.out.emit(RoundTripsTold(((leader, took),)))

    def name_heir(self, heir: NodeId | None) -> None:
        if heir is not None and heir != self.reign.heir:
            self.reign.heir = heir
            self.out.emit(HeirNamed(heir))
