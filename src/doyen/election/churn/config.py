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

    variant: Annotated[
        Variant, Doc("Optimistic names a leader early, preferred avoids unhealthy members, hybrid does both.")
    ] = "hybrid"
    missing_max: Annotated[
        Bound | Auto, Doc("How many members a list may lack (c). Too low: a wrong leader. With auto it is estimated.")
    ] = "auto"
    failure_max: Annotated[
        Bound, Doc("How many listed members may be dead (f). Too low: slow elections; each costs 2 messages.")
    ] = 0
    candidate_count: Annotated[
        Some, Doc("How many candidates an answer names (x). Too low: none of them may be healthy.")
    ] = 5
    unhealthy_count: Annotated[
        Bound, Doc("How many unhealthy members an answer names (y). Too low: one of them may lead.")
    ] = 5
    exclusion: Annotated[
        Exclusion, Doc("Who is passed over: all on any list of the unhealthy, or those suspected most (top).")
    ] = "union"
    response_timeout: Annotated[
        Period, Doc("How long answers are waited for: some round trips (TIMEOUT). Too long: slow retries.")
    ] = ms(500)
    timeout: Annotated[
        TimeoutFrom, Doc("Whether response_timeout is as configured, or twice the measured round trip (auto).")
    ] = "config"
    notify_retry_max: Annotated[
        Bound, Doc("How often NOTIFYLEADER is repeated before the election begins anew; 0: never.")
    ] = 3
    resend_interval: Annotated[
        Period, Doc("The time before a LEADER that is not acknowledged is repeated: about a round trip.")
    ] = ms(250)
    fan_out: Annotated[
        Bound, Doc("To how many members each receiver of LEADER passes it on; 0: its sender notifies all.")
    ] = 0
    dead_leader: Annotated[
        DeadLeader, Doc("What to do if a named leader is believed dead: ask it, or begin the next term.")
    ] = "ask"
    resign_cool_down: Annotated[Period, Doc("How long a member that has resigned is passed over.")] = seconds(60)
    final_timeout: Annotated[
        Period, Doc("How long a final result (LEADER) is waited for. Too short: rival elections.")
    ] = seconds(10)
    begin_spread: Annotated[
        Pause, Doc("A member without a leader begins within this time, at random. Too short: rivals.")
    ] = ms(500)
    back_off_max: Annotated[Period, Doc("The longest wait between two attempts while too few members are known.")] = (
        seconds(30)
    )
    ask_interval: Annotated[
        Timeout, Doc("The time between two questions to one member for its leader; inf: it is not asked.")
    ] = seconds(10)
    better_by: Annotated[
        Margin, Doc("By what share of the larger score another must be better before the leader hands over.")
    ] = 0.2
    better_for: Annotated[
        Wait, Doc("How long another must be better before the leader hands over. Too short: noise; inf: never.")
    ] = FOREVER
    bootstrap_after: Annotated[
        Wait, Doc("How long a member waits for a leader before it begins the first election; inf: forever.")
    ] = seconds(2)

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
            ask_interval=seconds(30),
        )

    @classmethod
    def wan(cls, group_size: int) -> "CTolerantConfig":
        """Return the preset for round trips of 300 ms and a few percent of loss."""
        return cls(
            response_timeout=seconds(1),
            resend_interval=ms(500),
            final_timeout=seconds(15),
            better_for=seconds(30),
            ask_interval=seconds(30),
        )
