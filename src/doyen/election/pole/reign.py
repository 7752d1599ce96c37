"""Keeps the reign of a leader: the epoch that it claims, its lease, and the heartbeats on which both depend.

A reign may claim a higher epoch while it goes on under its old one: a voter that grants the new one is bound to the
same leader, so such an ack prolongs the lease as well.

A leader may act as long as a majority is bound to it, by its own monotonic clock.  Each ack names the heartbeat that it
answers, and counts from when that one was *sent*, so that no voter is bound for less (decision 30).  So a lease ends,
in true time, before the voters that made it may turn to another.

All voters hear a heartbeat, but no more than a majority answers it, in turns; if one of them does not, all are asked
before the next one is due (decision 35).
"""

from typing import Final

from doyen.core.clock import Duration, Instant, ms
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.core.rank import RoundTripsTold
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.electorate import Electorate
from doyen.election.pole.messages import (
    TRIP_MAX,
    TRIP_STEP,
    AnswersAreMissed,
    Heartbeat,
    HeartbeatIsSent,
    PromiseEnds,
)
from doyen.election.pole.promise import Voter
from doyen.election.pole.resignation import Rivals

NAMES_MAX: Final = 60  # How many voters a heartbeat can tell apart.


class Lease:
    """The acks of one claim or reign."""

    def __init__(self, electorate: Electorate, length: Duration) -> None:
        self.electorate, self._length = electorate, length
        self._anchors: dict[NodeId, Instant] = {}
        self.pending: set[NodeId] = set()  # Who has heard the claim, and will grant it.

    def is_awaited(self, me: NodeId) -> bool:
        """Return whether a majority has granted the claim, or will, this node included."""
        return self.electorate.is_majority({me, *self.pending, *self._anchors})

    @property
    def silent(self) -> frozenset[NodeId]:
        """Return the voters that have not answered the claim."""
        return self.electorate.names - self.pending - self._anchors.keys()

    def answered(self, voter: NodeId, sent_at: Instant) -> None:
        self._anchors[voter] = max(sent_at, self._anchors.get(voter, sent_at))

    @property
    def until(self) -> Instant:
        """Return when the acks of the last majority run out; -1 if there is no majority."""
        reached = self.electorate.reached(self._anchors)
        return -1 if reached is None else reached + self._length

    def last_answered(self, voter: NodeId) -> Instant:
        """Return when the last heartbeat was sent that this voter has answered; -1 if it has answered none."""
        return self._anchors.get(voter, -1)

    def is_renewed(self, sent_at: Instant) -> bool:
        """Return whether a majority has answered the heartbeat that was sent at that instant, or a later one."""
        return self.until >= sent_at + self._length

    def bound(self, now: Instant, leases: int = 1) -> list[NodeId]:
        """Return the voters that have answered within the last lease, or within the last `leases`."""
        return [voter for voter, sent_at in self._anchors.items() if sent_at + leases * self._length > now]


class Beats:
    """The instants at which heartbeats were sent, as far back as a lease reaches.

    Numbers follow the clock, so that an earlier incarnation's are not used again: its late acks count for nothing.
    """

    def __init__(self, keep: Duration) -> None:
        self._keep = keep
        self.number = 0
        self._sent_at: dict[int, Instant] = {}

    def send(self, now: Instant) -> int:
        self.number = max(self.number + 1, now // ms(1))
        self._sent_at[self.number] = now
        while self._sent_at[oldest := next(iter(self._sent_at))] < now - self._keep:
            del self._sent_at[oldest]
        return self.number

    def sent_at(self, number: int) -> Instant | None:
        return self._sent_at.get(number)

    def forget(self) -> None:
        """Count no late answer any more: the voters that gave it may be free by now."""
        self._sent_at.clear()


class Turns:
    """Chooses who answers a heartbeat: a majority, those first that answered the longest ago.

    A voter that failed to answer when it was asked is asked every time, beside a majority of the others: one that is
    gone costs no further heartbeat, and one that comes back is noticed.
    """

    def __init__(self, me: NodeId) -> None:
        self._me = me
        self._awaited: set[NodeId] = set()  # Who was asked, and has not answered since.

    def next(self, lease: Lease) -> set[NodeId]:
        electorate = lease.electorate
        asked = {self._me}
        for voter in sorted(electorate.names - self._awaited - asked, key=lambda v: (lease.last_answered(v), v)):
            if electorate.is_majority(asked):
                break
            asked.add(voter)
        self._awaited = (self._awaited | asked) & electorate.names - {self._me}
        return self._awaited

    def answered(self, voter: NodeId) -> None:
        self._awaited.discard(voter)

    @property
    def silent(self) -> set[NodeId]:
        """Return the voters that were asked, and have not answered since."""
        return self._awaited


class Reign:
    """The claim and the lease of one process; it may have neither, one, or both."""

    def __init__(self, me: NodeId, config: PoleConfig, voter: Voter, electorate: Electorate, out: Out) -> None:
        self._me, self._config, self._voter, self._electorate, self._out = me, config, voter, electorate, out
        self._beats, self._turns = Beats(config.lease), Turns(me)
        self.epoch = 0  # That of the claim.
        self.claim: Lease | None = None
        self.lease: Lease | None = None
        self.tenure = 0  # Distinguishes the timers of one reign from those of another.
        self.since: Instant = 0
        self.rivals = Rivals(config, out)
        self.heir: NodeId | None = None  # Who would lead next, as the leader says.
        self.trips: dict[NodeId, Duration] = {}  # Smoothed round trips: to the voters, or to the leader as it says.

    def use(self, electorate: Electorate) -> None:
        """Ask these voters' majority from now on, for a claim, and for each that comes."""
        self._electorate = electorate
        if self.claim is not None and self.claim is not self.lease:
            self.claim.electorate = electorate

    @property
    def interval(self) -> Duration:
        """Return the time between two heartbeats: a claim is repeated sooner."""
        config = self._config
        claiming = self.lease is None and config.connected
        return min(config.election_timeout, config.beat_interval) if claiming else config.beat_interval

    @property
    def is_awaited(self) -> bool:
        """Return whether a majority has granted the claim, or will."""
        return self.claim is not None and self.claim.is_awaited(self._me)

    def open(self, epoch: int, now: Instant) -> None:
        """Claim an epoch, which nobody has granted yet, and grant it to this node itself as soon as that may be."""
        if self.claim is None:
            self._out.set_timer(HeartbeatIsSent(self.tenure), now + self.interval)
        self.epoch, self.claim = epoch, Lease(self._electorate, self._config.lease)
        self.beat(False, now)
        free_at = self._voter.free_at(self._me)
        if now < free_at:
            self._out.set_timer(PromiseEnds(epoch), free_at)
        else:
            self._grant(now)

    def free(self, now: Instant) -> None:
        """Grant this node's own claim, as the voter may be free by now."""
        if now >= self._voter.free_at(self._me) and not self._voter.has_granted(self.epoch, self._me):
            self._grant(now)

    def _grant(self, now: Instant) -> None:
        self._voter.advance(self.epoch, self._me)
        self._voter.bound_until = now
        if self._voter.is_written:
            self._answered(self._me, now)

    def begin(self, now: Instant) -> None:
        """Make the claim the lease, as it has its majority."""
        if self.lease is None:
            self.since, self.rivals, self.trips = now, Rivals(self._config, self._out, now), {}
        self.lease = self.claim

    @property
    def silent(self) -> set[NodeId]:
        """Return the voters that were asked for an answer, and have not answered since."""
        return self._turns.silent

    def end(self) -> None:
        """End claim and lease alike."""
        self.claim = self.lease = None
        self._beats.forget()
        self.tenure += 1

    @property
    def last_number(self) -> int:
        """Return the number of the last heartbeat."""
        return self._beats.number

    def beat(self, acting: bool, now: Instant, *, all_answer: bool = True) -> None:
        """Send a heartbeat, unless it would leave later than it says, as the disk writes."""
        if not self._voter.is_written:
            return
        names = sorted(self._electorate.names)
        heir = 1 + names.index(self.heir) if acting and self.heir in self._electorate.names else 0
        trips = self._told_trips(names) if acting and self.rivals.is_asking else None
        asked = 0 if all_answer else self._asked(names)
        number = self._beats.send(now)
        self._out.multicast(Heartbeat(self.epoch, number, acting, *self._voter.stamp, heir, asked, trips))
        if trips is not None:
            self.rivals.asked(everybody=not asked)
        if self._voter.holds(self.epoch, self._me):
            self._answered(self._me, now)
        if acting and self._config.connected:
            self._out.set_timer(AnswersAreMissed(self.tenure, number), now + self._config.election_timeout)

    def _asked(self, names: list[NodeId]) -> int:
        """Return who is to answer, as a heartbeat has it; 0: everybody, as where two majorities are needed."""
        lease, electorate = self.lease, self._electorate
        settled = lease is self.claim and lease is not None and lease.electorate == electorate
        if not settled or electorate.earlier or len(names) > NAMES_MAX or not self._config.connected:
            return 0
        assert lease is not None
        asked = self._turns.next(lease)
        return sum(1 << i for i, name in enumerate(names) if name in asked)

    def _told_trips(self, names: list[NodeId]) -> tuple[int, ...]:
        """Return this leader's round trips as a heartbeat has them, and tell them here as well."""
        if not self.trips:
            return ()
        self._out.emit(RoundTripsTold(tuple(sorted(self.trips.items()))))
        return tuple(min(-(-self.trips.get(name, 0) // TRIP_STEP), TRIP_MAX) for name in names)

    def is_missed(self, number: int) -> bool:
        """Return whether that was the last heartbeat, and no majority has answered it."""
        sent_at = self._beats.sent_at(number)
        last = number == self._beats.number and sent_at is not None
        return last and self.lease is not None and not self.lease.is_renewed(sent_at or 0)

    def on_ack(self, voter: NodeId, number: int, now: Instant) -> None:
        """Count an ack of the heartbeat of that number, and what it says of the round trip."""
        sent_at = self._beats.sent_at(number)
        if sent_at is None:
            return
        if self.lease is not None and self.lease is self.claim and self.lease.last_answered(voter) >= 0:
            took = now - sent_at  # The first ack is the grant, which may wait for a disk.
            self.trips[voter] = took + 7 * (self.trips.get(voter, took) - took) // 8
        self._answered(voter, sent_at)

    def _answered(self, voter: NodeId, sent_at: Instant) -> None:
        self._turns.answered(voter)
        if self.claim is not None:
            self.claim.answered(voter, sent_at)
        if self.lease is not None and self.lease is not self.claim:
            self.lease.answered(voter, sent_at)

    def is_won(self, now: Instant) -> bool:
        """Return whether the claim has its majority and this node's own durable grant, and is not the lease yet."""
        granted = self._voter.holds(self.epoch, self._me)
        return granted and self.claim is not None and self.lease is not self.claim and self.claim.until > now
