"""The waits of a spanning election: each follows from δ, the longest hop, and a bound on hops.

    answers        2δ                     from an EIM, or a question, to its answer
    co-parents     c·δ                    from the moment all children have reported; never waited for longer
    reports        2δ + R(depth + 1)      from joining, where R(d) = (4 + c)·δ·(D − d + 1) bounds a node's own report
    declaration    R(0) + (D + 2)·δ       from joining: gathering, and the flood

So waits nest: a parent's is longer than its children's, with room for one request at every level.
"""

from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from doyen.core.clock import FOREVER, Duration, ms
from doyen.core.config import Config, Doc, Pause, Period, need

HOPS_MAX: Final = 1_000_000
Hops: TypeAlias = Annotated[int, Meta(ge=0, le=HOPS_MAX)]
STRAIN_MAX: Final = 31  # Waits for answers are stretched by 1 + this at most (`patience`).


class SpanningConfig(Config, frozen=True, kw_only=True):
    """The waits of a group; the same on every member."""

    hop_delay: Annotated[
        Period, Doc("The longest delay between neighbours (δ). Too short: living ones are given up.")
    ] = ms(50)
    diameter_max: Annotated[
        int,
        Meta(ge=1, le=HOPS_MAX),
        Doc("The longest branch of the tree, in hops (D). Too small: needless requests."),
    ] = 16
    co_parent_hops: Annotated[
        Hops, Doc("For how many hop delays co-parents are waited for (c). Below 3 Figure 6.1's order changes.")
    ] = 3
    link_wait: Annotated[Pause, Doc("How long a node that starts without links waits before it leads itself.")] = 0
    pulse_interval: Annotated[
        Duration, Doc("The time between two comparisons of neighbours, which heal differences; inf: none.")
    ] = FOREVER

    def check(self) -> None:
        need(
            4 * self.hop_delay <= self.pulse_interval,
            "pulse_interval",
            "must be at least 4·hop_delay, so that what is under way is not taken for a difference",
        )

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
