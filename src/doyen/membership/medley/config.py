"""How a group of many hops watches itself, near members more often than far ones.  [MEDLEY]"""

from msgspec import Struct

from doyen.core.clock import FOREVER, Duration, ms, seconds
from doyen.errors import ConfigError
from doyen.membership.swim.config import SwimConfig


class MedleyConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    period: Duration = seconds(2)  #: One probe each.  Short: traffic.  Long: slow detection.
    ack_timeout: Duration = ms(500)  #: Patience for a direct ack; about a round trip to the near.
    helper_count: int = 3  #: Members asked to ping a silent one.
    suspicion_timeout: Duration = seconds(16)  #: A suspect's time to refute.  Short: false positives.
    distance_exponent: float = 3.0  #: m: 0 is SWIM's even choice; large: only neighbours are pinged.
    time_bounded: bool = True  #: Targets take turns, so that nobody waits for ever; else each is drawn by chance.
    turn_max_mult: float = 8.0  #: Every member's turn comes at least every so many times N periods.
    passive_feedback: bool = True  #: Weights follow how seldom a member says it is pinged.
    active_feedback_periods: float = 4.0  #: Who is not pinged for so many periods asks for it; 0: never.
    repeat_mult: float = 3.0  #: λ: an update is repeated λ·⌈ln(N+1)⌉ times.
    leader_weight: float = 0.0  #: Whoever leads weighs so much at least (a neighbour: 1), so its end is soon known.
    lifeguard: bool = False  #: Local health, confirmations and buddies, as in SWIM here.
    sync_interval: Duration = FOREVER  #: Digests are compared with one member.  FOREVER: never, as published.
    join_interval: Duration = seconds(1)  #: Seeds and lost members are tried so often while alone; for ever.
    unhealthy_half_life: Duration = FOREVER  #: Suspicion counts are halved so often.  FOREVER: they only grow.

    def __post_init__(self) -> None:
        def need(holds: bool, what: str) -> None:
            if not holds:
                raise ConfigError(f"Medley needs {what}, got {self}")

        need(0 <= self.distance_exponent <= 16, "0 <= distance_exponent <= 16")
        need(1 <= self.turn_max_mult <= 1e6, "1 <= turn_max_mult")
        need(0 <= self.active_feedback_periods <= 1e6, "0 <= active_feedback_periods")
        need(0 <= self.leader_weight <= 1e6, "0 <= leader_weight")
        need(0 < self.suspicion_timeout < FOREVER, "0 < suspicion_timeout")
        self.swim()

    @classmethod
    def paper(cls) -> "MedleyConfig":
        """[MEDLEY], [CTOL] 2 s periods, 500 ms timeouts, 3 helpers, 16 s of suspicion, m = 3."""
        return cls()

    @classmethod
    def lan(cls, group_size: int) -> "MedleyConfig":
        return cls(
            period=seconds(1),
            ack_timeout=ms(300),
            suspicion_timeout=seconds(5),
            leader_weight=1.0,
            lifeguard=True,
            sync_interval=seconds(30),
            unhealthy_half_life=seconds(600),
        )

    @classmethod
    def wan(cls, group_size: int) -> "MedleyConfig":
        return cls(leader_weight=1.0, lifeguard=True, sync_interval=seconds(30), unhealthy_half_life=seconds(600))

    def swim(self) -> SwimConfig:
        """The rest of it, as SWIM's."""
        return SwimConfig(
            period=self.period,
            ack_timeout=self.ack_timeout,
            helper_count=self.helper_count,
            suspicion_timeout=self.suspicion_timeout,
            suspicion_max_mult=2.0 if self.lifeguard else 1.0,
            repeat_mult=self.repeat_mult,
            health_max=8 if self.lifeguard else 0,
            confirmation_count=3 if self.lifeguard else 0,
            tell_suspect=self.lifeguard,
            sync_interval=self.sync_interval,
            join_interval=self.join_interval,
            unhealthy_half_life=self.unhealthy_half_life,
        )
