"""Keeps the promise of a voter: the durable part, and until when it is bound to a leader.

Deviation [POLE §3.1]: the paper trusts TCP connections and a vote that is no exclusive promise, so that two processes
  may be leaders for a while.  Here a voter grants each epoch once, durably, and is bound to the leader that it last
  answered until that leader's lease must have ended, on any clock within the stated drift.
"""

from msgspec import Struct

from doyen.core.clock import Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.election.pole.messages import EpochPromised


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
        """Wait, as an earlier incarnation may have answered its leader just now.  If it led itself, it leads no more,
        but what it began, such as a command under a watchdog, has until the lease ends (decision 94)."""
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
        """Free the voter, as that leader says that it acts no more in this epoch."""
        if self.bound_to == leader and self.promise.granted_epoch <= epoch:
            self.bound_until = 0
