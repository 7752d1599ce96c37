"""The settings of a group of many hops that watches near members more often than far ones.  [MEDLEY]"""

from functools import lru_cache
from typing import Annotated, TypeAlias

from msgspec import Meta

from doyen.core.clock import FOREVER, ms, seconds
from doyen.core.config import Config, Doc, Period, Timeout
from doyen.membership.swim.config import Few, SwimConfig

Factor: TypeAlias = Annotated[float, Meta(ge=0, le=1e6)]


class MedleyConfig(Config, frozen=True, kw_only=True):
    period: Annotated[
        Period, Doc("One probe is sent in each period. Shorter costs traffic, longer delays detection.")
    ] = seconds(2)
    ack_timeout: Annotated[
        Period, Doc("How long the answer to a probe is waited for: about a round trip to near members.")
    ] = ms(500)
    helper_count: Annotated[Few, Doc("How many members are asked to probe a silent one.")] = 3
    suspicion_timeout: Annotated[Period, Doc("How long a suspect has to refute. Too short: false positives.")] = (
        seconds(16)
    )
    distance_exponent: Annotated[
        float, Meta(ge=0, le=16), Doc("How much more often near members are probed (m); 0: all alike, as in SWIM.")
    ] = 3.0
    time_bounded: Annotated[
        bool, Doc("Whether members are probed in turns, so that none waits forever; if not, at random.")
    ] = True
    turn_max_mult: Annotated[
        float, Meta(ge=1, le=1e6), Doc("Each member has its turn within this many times N periods.")
    ] = 8.0
    passive_feedback: Annotated[bool, Doc("Whether members that say they are seldom probed are probed more often.")] = (
        True
    )
    active_feedback_periods: Annotated[
        Factor, Doc("After how many periods without a probe a member asks for one; 0: it never asks.")
    ] = 4.0
    repeat_mult: Annotated[float, Doc("An update is repeated this factor times ⌈ln(N+1)⌉ (λ).")] = 3.0
    leader_weight: Annotated[
        Factor, Doc("The leader's least weight, where a neighbour has 1: more makes its end known sooner.")
    ] = 0.0
    lifeguard: Annotated[bool, Doc("Whether local health, confirmations and buddies are used, as in SWIM here.")] = (
        False
    )
    sync_interval: Annotated[
        Timeout, Doc("The time between two comparisons of lists, by digests, with one member each; inf: never.")
    ] = FOREVER
    join_interval: Annotated[
        Timeout, Doc("How often a node that is alone tries its seeds and the members that it lost.")
    ] = seconds(1)
    unhealthy_half_life: Annotated[
        Timeout, Doc("After this time a suspicion counts half for a member's health; inf: it always counts.")
    ] = FOREVER

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
        return _swim(self)


@lru_cache(maxsize=16)
def _swim(config: MedleyConfig) -> SwimConfig:
    """Made once for all nodes of a simulation."""
    return SwimConfig(
        period=config.period,
        ack_timeout=config.ack_timeout,
        helper_count=config.helper_count,
        suspicion_timeout=config.suspicion_timeout,
        suspicion_max_mult=2.0 if config.lifeguard else 1.0,
        repeat_mult=config.repeat_mult,
        health_max=8 if config.lifeguard else 0,
        confirmation_count=3 if config.lifeguard else 0,
        tell_suspect=config.lifeguard,
        sync_interval=config.sync_interval,
        join_interval=config.join_interval,
        unhealthy_half_life=config.unhealthy_half_life,
    )
