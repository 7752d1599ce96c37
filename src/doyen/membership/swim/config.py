"""SWIM's knobs.  [SWIM], [Lifeguard]"""

from math import log, log10

from msgspec import Struct
from msgspec.structs import replace

from doyen.core.clock import FOREVER, Duration, ms, seconds
from doyen.errors import ConfigError

LN10 = log(10)


class SwimConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a group watches itself; the same on every member."""

    period: Duration = seconds(1)  #: T': one probe each.  Short: traffic.  Long: slow detection.
    ack_timeout: Duration = ms(300)  #: Patience for a direct ack.  Below a round trip helpers are always asked.
    helper_count: int = 3  #: k: members asked to ping a silent one.  0: every lost packet is a suspicion.
    repeat_mult: float = 2.0  #: λ: an update is repeated λ·⌈ln(N+1)⌉ times.  Low: some miss it.  High: traffic.
    suspicion_mult: float = 4.0  #: α: a suspect has α·max(1, log10 N) periods to refute, at the least.
    suspicion_timeout: Duration = 0  #: A fixed time to refute instead; 0: by suspicion_mult.
    suspicion_max_mult: float = 6.0  #: β: so much longer while nobody else suspects it.  1: off (plain SWIM).
    confirmation_count: int = 3  #: K: so many independent accusers bring the time to refute down to its least.
    health_max: int = 8  #: S: a node that doubts itself waits up to S+1 times longer.  0: off (plain SWIM).
    tell_suspect: bool = True  #: Lifeguard's buddy system: whoever speaks to a suspect tells it so first.
    tell_death_count: int = 0  #: Members told of a death at once by whoever learns of it.  0: piggybacked only (plain).
    sync_interval: Duration = seconds(30)  #: Digests are compared with one member.  FOREVER: never (plain SWIM).
    join_interval: Duration = seconds(1)  #: Seeds and lost members are tried so often while alone; for ever.
    failed_kept: Duration = seconds(24 * 3600)  #: A failed member is shown, and tried again, for so long.
    left_kept: Duration = seconds(600)  #: A member that left is shown for so long.
    tombstone_kept: Duration = seconds(24 * 3600)  #: And for so long after that it cannot return as it was.
    present_max: int = 20_000  #: Members at the most: whoever would be one more is not believed to exist.
    absent_max: int = 1000  #: Failed and left members kept at the most; likewise tombstones.  The oldest go first.
    unhealthy_half_life: Duration = seconds(600)  #: Suspicion counts are halved so often.  FOREVER: they only grow.

    def __post_init__(self) -> None:
        def need(holds: bool, what: str) -> None:
            if not holds:
                raise ConfigError(f"SWIM needs {what}, got {self}")

        need(0 < self.ack_timeout < self.period < FOREVER, "0 < ack_timeout < period")
        need(0 <= self.helper_count <= 64, "0 <= helper_count <= 64")
        need(0 < self.repeat_mult <= 100, "0 < repeat_mult <= 100")
        need(0 < self.suspicion_mult <= 1000, "0 < suspicion_mult <= 1000")
        need(self.suspicion_timeout >= 0, "0 <= suspicion_timeout")
        need(1 <= self.suspicion_max_mult <= 100, "1 <= suspicion_max_mult <= 100")
        need(0 <= self.confirmation_count <= 64, "0 <= confirmation_count <= 64")
        need(0 <= self.tell_death_count <= 64, "0 <= tell_death_count <= 64")
        need(0 <= self.health_max <= 64, "0 <= health_max <= 64")
        need(0 < self.join_interval <= self.sync_interval, "0 < join_interval <= sync_interval")
        need(min(self.failed_kept, self.left_kept, self.tombstone_kept) > 0, "failed, left, tombstones kept > 0")
        need(self.present_max >= 1, "present_max >= 1")
        need(self.absent_max >= 1, "absent_max >= 1")
        need(self.unhealthy_half_life > 0, "unhealthy_half_life > 0")

    @property
    def lifeguard(self) -> bool:
        return self.health_max > 0

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
        """Sixteen members know of a failure after four seconds; each sends four small datagrams a second."""
        return cls(period=ms(500), ack_timeout=ms(200))

    @classmethod
    def wan(cls, group_size: int) -> "SwimConfig":
        """Round trips of 300 ms and a few percent of loss."""
        return cls(period=seconds(2), ack_timeout=ms(800), suspicion_mult=5.0)

    def plain(self) -> "SwimConfig":
        """The same without Lifeguard and anti-entropy: SWIM as it was published."""
        return replace(
            self,
            suspicion_max_mult=1.0,
            confirmation_count=0,
            health_max=0,
            tell_suspect=False,
            tell_death_count=0,
            sync_interval=FOREVER,
        )

    def worst_detection(self, group_size: int) -> Duration:
        """Until one member knows, in a quiet group: a whole round of probes, and the longest suspicion."""
        return self.period * max(1, group_size - 1) + suspicion_max(self, group_size)


def suspicion_min(config: SwimConfig, group_size: int) -> Duration:
    """[Lifeguard §IV-B] Min = α·log10(N)·period; [SWIM] calls it the suspicion timeout."""
    return config.suspicion_timeout or int(config.suspicion_mult * max(1.0, log10(max(1, group_size))) * config.period)


def suspicion_max(config: SwimConfig, group_size: int) -> Duration:
    """[Lifeguard §IV-B] Max = β·Min."""
    return int(config.suspicion_max_mult * suspicion_min(config, group_size))
