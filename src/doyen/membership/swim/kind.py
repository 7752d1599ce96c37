"""SWIM as a kind of membership."""

from collections.abc import Callable
from typing import Any

from doyen.core.clock import ms, seconds
from doyen.core.effects import Out
from doyen.core.kinds import PRESET, Detection, MembershipChoice, MembershipKind, Place, Table, Time, presets
from doyen.membership.swim.config import SwimConfig

ROUND_TRIPS_MAX = 4096  # Members whose own round trip is remembered.


class Swim(MembershipChoice, frozen=True, kw_only=True):
    """Probes, suspicion and gossip: cheap, and quick to know of a death.  [SWIM], [Lifeguard]"""

    kind = "swim"

    period: Time = PRESET
    ack_timeout: Time = PRESET
    helper_count: int = PRESET
    repeat_mult: float = PRESET
    suspicion_mult: float = PRESET
    suspicion_timeout: Time = PRESET
    suspicion_max_mult: float = PRESET
    confirmation_count: int = PRESET
    health_max: int = PRESET
    tell_suspect: bool = PRESET
    tell_death_count: int = PRESET
    sync_interval: Time = PRESET
    join_interval: Time = PRESET
    failed_kept: Time = PRESET
    left_kept: Time = PRESET
    tombstone_kept: Time = PRESET
    present_max: int = PRESET
    absent_max: int = PRESET
    unhealthy_half_life: Time = PRESET


preset = presets(
    SwimConfig,
    local=lambda size: SwimConfig(period=ms(200), ack_timeout=ms(80), join_interval=ms(200), sync_interval=seconds(5)),
    iot=lambda size: SwimConfig(period=seconds(5), ack_timeout=seconds(1), suspicion_mult=5.0),
)


def gossiping(place: Place, machine: Callable[..., Any], **more: Any) -> Callable[[Out], Any]:
    """Return how a machine that gossips is made at a place."""
    rng = place.rng(place.channel)
    return lambda out: machine(
        place.node,
        place.config,
        out,
        rng,
        incarnation=place.incarnation,
        address=place.address,
        seeds=place.seeds,
        payload_max=place.payload_max,
        **more,
    )


def build(place: Place) -> Callable[[Out], Any]:
    from doyen.membership.swim.machine import Swim as Machine

    return gossiping(place, Machine, round_trips_max=ROUND_TRIPS_MAX)


def detection(config: SwimConfig, group_size: int) -> Detection:
    spread = config.period * max(1, group_size - 1).bit_length()
    return Detection(
        config.worst_detection(group_size) + spread,
        "a round of probes, the longest suspicion, and its news",
        # Regions find each other when a node tries a member that it holds failed: in three rounds almost surely.
        merging=3 * config.sync_interval,
    )


SWIM = MembershipKind(
    name="swim",
    about="Probes, suspicion and gossip.",
    table=Table(name="swim", about="SWIM membership", config=SwimConfig, preset=preset),
    choice=Swim,
    build=build,
    detection=detection,
)
