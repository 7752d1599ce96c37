"""Draws when a process wakes to claim leadership, so that most of a group stays silent.  [LE §5.1.2, §5.4.3]

A wake-up is a fraction of the suppression interval.  Two distributions: uniform, and the truncated exponential
with *increasing* density (most draw late, so the few early ones silence the many).  Three ways a process's
place in the ranking may bend it: not at all; `likely` (the better, the stochastically earlier); `perfect` (the
best takes the least of N common draws, the next the second least, …), with which LE-S behaves as LE-M.
"""

from math import e, expm1, log, log1p
from random import Random
from typing import Literal

from msgspec import Struct

from doyen.errors import ConfigError

TimerShape = Literal["uniform", "exponential"]
RankMap = Literal["none", "likely", "perfect"]

LIKELY_STRENGTH = 2.0  # Ours: the best draws the square of what the middle draws, the worst its root, and so on.


class RankedPlace(Struct, frozen=True):
    """The rank of a process among N: 0 is the best."""

    position: int = 0
    of: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.position < self.of:
            raise ConfigError(f"place {self.position} of {self.of} does not exist: positions are 0 to of-1")


def fraction(shape: TimerShape, group_size: int, u: float) -> float:
    """The wake-up's inverse distribution: u in [0,1) to a fraction of the interval in [0,1)."""
    if shape == "uniform":
        return u
    # [LE §5.4.3] density λe^{λx}/(e^λ−1).  Ours: λ = ln N + 1, so that e^λ = eN.
    return log1p(u * (e * group_size - 1.0)) / (log(group_size) + 1.0)


def draw(
    shape: TimerShape, group_size: int, rank_map: RankMap, place: RankedPlace | None, rng: Random, seed: int
) -> float:
    """One wake-up, as a fraction of the suppression interval.

    `seed` is the same on every member of the group for one election: the perfect map needs no message, only a
    group that agrees on the ranking.
    """
    if rank_map == "none" or place is None:
        return fraction(shape, group_size, rng.random())
    if rank_map == "likely":
        middle = 0.5 if place.of == 1 else place.position / (place.of - 1)
        return fraction(shape, group_size, rng.random() ** (LIKELY_STRENGTH ** (1.0 - 2.0 * middle)))
    return fraction(shape, group_size, order_statistic(place, Random(seed)))


def order_statistic(place: RankedPlace, rng: Random) -> float:
    """The (position+1)-th least of N uniform draws, from draws common to the group and without listing N."""
    log_rest = 0.0  # log of the share of [0,1) above the statistics so far.
    for taken in range(place.position + 1):
        log_rest += log(1.0 - rng.random()) / (place.of - taken)
    return min(-expm1(log_rest), 1.0 - 2**-53)
