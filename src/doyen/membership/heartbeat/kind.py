"""Gossiped heartbeats as a kind of membership."""

from collections.abc import Callable
from typing import Any

from doyen.core.clock import ms, seconds
from doyen.core.effects import Out
from doyen.core.kinds import PRESET, Detection, MembershipChoice, MembershipKind, Place, Table, Time, presets
from doyen.membership.heartbeat.config import HeartbeatConfig
from doyen.membership.swim.kind import gossiping


class Heartbeat(MembershipChoice, frozen=True, kw_only=True):
    """Gossiped heartbeats: each member counts, and one whose count stands still has failed.  [RENESSE]"""

    kind = "heartbeat"

    period: Time = PRESET
    fail_periods: float = PRESET
    fail_periods_log: float = PRESET
    entries_max: int = PRESET
    reconnect_periods: int = PRESET
    failed_kept: Time = PRESET
    unhealthy_half_life: Time = PRESET


preset = presets(
    HeartbeatConfig,
    local=lambda size: HeartbeatConfig(period=ms(100)),
    iot=lambda size: HeartbeatConfig(period=seconds(5), fail_periods=16.0),
)


def build(place: Place) -> Callable[[Out], Any]:
    from doyen.membership.heartbeat.machine import Heartbeat as Machine

    return gossiping(place, Machine)


def detection(config: HeartbeatConfig, group_size: int) -> Detection:
    return Detection(
        2 * config.fail_after(group_size) + config.period,
        "fail_after until the news of its last beat has come, fail_after again, and a period",
        merging=3 * config.reconnect_periods * config.period,
    )


HEARTBEAT = MembershipKind(
    name="heartbeat",
    about="Gossiped heartbeats.",
    table=Table(name="heartbeat", about="Heartbeat membership", config=HeartbeatConfig, preset=preset),
    choice=Heartbeat,
    build=build,
    detection=detection,
)
