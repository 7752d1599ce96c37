"""Sets how often members gossip their heartbeats, and after which silence a member has failed."""

from math import log2
from typing import Annotated, TypeAlias

from msgspec import Meta

from doyen.core.clock import FOREVER, Duration, ms, seconds
from doyen.core.config import Config, Count, Doc, Period, Positive, Timeout, Wait

Factor: TypeAlias = Annotated[float, Meta(ge=0, le=1e6)]


class HeartbeatConfig(Config, frozen=True, kw_only=True):
    period: Annotated[Period, Doc("One message is sent in each period (T_gossip). Shorter costs traffic.")] = ms(500)
    fail_periods: Annotated[
        float, Meta(ge=2, le=1e6), Doc("After how many silent periods a member has failed. Too few: false positives.")
    ] = 12.0
    fail_periods_log: Annotated[
        Factor, Doc("How many periods are added to fail_periods for each doubling of the group.")
    ] = 3.0
    entries_max: Annotated[
        Positive, Doc("How many counters a message has. In larger groups they take turns, which is slower.")
    ] = 48
    reconnect_periods: Annotated[
        Count, Doc("One message in this many goes to a seed or a failed member; 0: none does.")
    ] = 20
    failed_kept: Annotated[
        Wait, Doc("How long a failed member is shown, and tried again; at least twice the failure time.")
    ] = seconds(24 * 3600)
    unhealthy_half_life: Annotated[
        Timeout, Doc("After this time a false positive counts half for a member's health; inf: always.")
    ] = seconds(600)

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
