"""The timers of elections by a shared directory; the same on every member."""

from typing import Annotated

from doyen.core.clock import Duration, ms, seconds
from doyen.core.config import Config, Doc, Period, need
from doyen.election.held import Drift, guard


class DirectoryConfig(Config, frozen=True, kw_only=True):
    """The leader's lease, how often it is renewed, and how long candidates wait for each other."""

    lease: Annotated[
        Period, Doc("How long a leader acts after it began to look at the directory. Too short: it is easily lost.")
    ] = seconds(2)
    renew_interval: Annotated[
        Period, Doc("The time between two renewals of the leader, and two looks of the others; at most half a lease.")
    ] = ms(400)
    stand_time: Annotated[
        Period, Doc("How long candidates wait for each other, so that the best score claims; above renew_interval.")
    ] = ms(600)
    drift_max: Annotated[
        Drift, Doc("How far the rates of two clocks may differ. Beyond it two could lead at once.")
    ] = 0.001

    def check(self) -> None:
        often = 2 * self.renew_interval <= self.lease
        need(often, "renew_interval", "must be at most half of lease, or one slow operation costs leadership")
        need(self.stand_time >= self.renew_interval, "stand_time", "must not be less than renew_interval")

    def guard(self, lease: Duration) -> Duration:
        """Return how long another waits for a lease to end, or for one of this configuration if that is longer."""
        return guard(max(lease, self.lease), self.drift_max)

    @property
    def settle_max(self) -> Duration:
        """Return the longest time from the end of all faults until all name one leader.

        A claimant dies right after its claim: it is waited for (guard, two looks), candidates wait for each other and
        once more for a better one (3 × stand_time), somebody claims, waits (guard) and is seen; twice, for the first
        may meet what is left of the faults.  A request takes less than renew_interval, so a look may be two late.
        """
        return 2 * (2 * self.guard(self.lease) + 8 * self.renew_interval + 4 * self.stand_time)

    @classmethod
    def lan(cls, group_size: int) -> "DirectoryConfig":
        return cls()

    @classmethod
    def wan(cls, group_size: int) -> "DirectoryConfig":
        """Return the preset for storage that takes up to a second."""
        return cls(lease=seconds(10), renew_interval=seconds(2), stand_time=seconds(3))
