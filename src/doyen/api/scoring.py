"""How good a leader this process would be: a number, a function of nothing, or several in order of priority."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from doyen.errors import ConfigError

Plain: TypeAlias = Callable[[], float | Awaitable[float]]
Score: TypeAlias = float | Plain | Sequence[tuple[Plain, float]]

PARTS_MAX = 4
PART_STEPS = 4096  # Classes of one part; four of them are exact in a float.


def composite(*parts: tuple[Plain, float]) -> Callable[[], Awaitable[float]]:
    """Several scores as one: the first decides, in classes of its width; the next among equals, and so on.

    `composite((free_memory_gb, 4), (free_cores, 1))`: most memory, by steps of 4 GB, then most cores.
    A part is counted from 0 up to 4095 classes; what is below is 0, what is above the last.
    """
    if not 1 <= len(parts) <= PARTS_MAX:
        raise ConfigError(f"a composite score has 1 to {PARTS_MAX} parts, not {len(parts)}")
    if any(width <= 0 for _, width in parts):
        raise ConfigError("a part's width must be positive: scores within one width are alike")

    async def score() -> float:
        total = 0
        for function, width in parts:
            value = await measured(function)
            total = total * PART_STEPS + int(min(max(value // width, 0), PART_STEPS - 1))
        return float(total)

    return score


async def measured(score: float | Plain) -> float:
    value = score() if callable(score) else score
    return float(await value) if inspect.isawaitable(value) else float(value)


def as_function(score: Score | None) -> Plain | None:
    """Whatever was given, as a function to ask now and then."""
    if score is None or callable(score):
        return score
    if isinstance(score, int | float):
        fixed = float(score)
        return lambda: fixed
    return composite(*score)
