"""How long a spanning election waits: every wait follows from δ, the longest hop, and a bound on hops.

    answers        2δ                     from an EIM, or a question, to its answer
    co-parents     c·δ                    from the moment all children have reported; never waited for longer
    reports        2δ + R(depth + 1)      from joining, where R(d) = (4 + c)·δ·(D − d + 1) bounds a node's own report
    declaration    R(0) + (D + 2)·δ       from joining: gathering, and the flood

So waits nest: a parent's is longer than its children's, with room for one request at every level.
"""

from typing import Final

from msgspec import Struct

from doyen.core.clock import FOREVER, Duration, ms
from doyen.errors import ConfigError

STRAIN_MAX: Final = 31  # Waits for answers are stretched by 1 + this at most (`patience`).


class SpanningConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The waits of a group; the same on every member."""

    hop_delay: Duration = ms(50)  #: δ.  Short: living neighbours are given up, elections run again.  Long: slow waits.
    diameter_max: int = 16  #: D.  Bounds a branch of the tree.  Small: needless requests.  Large: slow re-initiation.
    co_parent_hops: int = 3  #: c.  Below 3 the printed order of Figure 6.1 changes.  Large: time grows with N.
    link_wait: Duration = 0  #: How long a node that starts without links waits for one before it leads itself.
    pulse_interval: Duration = FOREVER  #: Between comparisons of neighbours, which heal any state; FOREVER: none.

    def __post_init__(self) -> None:
        if not 0 < self.hop_delay < FOREVER:
            raise ConfigError("must be positive and finite", field="hop_delay")
        if not 1 <= self.diameter_max <= 1_000_000:
            raise ConfigError(f"{self.diameter_max} must be from 1 to 1000000", field="diameter_max")
        if not 0 <= self.co_parent_hops <= 1_000_000:
            raise ConfigError(f"{self.co_parent_hops} must be from 0 to 1000000", field="co_parent_hops")
        if not 0 <= self.link_wait < FOREVER:
            raise ConfigError("must be 0 or more, and finite", field="link_wait")
        if not 4 * self.hop_delay <= self.pulse_interval:
            raise ConfigError(
                "must be at least 4·hop_delay, so that what is under way is not taken for a difference",
                field="pulse_interval",
            )

    @classmethod
    def paper(cls) -> "SpanningConfig":
        """Return the configuration as published: no messages between elections."""
        return cls()

    @classmethod
    def lan(cls, size: int) -> "SpanningConfig":
        return cls(hop_delay=ms(50), diameter_max=max(size - 1, 1), link_wait=ms(1000), pulse_interval=ms(1000))

    @classmethod
    def wan(cls, size: int) -> "SpanningConfig":
        return cls(hop_delay=ms(500), diameter_max=max(size - 1, 1), link_wait=ms(5000), pulse_interval=ms(5000))

    @property
    def answer_wait(self) -> Duration:
        return 2 * self.hop_delay

    @property
    def co_parent_wait(self) -> Duration:
        return self.co_parent_hops * self.hop_delay

    def gathering_max(self, depth: int) -> Duration:
        """Return R(d), the longest time from joining to reporting, with one unanswered request per level."""
        return (4 + self.co_parent_hops) * self.hop_delay * max(self.diameter_max - depth + 1, 1)

    def report_wait(self, depth: int) -> Duration:
        """Return how long a node at this depth waits for its children before it asks them."""
        return self.answer_wait + self.gathering_max(depth + 1)

    @property
    def declaration_wait(self) -> Duration:
        return self.gathering_max(0) + (self.diameter_max + 2) * self.hop_delay

    @property
    def reset_wait(self) -> Duration:
        """Return how long a node is deaf when sequences are used up: until all are, and nothing old is under way."""
        return (2 * self.diameter_max + 2) * self.hop_delay

    @property
    def stabilisation_max(self) -> Duration:
        """Return the longest time from any state to one agreed leader per region, once faults have ended.

        It needs a pulse.  A ghost is found when its distance has been counted up to D; sequences that are used up are
        reset; elections that lead nowhere are given up after the wait for a declaration; what then still differs
        between neighbours is seen by the second pulse, and one more election settles it.  Corrupted patience is halved
        by each election, so it can make `STRAIN_MAX.bit_length()` more of them vain (decision 46).
        """
        if self.pulse_interval >= FOREVER:
            return FOREVER
        ghost = (self.diameter_max + 1) * (2 * self.pulse_interval + self.hop_delay)
        reset = self.reset_wait + (2 * self.diameter_max + 2) * self.hop_delay
        round_max = self.declaration_wait + 2 * self.pulse_interval + self.hop_delay
        return self.pulse_interval + ghost + reset + (3 + STRAIN_MAX.bit_length()) * round_max
