"""Keeps the promise of a voter: the durable part, and until when it is bound to a leader.

Deviation [POLE §3.1]: the paper trusts TCP connections and a vote that is no exclusive promise, so that two processes
  may be leaders for a while.  Here a voter grants each epoch once, durably, and is bound to the leader that it last
  answered until that leader's lease must have ended, on any clock within the stated drift.
"""

from collections import deque
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from doyen.core.clock import Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.core.rank import OracleStanding
from doyen.election.pole.messages import (
    Charter,
    EpochPromised,
    GreaterIsGivenUp,
    Heartbeat,
    HeartbeatAck,
    Pending,
    PromiseEnds,
)

WRITES_KEPT: Final = 4  # The slowest of the last writes tells how slow the disk is.


class VoterRecord(Struct, frozen=True):
    """The record on disk."""

    epoch: int  # The voter grants no earlier epoch.
    granted_epoch: int = 0  # The last epoch that it granted,
    granted_to: NodeId | None = None  # and to which leader.
    charter: Charter | None = None  # The newest that it has seen; None: nobody has ever written one.


class Voter:
    """One voter, bound by its promise."""

    def __init__(self, me: NodeId, restored: VoterRecord | None, out: Out, *, durable: bool) -> None:
        self.me = me
        self._out, self._durable = out, durable
        self.promise = restored or VoterRecord(0)
        self._unwritten: deque[Instant] = deque()  # Since when each record is on its way to the disk.
        self._took: deque[Duration] = deque(maxlen=WRITES_KEPT)
        self.now: Instant = 0  # The instant of the present step.
        self.bound_until: Instant = 0
        self._woken_until: Instant = 0  # Until then it may be bound by an answer of an earlier incarnation.
        self._answered = 0  # The greatest number of the heartbeats that this one answered since its last grant.

    @property
    def bound_to(self) -> NodeId | None:
        """Return the leader that this or an earlier incarnation may have answered last."""
        return self.promise.granted_to

    @property
    def stamp(self) -> tuple[int, int]:
        """Return the stamp of the charter that is kept; (0, 0) if none is."""
        return (0, 0) if self.promise.charter is None else self.promise.charter.stamp

    def advance(self, epoch: int, leader: NodeId | None = None) -> None:
        """Write the promise, here alone, and to the disk before any message says so; with a leader it is a grant."""
        before = self.promise
        if leader is None:
            self.promise = replace(before, epoch=epoch)
        elif not self.has_granted(epoch, leader):
            self._answered = 0
            self.promise = VoterRecord(epoch, epoch, leader, before.charter)
        if self.promise != before:
            if self._durable:
                self._unwritten.append(self.now)
                self._out.persist(self.promise)
            if epoch != before.epoch:
                self._out.emit(EpochPromised(epoch))

    def store(self, charter: Charter) -> bool:
        """Keep a charter that is newer than the present one, on the disk before any message says so.

        Return whether it is.  Any sender may be believed: it counts as accepted by `has_granted` alone.
        """
        if charter.stamp <= self.stamp:
            return False
        self.promise = replace(self.promise, charter=charter)
        if self._durable:
            self._unwritten.append(self.now)
            self._out.persist(self.promise)
        return True

    def written(self) -> None:
        """Note that the oldest record on its way is durable now, and how long that took."""
        self._took.append(max(0, self.now - self._unwritten.popleft()))

    @property
    def write_time(self) -> Duration:
        """Return how long the slowest of the last writes took."""
        return max(self._took, default=0)

    @property
    def is_written(self) -> bool:
        """Return whether the present promise is durable."""
        return not self._unwritten

    def wake(self, now: Instant, guard: Duration) -> None:
        """Wait, as an earlier incarnation may have answered its leader just now (decision 31).

        If it led itself, it no longer leads, but what it began, such as a command under a watchdog, has until the lease
        ends (decision 94).
        """
        self.bound_until = self._woken_until = now if self.bound_to is None else now + guard

    def answer(self, number: int, until: Instant) -> None:
        """Note that the heartbeat of that number is answered, which binds the voter until then."""
        self.bound_until, self._answered = until, max(number, self._answered)

    def free_at(self, leader: NodeId) -> Instant:
        """Return when the voter may answer this leader; itself only later if an earlier incarnation led just now."""
        bound = self.bound_to
        return 0 if bound is None or bound == leader != self.me else self.bound_until

    def has_granted(self, epoch: int, leader: NodeId) -> bool:
        return (self.promise.granted_epoch, self.promise.granted_to) == (epoch, leader)

    def holds(self, epoch: int, leader: NodeId) -> bool:
        """Return whether that grant was made, and is durable."""
        return self.is_written and self.has_granted(epoch, leader)

    def may_grant(self, epoch: int, leader: NodeId) -> bool:
        """Return whether an epoch may be granted at all: to one leader, and never after a later one; see `free_at`."""
        return self.promise.granted_epoch < epoch or self.has_granted(epoch, leader)

    def release(self, leader: NodeId, epoch: int) -> bool:
        """Free the voter, as that leader says that it no longer acts in this epoch; return whether it was bound."""
        if self.bound_to != leader or self.promise.granted_epoch > epoch or not self.bound_until:
            return False
        self.bound_until = 0
        return True

    def let_go(self, claimant: NodeId, epoch: int, number: int) -> bool:
        """Free the voter, as that node withdraws its claim of this epoch; return whether it was bound by that.

        The node may have claimed the epoch again: a voter that has answered a later heartbeat than the last one of the
        withdrawn claim stays bound, or may have done so before it was started anew (decision 33).
        """
        later = self._answered > number or self.now < self._woken_until
        return self.has_granted(epoch, claimant) and not later and self.release(claimant, epoch)


class Grants:
    """Answers heartbeats for a voter: the first answer in an epoch is its grant, and durable first (decision 30).

    A heartbeat may come too early: from a node that is not chosen here yet, while the voter is still bound to another,
    or while its grant is being written.  The last such heartbeat is kept, and answered when its time has come; the
    claimant learns at once that the answer will come, so that it waits for a slow disk (decision 33).
    """

    def __init__(self, voter: Voter, guard: Duration, out: Out) -> None:
        self._voter, self._guard, self._out = voter, guard, out
        self._kept: tuple[NodeId, Heartbeat] | None = None

    def keep(self, leader: NodeId, beat: Heartbeat) -> None:
        self._kept = (leader, beat)

    def keep_claim(self, claimant: NodeId, beat: Heartbeat, until: Instant) -> None:
        """Keep a claim for a while, as that of a greater candidate may still come."""
        if self.waiting(beat.epoch) is None:
            self._out.set_timer(GreaterIsGivenUp(beat.epoch), until)
        self.keep(claimant, beat)

    def forget(self) -> None:
        self._kept = None

    def waiting(self, epoch: int) -> NodeId | None:
        """Return whose heartbeat of that epoch is kept."""
        return self._kept[0] if self._kept is not None and self._kept[1].epoch == epoch else None

    def kept(self, leader: NodeId | None, epoch: int) -> Heartbeat | None:
        """Return the kept heartbeat if it is of that leader and epoch, and keep none any longer."""
        kept, self._kept = self._kept, None
        return kept[1] if kept is not None and (kept[0], kept[1].epoch) == (leader, epoch) else None

    def refuse(self, leader: NodeId, beat: Heartbeat, epoch: int) -> None:
        """Refuse an epoch, and name that of this voter, so that the leader can take one above it."""
        self._out.send(leader, HeartbeatAck(epoch, beat.number, False, *self._voter.stamp))

    def acknowledge(
        self,
        leader: NodeId,
        beat: Heartbeat,
        now: Instant,
        *,
        asked: bool = True,
        standing: OracleStanding | None = None,
    ) -> None:
        """Acknowledge a heartbeat of the chosen leader, in the promised epoch; refuse or keep it where that must be.

        A voter that is not asked says nothing, once it has granted the epoch.
        """
        voter = self._voter
        if not voter.may_grant(beat.epoch, leader):
            self.refuse(leader, beat, voter.promise.epoch)
            return
        if not voter.has_granted(beat.epoch, leader):
            free_at = voter.free_at(leader)
            if now < free_at:
                if self.waiting(beat.epoch) is None:
                    self._out.set_timer(PromiseEnds(beat.epoch), free_at)
                self.keep(leader, beat)
                self._out.send(leader, Pending(beat.epoch, beat.number))
                return
            self._out.send(leader, Pending(beat.epoch, beat.number))
            voter.advance(beat.epoch, leader)
        elif not asked:
            return
        if not voter.is_written:
            self.keep(leader, beat)
            return
        voter.answer(beat.number, now + self._guard)
        self._out.send(leader, HeartbeatAck(beat.epoch, beat.number, True, *voter.stamp, standing))
