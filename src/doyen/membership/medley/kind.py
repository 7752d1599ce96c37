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
    """One probe is sent in each period. Shorter costs traffic, longer delays detection."""
    ack_timeout: Time = PRESET
    """How long the answer to a probe is waited for: about a round trip to near members."""
    helper_count: int = PRESET
    """How many members are asked to probe a silent one."""
    suspicion_timeout: Time = PRESET
    """How long a suspect has to refute. Too short: false positives."""
    distance_exponent: float = PRESET
    """How much more often near members are probed (m); 0: all alike, as in SWIM."""
    time_bounded: bool = PRESET
    """Whether members are probed in turns, so that none waits forever; if not, at random."""
    turn_max_mult: float = PRESET
    """Each member has its turn within this many times N periods."""
    passive_feedback: bool = PRESET
    """Whether members that say they are seldom probed are probed more often."""
    active_feedback_periods: float = PRESET
    """After how many periods without a probe a member asks for one; 0: it never asks."""
    repeat_mult: float = PRESET
    """An update is repeated this factor times ⌈ln(N+1)⌉ (λ)."""
    leader_weight: float = PRESET
    """The leader's least weight, where a neighbour has 1: more makes its end known sooner."""
    lifeguard: bool = PRESET
    """Whether local health, confirmations and buddies are used, as in SWIM here."""
    sync_interval: Time = PRESET
    """The time between two comparisons of lists, by digests, with one member each; inf: never."""
    join_interval: Time = PRESET
    """How often a node that is alone tries its seeds and the members that it lost."""
    unhealthy_half_life: Time = PRESET
    """After this time a suspicion counts half for a member's health; inf: it always counts."""


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
