"""The settings of a group of many hops that watches near members more often than far ones.  [MEDLEY]"""

from typing import Annotated, TypeAlias

from msgspec import Meta

from doyen.core.clock import FOREVER, ms, seconds
from doyen.core.config import Config, Doc, Period, Timeout
from doyen.membership.swim.config import Few, SwimConfig

Factor: TypeAlias = Annotated[float, Meta(ge=0, le=1e6)]


class MedleyConfig(Config, frozen=True, kw_only=True):
    period: Annotated[Period, Doc("One probe is sent in each. Short: traffic. Long: slow detection.")] = seconds(2)
    ack_timeout: Annotated[Period, Doc("The wait for a direct ack; about a round trip to the near.")] = ms(500)
    helper_count: Annotated[Few, Doc("Members asked to ping a silent one.")] = 3
    suspicion_timeout: Annotated[Period, Doc("A suspect's time to refute. Short: false positives.")] = seconds(16)
    distance_exponent: Annotated[float, Meta(ge=0, le=16), Doc("m. 0: SWIM's even choice. Large: only the near.")] = 3.0
    time_bounded: Annotated[bool, Doc("Targets take turns, so that nobody waits for ever; else each is drawn.")] = True
    turn_max_mult: Annotated[float, Meta(ge=1, le=1e6), Doc("Within N periods times this, each has its turn.")] = 8.0
    passive_feedback: Annotated[bool, Doc("Weights follow how seldom a member says it is pinged.")] = True
    active_feedback_periods: Annotated[Factor, Doc("Who is not pinged for this many asks for it; 0: never.")] = 4.0
    repeat_mult: Annotated[float, Doc("λ: an update is repeated λ·⌈ln(N+1)⌉ times.")] = 3.0
    leader_weight: Annotated[Factor, Doc("The leader's least weight (a neighbour: 1), so its end is soon known.")] = 0.0
    lifeguard: Annotated[bool, Doc("Local health, confirmations and buddies, as in SWIM here.")] = False
    sync_interval: Annotated[Timeout, Doc("Digests are compared with one member in each. inf: never.")] = FOREVER
    join_interval: Annotated[Timeout, Doc("While alone, seeds and lost members are tried once in each.")] = seconds(1)
    unhealthy_half_life: Annotated[Timeout, Doc("Suspicions count half after each. inf: for ever.")] = FOREVER

    def check(self) -> None:
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
