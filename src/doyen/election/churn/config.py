"""How a group elects over weak views; the same on every member.  [CTOL §IV]"""

from typing import Final, Literal

from msgspec import Struct

from doyen.core.clock import FOREVER, Duration, ms, seconds
from doyen.errors import ConfigError

Variant = Literal["base", "optimistic", "preferred", "hybrid"]
Exclusion = Literal["union", "top"]
TimeoutFrom = Literal["config", "auto"]
DeadLeader = Literal["ask", "next-term"]

TIMEOUT_MIN: Final[Duration] = ms(5)  # The least measured TIMEOUT: scheduling takes as long.
BOUND_MAX: Final = 100_000  # The most that c, f, x and y can be: more members than any group has.


class CTolerantConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The variant of the protocol, how many missing and stale entries it tolerates, and how long it waits."""

    variant: Variant = "hybrid"  #: Optimistic and hybrid name a leader early; preferred and hybrid avoid the unhealthy.
    missing_max: int | Literal["auto"] = "auto"  #: c.  Low: a wrong leader.  High: 2 messages each.  auto: estimated.
    failure_max: int = 0  #: f.  Low: a wait of response_timeout per silent node.  High: 2 messages each.
    candidate_count: int = 5  #: x.  Low: no healthy candidate, another attempt.  High: longer messages.
    unhealthy_count: int = 5  #: y.  Low: an unhealthy leader.  High: nobody is left, another attempt.
    exclusion: Exclusion = "union"  #: union: all on any unhealthy list; top: the y greatest sums, as in the figures.
    response_timeout: Duration = ms(500)  #: TIMEOUT, some round trips.  Short: needless queries.  Long: slow retries.
    timeout: TimeoutFrom = "config"  #: Where TIMEOUT comes from; auto: twice what the membership measures.
    notify_retry_max: int = 3  #: NOTIFYLEADERs repeated before an attempt is begun anew; the paper repeats none.
    resend_interval: Duration = ms(250)  #: Between repetitions of LEADER that is not acknowledged.  A round trip.
    fan_out: int = 0  #: Members to whom each receiver of LEADER passes it on; 0: the leader sends it to all.
    dead_leader: DeadLeader = "ask"  #: ask: a leader named by LEADER but held dead is asked; next-term: term+1 begins.
    resign_cool_down: Duration = seconds(60)  #: How long a member that resigned is passed over.
    final_timeout: Duration = seconds(10)  #: The longest wait for a final LEADER.  Short: rival elections.
    begin_spread: Duration = ms(500)  #: A member without a leader begins within this, at random.  Short: rivals.
    back_off_max: Duration = seconds(30)  #: Longest wait between attempts while too few members are known.
    ask_interval: Duration = seconds(10)  #: Between questions to one member for its leader; inf is off.
    bootstrap_after: Duration = seconds(2)  #: When a member without a leader begins an election; inf is off.

    def __post_init__(self) -> None:
        def need(holds: bool, field: str, wanted: str) -> None:
            if not holds:
                raise ConfigError(wanted, field=field)

        counts = ("failure_max", "candidate_count", "unhealthy_count", "notify_retry_max")
        for name in counts if self.missing_max == "auto" else ("missing_max", *counts):
            need(0 <= getattr(self, name) <= BOUND_MAX, name, f"must be 0 to {BOUND_MAX}, not {getattr(self, name)}")
        need(self.candidate_count >= 1, "candidate_count", "must be 1 or more, or nobody can be elected")
        need(0 <= self.fan_out <= BOUND_MAX, "fan_out", f"must be 0 to {BOUND_MAX}, not {self.fan_out}")
        for name in ("response_timeout", "resend_interval", "final_timeout", "back_off_max", "resign_cool_down"):
            need(0 < getattr(self, name) < FOREVER, name, "must be positive and finite")
        need(0 <= self.begin_spread < FOREVER, "begin_spread", "must be 0 or more, and finite")
        need(0 < self.ask_interval, "ask_interval", "must be positive (inf: off)")
        need(0 <= self.bootstrap_after, "bootstrap_after", "must be 0 or more (inf: off)")
        need(
            self.final_timeout > 2 * self.response_timeout,
            "final_timeout",
            "must be more than two response_timeouts, or members lose patience with every election",
        )

    @property
    def optimistic(self) -> bool:
        return self.variant in ("optimistic", "hybrid")

    @property
    def preferred(self) -> bool:
        return self.variant in ("preferred", "hybrid")

    @classmethod
    def paper(cls, variant: Variant = "hybrid", missing_max: int = 4) -> "CTolerantConfig":
        """Return the setting of [CTOL §VI]: x = y = 5, TIMEOUT 500, c from Table I; only operators begin."""
        return cls(
            variant=variant,
            missing_max=missing_max,
            notify_retry_max=0,
            resend_interval=ms(500),
            ask_interval=FOREVER,
            bootstrap_after=FOREVER,
        )

    @classmethod
    def lan(cls, group_size: int) -> "CTolerantConfig":
        return cls(response_timeout=ms(100), resend_interval=ms(100), final_timeout=seconds(2), begin_spread=ms(100))

    @classmethod
    def wan(cls, group_size: int) -> "CTolerantConfig":
        """Return the preset for round trips of 300 ms and a few percent of loss."""
        return cls(response_timeout=seconds(1), resend_interval=ms(500), final_timeout=seconds(15))
