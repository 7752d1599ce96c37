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
    """One probe is sent in each period (T'). Shorter costs traffic, longer delays detection."""
    ack_timeout: Time = PRESET
    """How long the answer to a probe is waited for. Below a round trip helpers are asked."""
    helper_count: int = PRESET
    """How many members are asked to probe a silent one (k). With 0 each loss is a suspicion."""
    repeat_mult: float = PRESET
    """An update is repeated this times ⌈ln(N+1)⌉ (λ). Too low: some members miss it."""
    suspicion_mult: float = PRESET
    """A suspect has at least this times max(1, log10 N) periods to refute (α)."""
    suspicion_timeout: Time = PRESET
    """A fixed time that a suspect has to refute; 0: it follows from suspicion_mult."""
    suspicion_max_mult: float = PRESET
    """How many times longer a suspect has while only one suspects it (β)."""
    confirmation_count: int = PRESET
    """How many independent accusers end the longer time of suspicion_max_mult (K)."""
    nack_confirms: bool = PRESET
    """Whether a helper that says that the target is silent counts as an accuser."""
    recheck_interval: Time = PRESET
    """How soon an accuser pings its suspect again, so that it can refute; 0: only in its turn."""
    health_max: int = PRESET
    """A node that doubts itself waits up to this plus one times longer (S); 0: not longer."""
    tell_suspect: bool = PRESET
    """Whether a suspect is notified first by everybody who sends to it (Lifeguard's buddies)."""
    tell_death_count: int = PRESET
    """How many members each that learns of a death notifies at once; 0: none, as in SWIM."""
    gossip_interval: Time = PRESET
    """How often a member that has news sends them to gossip_count members; 0: news ride on probes only."""
    gossip_count: int = PRESET
    """How many members get the news each time."""
    beat_interval: Time = PRESET
    """How often a leader sends a heartbeat to its watchers; 0: it is watched like any other member."""
    watcher_count: int = PRESET
    """How many members watch a leader: each expects its heartbeats."""
    watch_timeout: Time = PRESET
    """How long a leader that missed a heartbeat may be silent until it is suspected; at least 2 ack_timeout."""
    sync_interval: Time = PRESET
    """The time between two comparisons of lists, by digests, with one member each; inf: never."""
    join_interval: Time = PRESET
    """How often a node that is alone tries its seeds and the members that it lost."""
    failed_kept: Time = PRESET
    """How long a failed member is shown, and tried again."""
    left_kept: Time = PRESET
    """How long a member that left is shown."""
    tombstone_kept: Time = PRESET
    """How long a member that is no longer shown cannot return with its old incarnation."""
    present_max: int = PRESET
    """The greatest number of members; further ones are not believed."""
    absent_max: int = PRESET
    """The greatest number of failed and left members that are kept, and of tombstones."""
    unhealthy_half_life: Time = PRESET
    """After this time a suspicion counts half for a member's health; inf: it always counts."""


preset = presets(
    SwimConfig,
    local=lambda size: SwimConfig(
        period=ms(200),
        ack_timeout=ms(80),
        suspicion_timeout=ms(800),
        suspicion_max_mult=3.0,
        beat_interval=ms(200),
        watch_timeout=ms(200),
        join_interval=ms(200),
        sync_interval=seconds(5),
    ).attentive(),
    iot=lambda size: SwimConfig(
        period=seconds(5),
        ack_timeout=seconds(1),
        suspicion_timeout=seconds(8),
        suspicion_max_mult=3.0,
        beat_interval=seconds(3),
        watch_timeout=ms(2300),
    ).attentive(),
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
    suspicion = config.longest_suspicion(group_size)
    spreading = (config.gossip_interval or config.period) * max(1, group_size - 1).bit_length()
    return Detection(
        config.period * max(1, group_size - 1) + suspicion + spreading,
        "a round of probes, the longest suspicion, and its news",
        # Regions find each other when a node tries a member that it holds failed: in three rounds almost surely.
        merging=3 * config.sync_interval,
        of_leader=config.beat_patience + config.watch_patience + suspicion if config.beat_interval else None,
        of_leader_because="the next heartbeat, a probe, and the suspicion",
        spreading=spreading,
    )


SWIM = MembershipKind(
    name="swim",
    about="Probes, suspicion and gossip.",
    table=Table(name="swim", about="SWIM membership", config=SwimConfig, preset=preset),
    choice=Swim,
    build=build,
    detection=detection,
)
