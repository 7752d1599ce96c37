"""How a fixed set of voters elects by score, with a quorum; the same on every voter.  [POLE §3]"""

from typing import Final

from msgspec import Struct

from doyen.core.clock import FOREVER, Duration, ms, seconds
from doyen.errors import ConfigError

DRIFT_MAX: Final = 0.1


class PoleConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The waits of an election, the leader's lease, and when a leader resigns."""

    election_timeout: Duration = ms(200)  #: T, above a round trip.  Short: not the best score.  Long: slow takeovers.
    retry_max: Duration = seconds(60)  #: Proposals are repeated after T, 2T, …, at most this.  Long: late after cuts.
    score_timeout: Duration = seconds(5)  #: The longest wait for the first score; then any measured one wins.
    lease: Duration = seconds(2)  #: How long a leader acts after a majority last heard it.  Short: lost on hiccups.
    heartbeat_interval: Duration = ms(400)  #: Between heartbeats.  Above half a lease a single loss costs leadership.
    drift_max: float = 0.001  #: How far clocks' rates may be off; beyond it two leaders could act at once.
    resign_interval: Duration = seconds(5)  #: Between the leader's comparisons of scores; inf: it never resigns.
    resign_margin: float = 0.1  #: Another must be better by this part of the leader's own score.
    resign_rounds: int = 3  #: In how many comparisons in a row.  1: a single outlier deposes.
    cool_down: Duration = seconds(60)  #: The shortest reign before a resignation.

    def __post_init__(self) -> None:
        def need(holds: bool, field: str, wanted: str) -> None:
            if not holds:
                raise ConfigError(wanted, field=field)

        for name in ("election_timeout", "retry_max", "lease", "heartbeat_interval"):
            need(0 < getattr(self, name) < FOREVER, name, "must be positive and finite")
        need(0 <= self.score_timeout < FOREVER, "score_timeout", "must be 0 or more, and finite")
        need(0 <= self.drift_max <= DRIFT_MAX, "drift_max", f"must be 0 to {DRIFT_MAX}, not {self.drift_max}")
        need(self.retry_max >= self.election_timeout, "retry_max", "must not be less than election_timeout")
        need(
            2 * self.heartbeat_interval <= self.lease,
            "heartbeat_interval",
            "must be at most half of lease, or one lost heartbeat costs leadership",
        )
        need(0 < self.resign_interval, "resign_interval", "must be positive (inf: never)")
        need(0 <= self.resign_margin < float("inf"), "resign_margin", "must be 0 or more, and finite")
        need(1 <= self.resign_rounds <= 1000, "resign_rounds", "must be 1 to 1000")
        need(0 <= self.cool_down, "cool_down", "must be 0 or more")

    @property
    def guard(self) -> Duration:
        """Return how long a voter is bound to a leader: the lease, by the slowest against the fastest clock.

        A leader's lease lasts at most lease/(1−ρ) of true time, a voter's wait at least guard/(1+ρ).
        """
        return int(self.lease * (1.0 + self.drift_max) / (1.0 - self.drift_max)) + 1

    @property
    def claim_timeout(self) -> Duration:
        """Return the longest wait for a majority of grants: voters may still be bound to another for a whole guard."""
        return self.guard + self.election_timeout

    @property
    def settle_max(self) -> Duration:
        """Return the longest time from the end of all faults until all know one leader, with a majority of voters up.

        A voter gives up a dead leader (guard), a claimant gives up in vain (claim), proposals are repeated (retry), an
        election is held (2T), voters are free (guard) and the claim is made; twice, for the first may meet what is left
        of the faults.
        """
        once = 2 * self.guard + self.claim_timeout + self.retry_max + 3 * self.election_timeout
        return 2 * once + self.score_timeout

    @classmethod
    def paper(cls) -> "PoleConfig":
        """Return the setting of [POLE §3]: no resignation.  The paper gives no T; it detects failures by ZooKeeper."""
        return cls(resign_interval=FOREVER)

    @classmethod
    def lan(cls, group_size: int) -> "PoleConfig":
        return cls(election_timeout=ms(100), lease=ms(500), heartbeat_interval=ms(100), retry_max=seconds(10))

    @classmethod
    def wan(cls, group_size: int) -> "PoleConfig":
        """Return the preset for round trips of 300 ms and a few percent of loss."""
        return cls(election_timeout=ms(800), lease=seconds(4), heartbeat_interval=ms(800))
