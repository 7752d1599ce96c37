"""Elections by a directory that break safety, on purpose."""

from doyen.core.clock import Instant
from doyen.election.directory.machine import Directory
from doyen.election.directory.messages import Status


class NoWaitAfterTheClaim(Directory):
    def acts_from(self, claimed_at: Instant) -> Instant:
        return claimed_at


class HigherEpochsAreNotLookedFor(Directory):
    def is_deposed(self) -> bool:
        return False


class LeaseWithoutItsOwnClock(Directory):
    """Acts until an answer says that it must not."""

    def leads(self, now: Instant) -> bool:
        return self.status is Status.LEADING


BROKEN = [NoWaitAfterTheClaim, HigherEpochsAreNotLookedFor, LeaseWithoutItsOwnClock]
