"""Every kernel needs these: the setting in integers, a random stream per run, and a line to report on.

numba caches compiled code per file and looks at no other: after a change here, remove the `__pycache__` beside it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Stream = npt.NDArray[np.uint64]  # One word: the state of a splitmix64 generator.
F = TypeVar("F", bound=Callable[..., Any])

HORIZON_ROUNDS = 10_000  #: A run is given up this many T_A after its start or event.
NEVER = 1 << 62
CORRELATED, UNCORRELATED, LOAD = 0, 1, 2
START, DEPARTS, FALSE, BETTER, WORSE = 0, 1, 2, 3, 4
# The columns of a result, in the order of KernelResult.
TMAX, MESSAGES, ROUNDS, AVERAGE, FIRST_TMAX, FIRST_MESSAGES = 0, 1, 2, 3, 4, 5
DELAY, INCONSISTENT, LEADERS, CONVERGED, COLUMNS = 6, 7, 8, 9, 10


class Cell(NamedTuple):
    """A `Setting` as the compiled code reads it."""

    nodes: int
    earliest: bool  # LE-M: the earliest wake-up is best; else the greatest id.
    announce: int
    suppress: int
    listen: int
    delay: int
    event: int
    loss: float
    model: int
    rate: float  # λ of the exponential wake-up; 0 for the uniform one.
    window: int
    capacity: float


def compiled(function: F) -> F:
    """The one place where numba, which has no types, touches code that has."""
    return cast(F, njit(cache=True, nogil=True, error_model="numpy")(function))


# Chance.  splitmix64 (Steele, Lea, Flood 2014), started at a hash of (seed, run).


@compiled
def _mixed(word: np.uint64) -> np.uint64:
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@compiled
def begin(stream: Stream, seed: np.uint64, run_no: int) -> None:
    golden = np.uint64(0x9E3779B97F4A7C15)
    stream[0] = _mixed(_mixed(seed + golden) + np.uint64(run_no) * np.uint64(0xD1342543DE82EF95) + golden)


@compiled
def uniform(stream: Stream) -> float:
    """A number in [0, 1)."""
    stream[0] += np.uint64(0x9E3779B97F4A7C15)
    return float(np.float64(_mixed(stream[0]) >> np.uint64(11)) * (1.0 / 9007199254740992.0))


@compiled
def wake_up(part: float, cell: Cell) -> int:
    """The wake-up before which a `part` of all wake-ups lies."""
    if cell.rate > 0.0:
        part = np.log1p(part * np.expm1(cell.rate)) / cell.rate
    return int(part * cell.suppress)


@compiled
def wake_ups_in_order(stream: Stream, wake: Ints, cell: Cell) -> None:
    """N sorted wake-ups: sums of exponential gaps, over one gap more, are sorted uniform draws."""
    total = 0.0
    gaps = np.empty(wake.size)
    for i in range(wake.size):
        total -= np.log(1.0 - uniform(stream))
        gaps[i] = total
    total -= np.log(1.0 - uniform(stream))
    for i in range(wake.size):
        wake[i] = wake_up(gaps[i] / total, cell)


@compiled
def tries_until_heard(stream: Stream, loss: float) -> int:
    """Announcements until one gets through, this one included; past the horizon all are alike."""
    limit = 2 * HORIZON_ROUNDS
    if loss >= 1.0:
        return limit
    if loss < 0.75:  # The loop is faster than a logarithm.
        tries = 1
        while uniform(stream) < loss:
            tries += 1
        return min(tries, limit)
    return int(min(1.0 + np.floor(np.log(1.0 - uniform(stream)) / np.log(loss)), float(limit)))


@compiled
def load_loss(loss: float, together: int, capacity: float) -> float:
    return float(1.0 - (1.0 - loss) ** (1.0 + (together - 1) / capacity))


@compiled
def sends_before(wake: int, until: int, cell: Cell) -> int:
    """Announcements from `wake` on that precede an arrival at `until`."""
    if cell.delay == 0:  # Ties are then between timers of one instant, and the worse process has the lesser id.
        return (until - wake) // cell.announce + 1 if until >= wake else 0
    return (until - wake + cell.announce - 1) // cell.announce if until > wake else 0


@compiled
def report(line: Floats, cell: Cell, tmax: int, messages: int, rounds: int, average: float) -> None:
    line[TMAX] = tmax * 1e-9
    line[MESSAGES] = messages
    line[ROUNDS] = rounds
    line[AVERAGE] = average
    arrival = tmax + cell.delay
    if cell.event == START or arrival > 0:
        line[LEADERS] = messages / max(1, -(-arrival // cell.announce))
    line[CONVERGED] = 1.0
