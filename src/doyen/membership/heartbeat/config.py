"""How often members gossip their heartbeats, and after which silence one has failed."""

from math import log2

from msgspec import Struct

from doyen.core.clock import FOREVER, Duration, ms, seconds
from doyen.errors import ConfigError


class HeartbeatConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    period: Duration = ms(500)  #: T_gossip: one message each.  Short: traffic.  Long: slow detection.
    fail_periods: float = 12.0  #: A counter that stands still for so many periods, and log2 N for each of …
    fail_periods_log: float = 3.0  #: … these, means failed.  Few: false positives.  Many: slow detection.
    entries_max: int = 48  #: Counters in a message.  In groups above it news comes in turns, and fail_after grows.
    reconnect_periods: int = 20  #: One message in so many goes to a seed or to a member held for failed; 0: none.
    failed_kept: Duration = seconds(24 * 3600)  #: A failed member is shown, and tried again; 2·fail_after at least.
    unhealthy_half_life: Duration = seconds(600)  #: Counts of false positives are halved so often.  FOREVER: never.

    def __post_init__(self) -> None:
        def need(holds: bool, what: str) -> None:
            if not holds:
                raise ConfigError(f"heartbeats need {what}, got {self}")

        need(0 < self.period < FOREVER, "0 < period")
        need(2 <= self.fail_periods <= 1e6, "2 <= fail_periods")
        need(0 <= self.fail_periods_log <= 1e6, "0 <= fail_periods_log")
        need(1 <= self.entries_max, "1 <= entries_max")
        need(0 <= self.reconnect_periods, "0 <= reconnect_periods")
        need(0 <= self.failed_kept, "0 <= failed_kept")
        need(self.unhealthy_half_life > 0, "unhealthy_half_life > 0")

    @classmethod
    def paper(cls) -> "HeartbeatConfig":
        """[RENESSE §3] T_cleanup = 2·T_fail; counts only grow."""
        return cls(period=seconds(1), failed_kept=0, reconnect_periods=0, unhealthy_half_life=FOREVER)

    @classmethod
    def lan(cls, group_size: int) -> "HeartbeatConfig":
        return cls()

    @classmethod
    def wan(cls, group_size: int) -> "HeartbeatConfig":
        return cls(period=seconds(1), fail_periods=16.0)

    def fail_after(self, group_size: int) -> Duration:
        """[RENESSE §4] Grows with log N, for so do the rounds that news needs; and with the messages per list."""
        rounds = self.fail_periods + self.fail_periods_log * log2(max(1, group_size))
        return int(self.period * rounds * max(1.0, group_size / self.entries_max))
