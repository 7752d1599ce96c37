"""The intervals and options of announce-listen elections."""

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta

from doyen.core.clock import FOREVER, ms, seconds
from doyen.core.config import Config, Doc, Pause, Period, Positive, Share, Timeout, need
from doyen.election.announce.wakeup import RankMap, TimerShape

LeaderIs = Literal["best", "earliest"]
ObservedRank = Literal["none", "delay", "loss", "neighbours"]

LEADER_COUNT_MAX: Final = 64
LeaderCount: TypeAlias = Annotated[int, Meta(ge=1, le=LEADER_COUNT_MAX)]
BYE_COUNT_MAX: Final = 32


class AnnounceConfig(Config, frozen=True, kw_only=True):
    """The timers and options by which a group announces and listens; the same on every member."""

    announce_interval: Annotated[
        Period, Doc("The time between two announcements (T_A). Shorter costs traffic, longer delays a takeover.")
    ] = seconds(1)
    listen_timeout: Annotated[
        Timeout, Doc("How long a leader may be silent (T_L). Too short: losses look like a departure.")
    ] = seconds(3)
    suppress_interval: Annotated[
        Pause, Doc("Each claims the lead after a random part of this (T_S). With 0 all do so at once (LE-A).")
    ] = ms(500)
    leader_is: Annotated[LeaderIs, Doc("Whether the best process leads, or the one that woke up earliest (LE-M).")] = (
        "best"
    )
    timer: Annotated[
        TimerShape, Doc("How wake-ups are drawn. Exponential: fewer messages, and a leader that is known later.")
    ] = "uniform"
    rank_map: Annotated[RankMap, Doc("Whether a process with a better rank wakes up earlier.")] = "none"
    observed_rank: Annotated[
        ObservedRank,
        Doc("What makes a process the better leader, as it observes it: least delay, least loss, most neighbours."),
    ] = "none"
    observe_interval: Annotated[
        Period, Doc("The time between two probes by which a process observes the others, where its rank asks for it.")
    ] = seconds(1)
    group_size: Annotated[
        Positive, Doc("The expected number of members; shapes the exponential timer and the number of Byes.")
    ] = 10
    leader_count: Annotated[
        LeaderCount, Doc("How many leaders there are (k). A process gives way once it has heard k better ones.")
    ] = 1
    query_timeout: Annotated[
        Pause, Doc("How long a process asks who leads before it claims the lead (T_Q); 0: it does not ask.")
    ] = 0
    bye_loss: Annotated[Share, Doc("The estimated share of lost messages, from which the number of Byes follows.")] = (
        0.0
    )
    bye_target_prob: Annotated[
        Share, Doc("The probability with which all are to hear a farewell (Bye); 0: none is sent.")
    ] = 0.99
    bye_from_all: Annotated[bool, Doc("Whether members that do not lead say farewell (Bye), too.")] = False
    ageing_after: Annotated[
        Timeout, Doc("How long a leader may be silent before it gives way to any new claim; inf: forever.")
    ] = FOREVER

    def check(self) -> None:
        by_rank = self.leader_is == "best" or self.rank_map == "none"
        need(by_rank, "rank_map", 'must be "none" where leader_is = "earliest"')
        observed = self.leader_is == "best" or self.observed_rank == "none"
        need(observed, "observed_rank", 'must be "none" where leader_is = "earliest"')

    @classmethod
    def paper(cls) -> "AnnounceConfig":
        """Return the setting of [LE §5.4]: T_S = T_A = 1, T_L = ∞, no extensions.  It breaks its own T_A ≥ T_S + Δ."""
        return cls(
            announce_interval=seconds(1),
            suppress_interval=seconds(1),
            listen_timeout=FOREVER,
            bye_target_prob=0.0,
        )

    @classmethod
    def lan(cls, group_size: int) -> "AnnounceConfig":
        """Return the preset for networks on which messages take a millisecond.

        T_S, a fifth of a second, keeps claims apart, and makes a takeover a tenth longer.  T_L is more than twice T_A,
        so one announcement may be lost, and the next be half a second late; T_A of a third of T_L would cost a quarter
        more messages, and the third announcement would come just too late.
        """
        return cls(announce_interval=ms(1250), suppress_interval=ms(200), group_size=group_size)

    @classmethod
    def wan(cls, group_size: int) -> "AnnounceConfig":
        """Return the preset for round trips of 300 ms and a few percent of loss."""
        return cls(
            announce_interval=seconds(2),
            listen_timeout=seconds(10),
            suppress_interval=seconds(1),
            group_size=group_size,
        )


def bye_count(config: AnnounceConfig) -> int:
    """[LE §5.7] Return the least r with (1 − l^r)^(N−1) ≥ target, so that everybody hears one of r Byes."""
    if config.bye_target_prob == 0:
        return 0
    for count in range(1, BYE_COUNT_MAX):
        if (1 - config.bye_loss**count) ** max(config.group_size - 1, 1) >= config.bye_target_prob:
            return count
    return BYE_COUNT_MAX
