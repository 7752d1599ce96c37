"""Keeps the promise of a voter: the durable part, and until when it is bound to a leader.

Deviation [POLE §3.1]: the paper trusts TCP connections and a vote that is no exclusive promise, so that two processes
  may be leaders for a while.  Here a voter grants each epoch once, durably, and is bound to the leader that it last
  answered until that leader's lease must have ended, on any clock within the stated drift.
"""

from msgspec import Struct

from doyen.core.clock import Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.election.pole.messages import EpochPromised, Heartbeat, HeartbeatAck, PromiseEnds


class VoterRecord(Struct, frozen=True):
    """The record on disk."""

    epoch: int  # The voter takes part in no earlier epoch.
    granted_epoch: int = 0  # The last epoch that it granted,
    granted_to: NodeId | None = None  # and to which leader.


class Voter:
    """One voter, bound by its promise."""

    def __init__(self, me: NodeId, restored: VoterRecord | None, out: Out, *, durable: bool) -> None:
        self.me = me
        self._out, self._durable = out, durable
        self.promise = restored or VoterRecord(0)
        self.bound_until: Instant = 0

    @property
    def bound_to(self) -> NodeId | None:
        """Return the leader that this or an earlier incarnation may have answered last."""
        return self.promise.granted_to

    def advance(self, epoch: int, leader: NodeId | None = None) -> None:
        """Write the promise, here alone, and to the disk before any message says so; with a leader it is a grant."""
        before = self.promise
        if leader is None:
            self.promise = VoterRecord(epoch, before.granted_epoch, before.granted_to)
        else:
            self.promise = VoterRecord(epoch, epoch, leader)
        if self.promise != before:
            if self._durable:
                self._out.persist(self.promise)
            if epoch != before.epoch:
                self._out.emit(EpochPromised(epoch))

    def wake(self, now: Instant, guard: Duration) -> None:
        """Wait, as an earlier incarnation may have answered its leader just now (decision 31).

        If it led itself, it leads no more, but what it began, such as a command under a watchdog, has until the lease
        ends (decision 94).
        """
        self.bound_until = now if self.bound_to is None else now + guard

    def free_at(self, leader: NodeId) -> Instant:
        """Return when the voter may answer this leader; itself only later if an earlier incarnation led just now."""
        bound = self.bound_to
        return 0 if bound is None or bound == leader != self.me else self.bound_until

    def has_granted(self, epoch: int, leader: NodeId) -> bool:
        return (self.promise.granted_epoch, self.promise.granted_to) == (epoch, leader)

    def may_grant(self, epoch: int, leader: NodeId) -> bool:
        """Whether an epoch may be granted at all: once, and never back; `free_at` says when."""
        return self.promise.granted_epoch < epoch or self.has_granted(epoch, leader)

    def release(self, leader: NodeId, epoch: int) -> None:
        """Free the voter, as that leader says that it no longer acts in this epoch."""
        if self.bound_to == leader and self.promise.granted_epoch <= epoch:
            self.bound_until = 0


class Grants:
    """Answers heartbeats for a voter: the first answer in an epoch is its grant, and durable first (decision 30).

    A heartbeat may come too early: from a node that is not chosen here yet, or while the voter is still bound to
    another.  The last such heartbeat is kept, and answered when its time has come.
    """

    def __init__(self, voter: Voter, guard: Duration, out: Out) -> None:
        self._voter, self._guard, self._out = voter, guard, out
        self._kept: tuple[NodeId, Heartbeat] | None = None

    def keep(self, leader: NodeId, beat: Heartbeat) -> None:
        self._kept = (leader, beat)

    def forget(self) -> None:
        self._kept = None

    def kept(self, leader: NodeId | None, epoch: int) -> Heartbeat | None:
        """Return the kept heartbeat if it is of that leader and epoch, and keep none any longer."""
        kept, self._kept = self._kept, None
        return kept[1] if kept is not None and (kept[0], kept[1].epoch) == (leader, epoch) else None

    def refuse(self, leader: NodeId, beat: Heartbeat) -> None:
        """Refuse an epoch, and name the promised one, so that the leader can take one above it."""
        self._out.send(leader, HeartbeatAck(self._voter.promise.epoch, beat.number, False))

    def acknowledge(self, leader: NodeId, beat: Heartbeat, now: Instant) -> None:
        """Acknowledge a heartbeat of the chosen leader, in the promised epoch; refuse or keep it where that must be."""
        voter = self._voter
        if not voter.may_grant(beat.epoch, leader):
            self.refuse(leader, beat)
            return
        if not voter.has_granted(beat.epoch, leader):
            free_at = voter.free_at(leader)
            if now < free_at:
                if self._kept is None or self._kept[1].epoch != beat.epoch:
                    self._out.set_timer(PromiseEnds(beat.epoch), free_at)
                self.keep(leader, beat)
                return
            voter.advance(beat.epoch, leader)
        voter.bound_until = now + self._guard
        self._out.send(leader, HeartbeatAck(beat.epoch, beat.number, True))
