"""The intervals and options of announce-listen elections."""

from typing import Final, Literal

from msgspec import Struct

from doyen.core.clock import FOREVER, Duration, ms, seconds
from doyen.election.announce.wakeup import RankMap, TimerShape
from doyen.errors import ConfigError

LEADER_COUNT_MAX: Final = 64
BYE_COUNT_MAX: Final = 32


class AnnounceConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a group announces and listens; the same on every member."""

    announce_interval: Duration = seconds(1)  #: T_A.  Short: traffic.  Long: slow takeover.
    listen_timeout: Duration = seconds(
        3
    )  #: T_L = k·T_A.  Short: false departures (N−1)(1−l)l^k per T_A.  Long: slow takeover.
    suppress_interval: Duration = ms(500)  #: T_S.  0 is LE-A: all speak at once.  Long: slow first election.
    leader_is: Literal["best", "earliest"] = "best"  #: `earliest` is LE-M: the wake-up decides, not the standing.
    timer: TimerShape = "uniform"  #: Wake-up distribution; exponential: fewer messages, a later first leader.
    rank_map: RankMap = "none"  #: Whether a process with a better place wakes earlier.
    group_size: int = 10  #: N as expected; shapes the exponential timer and the number of Byes, nothing else.
    leader_count: int = 1  #: k.  A process yields after hearing k better ones; each names all k.
    query_timeout: Duration = 0  #: T_Q ≥ 2Δ; 0 is off.  A process asks before its first claim, and waits this long.
    bye_loss: float = 0.0  #: The estimated loss, by which the number of Byes is chosen.
    bye_target_prob: float = 0.99  #: The probability that everybody is to hear a Bye; 0 is off.
    bye_from_all: bool = False  #: Members that do not lead say Bye too.
    ageing_after: Duration = FOREVER  #: When a silent leader yields to any fresh claim; FOREVER is off.

    def __post_init__(self) -> None:
        def need(holds: bool, field: str, wanted: str) -> None:
            if not holds:
                raise ConfigError(wanted, field=field)

        need(0 < self.announce_interval < FOREVER, "announce_interval", "must be positive and finite")
        need(0 < self.listen_timeout, "listen_timeout", "must be positive (inf: never)")
        need(0 <= self.suppress_interval < FOREVER, "suppress_interval", "must be 0 (LE-A) or more, and finite")
        need(0 <= self.query_timeout < FOREVER, "query_timeout", "must be 0 (off) or more, and finite")
        need(
            1 <= self.leader_count <= LEADER_COUNT_MAX,
            "leader_count",
            f"{self.leader_count} is out of range: give 1 to {LEADER_COUNT_MAX}",
        )
        need(1 <= self.group_size, "group_size", f"{self.group_size} is too few: give at least 1")
        need(0 <= self.bye_loss < 1, "bye_loss", f"{self.bye_loss} is out of range: give 0 or more, and less than 1")
        need(
            0 <= self.bye_target_prob < 1,
            "bye_target_prob",
            f"{self.bye_target_prob} is out of range: give 0 (off) or more, and less than 1",
        )
        need(0 < self.ageing_after, "ageing_after", "must be positive (inf: off)")
        need(
            self.leader_is == "best" or self.rank_map == "none",
            "rank_map",
            'must be "none" where leader_is = "earliest"',
        )

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
