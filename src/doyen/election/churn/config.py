"""The timers and options of elections over weak views; the same on every member.  [CTOL §IV]"""

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta

from doyen.core.clock import FOREVER, Duration, ms, seconds
from doyen.core.config import Config, Doc, Pause, Period, Timeout, Wait, need

Variant = Literal["base", "optimistic", "preferred", "hybrid"]
Exclusion = Literal["union", "top"]
TimeoutFrom = Literal["config", "auto"]
DeadLeader = Literal["ask", "next-term"]

TIMEOUT_MIN: Final[Duration] = ms(5)  # The least measured TIMEOUT: scheduling takes as long.
BOUND_MAX: Final = 100_000  # The most that c, f, x and y can be: more members than any group has.
Bound: TypeAlias = Annotated[int, Meta(ge=0, le=BOUND_MAX)]
Some: TypeAlias = Annotated[int, Meta(ge=1, le=BOUND_MAX)]
Margin: TypeAlias = Annotated[float, Meta(ge=0, le=2)]  # Of scores with different signs, the greatest is 2.
Auto: TypeAlias = Literal["auto"]


class CTolerantConfig(Config, frozen=True, kw_only=True):
    """The variant of the protocol, how many missing and stale entries it tolerates, and how long it waits."""

    variant: Annotated[Variant, Doc("Optimistic names a leader early, preferred avoids the unhealthy.")] = "hybrid"
    missing_max: Annotated[Bound | Auto, Doc("c. Low: a wrong leader. High: 2 messages each. auto: estimated.")] = (
        "auto"
    )
    failure_max: Annotated[Bound, Doc("f. Low: a wait of response_timeout per silent node. High: 2 messages each.")] = 0
    candidate_count: Annotated[Some, Doc("x. Low: no healthy candidate. High: longer messages.")] = 5
    unhealthy_count: Annotated[Bound, Doc("y. Low: an unhealthy leader. High: nobody is left, another attempt.")] = 5
    exclusion: Annotated[Exclusion, Doc("union: all on any unhealthy list; top: the y greatest sums.")] = "union"
    response_timeout: Annotated[Period, Doc("TIMEOUT, some round trips. Short: queries. Long: slow retries.")] = ms(500)
    timeout: Annotated[TimeoutFrom, Doc("Where TIMEOUT is from; auto: twice what the membership measures.")] = "config"
    notify_retry_max: Annotated[Bound, Doc("NOTIFYLEADERs repeated before an attempt begins anew; 0: as printed.")] = 3
    resend_interval: Annotated[Period, Doc("Between repetitions of an unacknowledged LEADER: a round trip.")] = ms(250)
    fan_out: Annotated[Bound, Doc("Members to whom each receiver of LEADER passes it on; 0: its sender tells all.")] = 0
    dead_leader: Annotated[DeadLeader, Doc("A leader named but held dead is asked, or the next term begins.")] = "ask"
    resign_cool_down: Annotated[Period, Doc("How long a member that resigned is passed over.")] = seconds(60)
    final_timeout: Annotated[Period, Doc("The longest wait for a final LEADER. Short: rival elections.")] = seconds(10)
    begin_spread: Annotated[Pause, Doc("A leaderless member begins within this, at random. Short: rivals.")] = ms(500)
    back_off_max: Annotated[Period, Doc("The longest wait between attempts while too few are known.")] = seconds(30)
    ask_interval: Annotated[Timeout, Doc("Between questions to one member for its leader; inf is off.")] = seconds(10)
    better_by: Annotated[Margin, Doc("A leader hands over to a score that is greater by this share of the larger.")] = (
        0.2
    )
    better_for: Annotated[Wait, Doc("How long it must have been greater. 0: noise flaps. inf: no hand-over.")] = FOREVER
    bootstrap_after: Annotated[Wait, Doc("When a member without a leader begins an election; inf is off.")] = seconds(2)

    def check(self) -> None:
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
    def lan(cls, group_size: int) -> "CTolerantConfig":
        return cls(
            response_timeout=ms(100),
            resend_interval=ms(100),
            final_timeout=seconds(2),
            begin_spread=ms(100),
            better_for=seconds(10),
        )

    @classmethod
    def wan(cls, group_size: int) -> "CTolerantConfig":
        """Return the preset for round trips of 300 ms and a few percent of loss."""
        return cls(
            response_timeout=seconds(1), resend_interval=ms(500), final_timeout=seconds(15), better_for=seconds(30)
        )
