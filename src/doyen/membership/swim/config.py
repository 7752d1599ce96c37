"""SWIM's knobs.  [SWIM], [Lifeguard]"""

from math import log, log10
from typing import Annotated, TypeAlias

from msgspec import Meta
from msgspec.structs import replace

from doyen.core.clock import FOREVER, Duration, ms, seconds
from doyen.core.config import Config, Doc, Period, Positive, Timeout, Wait, need

LN10 = log(10)
Few: TypeAlias = Annotated[int, Meta(ge=0, le=64)]
Factor: TypeAlias = Annotated[float, Meta(gt=0, le=100)]


class SwimConfig(Config, frozen=True, kw_only=True):
    """The timers and options by which a group watches itself; the same on every member."""

    period: Annotated[
        Period, Doc("One probe is sent in each period (T'). Shorter costs traffic, longer delays detection.")
    ] = seconds(1)
    ack_timeout: Annotated[
        Period, Doc("How long the answer to a probe is waited for. Below a round trip helpers are asked.")
    ] = ms(300)
    helper_count: Annotated[
        Few, Doc("How many members are asked to probe a silent one (k). With 0 each loss is a suspicion.")
    ] = 3
    repeat_mult: Annotated[
        Factor, Doc("An update is repeated this times ⌈ln(N+1)⌉ (λ). Too low: some members miss it.")
    ] = 2.0
    suspicion_mult: Annotated[
        float, Meta(gt=0, le=1000), Doc("A suspect has at least this times max(1, log10 N) periods to refute (α).")
    ] = 4.0
    suspicion_timeout: Annotated[
        Wait, Doc("A fixed time that a suspect has to refute; 0: it follows from suspicion_mult.")
    ] = 0
    suspicion_max_mult: Annotated[
        float, Meta(ge=1, le=100), Doc("How many times longer a suspect has while only one suspects it (β).")
    ] = 6.0
    confirmation_count: Annotated[
        Few, Doc("How many independent accusers end the longer time of suspicion_max_mult (K).")
    ] = 3
    nack_confirms: Annotated[
        bool, Doc("Whether a helper that says that the target is silent counts as an accuser.")
    ] = False
    recheck_interval: Annotated[
        Wait, Doc("How soon an accuser pings its suspect again, so that it can refute; 0: only in its turn.")
    ] = 0
    health_max: Annotated[
        Few, Doc("A node that doubts itself waits up to this plus one times longer (S); 0: not longer.")
    ] = 8
    tell_suspect: Annotated[
        bool, Doc("Whether a suspect is notified first by everybody who sends to it (Lifeguard's buddies).")
    ] = True
    tell_death_count: Annotated[
        Few, Doc("How many members each that learns of a death notifies at once; 0: none, as in SWIM.")
    ] = 0
    gossip_interval: Annotated[
        Wait, Doc("How often a member that has news sends them to gossip_count members; 0: news ride on probes only.")
    ] = 0
    gossip_count: Annotated[Few, Doc("How many members get the news each time.")] = 3
    beat_interval: Annotated[
        Wait, Doc("How often a leader sends a heartbeat to its watchers; 0: it is watched like any other member.")
    ] = 0
    watcher_count: Annotated[Few, Doc("How many members watch a leader: each expects its heartbeats.")] = 3
    watch_timeout: Annotated[
        Period,
        Doc("How long a leader that missed a heartbeat may be silent until it is suspected; at least 2 ack_timeout."),
    ] = seconds(1)
    sync_interval: Annotated[
        Timeout, Doc("The time between two comparisons of lists, by digests, with one member each; inf: never.")
    ] = seconds(30)
    join_interval: Annotated[
        Timeout, Doc("How often a node that is alone tries its seeds and the members that it lost.")
    ] = seconds(1)
    failed_kept: Annotated[Timeout, Doc("How long a failed member is shown, and tried again.")] = seconds(24 * 3600)
    left_kept: Annotated[Timeout, Doc("How long a member that left is shown.")] = seconds(600)
    tombstone_kept: Annotated[
        Timeout, Doc("How long a member that is no longer shown cannot return with its old incarnation.")
    ] = seconds(24 * 3600)
    present_max: Annotated[Positive, Doc("The greatest number of members; further ones are not believed.")] = 20_000
    absent_max: Annotated[
        Positive, Doc("The greatest number of failed and left members that are kept, and of tombstones.")
    ] = 1000
    unhealthy_half_life: Annotated[
        Timeout, Doc("After this time a suspicion counts half for a member's health; inf: it always counts.")
    ] = seconds(600)

    def check(self) -> None:
        need(self.ack_timeout < self.period, "ack_timeout", "must be less than period")
        need(self.join_interval <= self.sync_interval, "join_interval", "must not be more than sync_interval")

    @property
    def lifeguard(self) -> bool:
        return self.health_max > 0

    @property
    def watch_patience(self) -> Duration:
        """Return for how long a watcher probes the leader: helpers, who are asked after ack_timeout, need as long."""
        return max(self.watch_timeout, 2 * self.ack_timeout)

    @property
    def beat_patience(self) -> Duration:
        """Return how long a watcher waits for the next heartbeat of a leader before it probes the leader."""
        return self.beat_interval + self.ack_timeout

    @classmethod
    def paper(cls) -> "SwimConfig":
        """[SWIM §5] 2 s periods, one helper, 3⌈log(N+1)⌉ repetitions and periods of suspicion; no extension on.

        Ambiguity [SWIM §5]: the base of the logarithm; natural here.
        """
        return cls(
            period=seconds(2),
            ack_timeout=ms(500),
            helper_count=1,
            repeat_mult=3.0,
            suspicion_mult=3.0 * LN10,
            unhealthy_half_life=FOREVER,
        ).plain()

    @classmethod
    def lan(cls, group_size: int) -> "SwimConfig":
        """Return the preset for round trips of a few milliseconds: each member sends one small datagram a second."""
        return cls(
            period=seconds(2),
            ack_timeout=ms(200),
            suspicion_timeout=ms(1750),
            suspicion_max_mult=3.0,
            beat_interval=seconds(1),
            watch_timeout=ms(500),
        ).attentive()

    @classmethod
    def wan(cls, group_size: int) -> "SwimConfig":
        """Return the preset for round trips of 300 ms and a few percent of loss."""
        return cls(
            period=seconds(2),
            ack_timeout=ms(800),
            suspicion_timeout=seconds(4),
            suspicion_max_mult=3.0,
            beat_interval=ms(1500),
            watch_timeout=ms(1800),
        ).attentive()

    def attentive(self) -> "SwimConfig":
        """The same with all that finds out and spreads news outside of probes (decision 29)."""
        often = self.ack_timeout
        return replace(self, nack_confirms=True, recheck_interval=often, gossip_interval=often)

    def plain(self) -> "SwimConfig":
        """The same without Lifeguard and anti-entropy: SWIM as it was published."""
        return replace(
            self,
            suspicion_max_mult=1.0,
            confirmation_count=0,
            health_max=0,
            tell_suspect=False,
            tell_death_count=0,
            nack_confirms=False,
            recheck_interval=0,
            gossip_interval=0,
            beat_interval=0,
            sync_interval=FOREVER,
        )

    def longest_suspicion(self, group_size: int) -> Duration:
        """Return how long a suspicion lasts at most, if nothing is lost: helpers confirm it, or too few could."""
        others = group_size - 2
        confirmed = self.nack_confirms and min(self.helper_count, others) >= self.confirmation_count
        alone = others < self.confirmation_count
        return (suspicion_min if confirmed or alone else suspicion_max)(self, group_size)


def suspicion_min(config: SwimConfig, group_size: int) -> Duration:
    """[Lifeguard §IV-B] Min = α·log10(N)·period; [SWIM] calls it the suspicion timeout."""
    return config.suspicion_timeout or int(config.suspicion_mult * max(1.0, log10(max(1, group_size))) * config.period)


def suspicion_max(config: SwimConfig, group_size: int) -> Duration:
    """[Lifeguard §IV-B] Max = β·Min."""
    return int(config.suspicion_max_mult * suspicion_min(config, group_size))
