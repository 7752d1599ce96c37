"""Medley as a kind of membership."""

from collections.abc import Callable
from typing import Any

from doyen.core.clock import ms, seconds
from doyen.core.effects import Out
from doyen.core.kinds import PRESET, Detection, MembershipChoice, MembershipKind, Place, Table, Time, presets
from doyen.membership.medley.config import MedleyConfig
from doyen.membership.swim.kind import ROUND_TRIPS_MAX, gossiping


class Medley(MembershipChoice, frozen=True, kw_only=True):
    """SWIM for networks of many hops: near members are pinged more often than far ones.  [MEDLEY]"""

    kind = "medley"

    period: Time = PRESET
    ack_timeout: Time = PRESET
    helper_count: int = PRESET
    suspicion_timeout: Time = PRESET
    distance_exponent: float = PRESET
    time_bounded: bool = PRESET
    turn_max_mult: float = PRESET
    passive_feedback: bool = PRESET
    active_feedback_periods: float = PRESET
    repeat_mult: float = PRESET
    leader_weight: float = PRESET
    lifeguard: bool = PRESET
    sync_interval: Time = PRESET
    join_interval: Time = PRESET
    unhealthy_half_life: Time = PRESET


preset = presets(
    MedleyConfig,
    local=lambda size: MedleyConfig(
        period=ms(200),
        ack_timeout=ms(80),
        suspicion_timeout=seconds(1),
        lifeguard=True,
        join_interval=ms(200),
        sync_interval=seconds(5),
        unhealthy_half_life=seconds(600),
    ),
    iot=lambda size: MedleyConfig(
        lifeguard=True, sync_interval=seconds(60), unhealthy_half_life=seconds(600), period=seconds(2)
    ),
)


def build(place: Place) -> Callable[[Out], Any]:
    from doyen.membership.medley.machine import Hops
    from doyen.membership.medley.machine import Medley as Machine

    return gossiping(place, Machine, distance=Hops(place.hops), round_trips_max=ROUND_TRIPS_MAX)


def detection(config: MedleyConfig, group_size: int) -> Detection:
    rounds = int(config.turn_max_mult * max(1, group_size - 1))
    return Detection(
        config.period * rounds + 2 * config.suspicion_timeout,
        "the longest turn, and the longest suspicion",
        merging=3 * config.sync_interval,
    )


MEDLEY = MembershipKind(
    name="medley",
    about="SWIM for networks of many hops.",
    table=Table(name="medley", about="Medley membership", config=MedleyConfig, preset=preset),
    choice=Medley,
    build=build,
    detection=detection,
)
