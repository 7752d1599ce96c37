"""What a voter has promised: the durable part, and whom it is bound to for now.

Deviation [POLE §3.1]: the paper trusts TCP connections and a vote that is no exclusive promise, so that two processes
  may be leaders for a while.  Here a voter grants each epoch once, durably, and is bound to whom it last answered until
  that leader's lease must have ended, on any clock within the stated drift.
"""

from msgspec import Struct

from doyen.core.clock import Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.election.pole.messages import EpochPromised


class Promise(Struct, frozen=True):
    """What outlives the process."""

    epoch: int  # No earlier epoch is taken part in,
    granted_epoch: int = 0  # and of this one
    granted_to: NodeId | None = None  # the leader was this.


class Voter:
    """One voter's word."""

    def __init__(self, me: NodeId, restored: Promise | None, out: Out, *, durable: bool) -> None:
        self.me = me
        self._out, self._durable = out, durable
        self.promise = restored or Promise(0)
        self.bound_until: Instant = 0

    @property
    def bound_to(self) -> NodeId | None:
        """Whom it may have answered last: in this life or an earlier one."""
        return self.promise.granted_to

    def advance(self, epoch: int, leader: NodeId | None = None) -> None:
        """The sole writer of the promise: on the disk before anybody hears of it.  With a leader it is a grant."""
        before = self.promise
        if leader is None:
            self.promise = Promise(epoch, before.granted_epoch, before.granted_to)
        else:
            self.promise = Promise(epoch, epoch, leader)
        if self.promise != before:
            if self._durable:
                self._out.persist(self.promise)
            if epoch != before.epoch:
                self._out.emit(EpochPromised(epoch))

    def wake(self, now: Instant, guard: Duration) -> None:
        """An earlier life may have answered its leader just now.  If that was itself, it leads no more, but what it
        began, a command under a watchdog, say, has until the lease ends."""
        self.bound_until = now if self.bound_to is None else now + guard

    def free_at(self, leader: NodeId) -> Instant:
        """From when on it may answer this one; itself, too, where an earlier life of its own may have led just now."""
        bound = self.bound_to
        return 0 if bound is None or bound == leader != self.me else self.bound_until

    def has_granted(self, epoch: int, leader: NodeId) -> bool:
        return (self.promise.granted_epoch, self.promise.granted_to) == (epoch, leader)

    def may_grant(self, epoch: int, leader: NodeId) -> bool:
        """Once per epoch, and never back; when is another question (`free_at`)."""
        return self.promise.granted_epoch < epoch or self.has_granted(epoch, leader)

    def release(self, leader: NodeId, epoch: int) -> None:
        """That leader said that it acts no more in this epoch."""
        if self.bound_to == leader and self.promise.granted_epoch <= epoch:
            self.bound_until = 0
