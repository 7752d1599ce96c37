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
    """One message is sent in each period (T_gossip). Shorter costs traffic."""
    fail_periods: float = PRESET
    """After how many silent periods a member has failed. Too few: false positives."""
    fail_periods_log: float = PRESET
    """How many periods are added to fail_periods for each doubling of the group."""
    entries_max: int = PRESET
    """How many counters a message has. In larger groups they take turns, which is slower."""
    reconnect_periods: int = PRESET
    """One message in this many goes to a seed or a failed member; 0: none does."""
    failed_kept: Time = PRESET
    """How long a failed member is shown, and tried again; at least twice the failure time."""
    unhealthy_half_life: Time = PRESET
    """After this time a false positive counts half for a member's health; inf: always."""


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
