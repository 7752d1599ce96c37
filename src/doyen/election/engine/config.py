"""The timers of elections that a store decides; the same on every member."""

from typing import Annotated

from doyen.core.clock import Duration, ms, seconds
from doyen.core.config import Config, Doc, Period, need
from doyen.election.held import Drift, guard


class EngineConfig(Config, frozen=True, kw_only=True):
    """The leader's lease, how often it is renewed in the store, and how long candidates wait for each other."""

    lease: Annotated[
        Period, Doc("How long a leader acts after it asked the store. Too short: one slow answer costs leadership.")
    ] = seconds(3)
    renew_interval: Annotated[
        Period, Doc("The time between two renewals of the leader in the store; at most half a lease.")
    ] = seconds(1)
    stand_time: Annotated[
        Period, Doc("How long candidates wait for each other, so that the best score claims; some round trips.")
    ] = ms(100)
    drift_max: Annotated[
        Drift, Doc("How far the rates of two clocks may differ. Beyond it two could lead at once.")
    ] = 0.001

    def check(self) -> None:
        often = 2 * self.renew_interval <= self.lease
        need(often, "renew_interval", "must be at most half of lease, or one slow answer costs leadership")

    def guard(self, lease: Duration) -> Duration:
        """Return how long another waits for a lease to end, or for one of this configuration if that is longer."""
        return guard(max(lease, self.lease), self.drift_max)

    @property
    def overdue(self) -> Duration:
        """Return how long a leader's renewal may be missing before the store is said to agree that it is dead."""
        return self.renew_interval * 3 // 2

    @property
    def settle_max(self) -> Duration:
        """Return the longest time from the end of all faults until all name one leader.

        A claimant dies right after its claim: it is waited for (guard, a look), candidates wait for each other and
        once more for a better one (3 × stand_time), somebody claims, waits (guard) and is heard; twice, for the first
        may meet what is left of the faults.
        """
        return 2 * (2 * self.guard(self.lease) + 6 * self.renew_interval + 4 * self.stand_time)

    @classmethod
    def lan(cls, group_size: int) -> "EngineConfig":
        return cls()

    @classmethod
    def wan(cls, group_size: int) -> "EngineConfig":
        return cls(lease=seconds(10), renew_interval=seconds(3), stand_time=ms(800))
