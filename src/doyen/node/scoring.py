"""Scores say how good a leader this process would be: a number, a function, or several in order of priority."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from math import floor
from typing import Final, TypeAlias

from doyen.core.clock import Duration, to_seconds
from doyen.core.rank import STANDING_MAX
from doyen.errors import ConfigError

log = logging.getLogger("doyen")

Plain: TypeAlias = Callable[[], float | Awaitable[float]]
Score: TypeAlias = float | Plain | Sequence[tuple[Plain, float]]

PARTS_MAX = 4
PART_STEPS = 4096  # Classes of one part; four of them are exact in a float.

SCORE_STEP: Final = 0.01  # A score is sent again when it has changed by this share, so that jitter makes no traffic.
FIRST_PATIENCE_S: Final = 1.0  # How long a node that joins waits for its first score.
EVERY_MIN: Final[Duration] = 1_000_000


def composite(*parts: tuple[Plain, float]) -> Callable[[], Awaitable[float]]:
    """Combine scores: the first decides, in classes of its width; the next among equals, and so on.

    `composite((free_memory_gb, 4), (free_cores, 1))`: most memory, by steps of 4 GB, then most cores.
    A part is counted from 0 up to 4095 classes; what is below is 0, what is above the last.
    """
    if not 1 <= len(parts) <= PARTS_MAX:
        raise ConfigError(f"a composite score has 1 to {PARTS_MAX} parts, not {len(parts)}")
    for part in parts:
        if not (isinstance(part, tuple) and len(part) == 2 and callable(part[0])):
            raise ConfigError(f"{part!r} is no part of a score: give (function, width)")
        if not (isinstance(part[1], int | float) and 0 < part[1] < float("inf")):
            raise ConfigError(f"a part's width must be positive, not {part[1]!r}: scores within one width are alike")

    async def score() -> float:
        total = 0
        for function, width in parts:
            value = await measured(function)
            total = total * PART_STEPS + floor(min(max(value / width, 0), PART_STEPS - 1))
        return float(total)

    return score


async def measured(score: float | Plain) -> float:
    value = score() if callable(score) else score
    return float(await value) if inspect.isawaitable(value) else float(value)


def as_function(score: Score | None) -> Plain | None:
    """Return the score that was given as a function."""
    if score is None or callable(score):
        return score
    if isinstance(score, int | float):
        if not -STANDING_MAX <= score <= STANDING_MAX:  # Also false for nan.
            raise ConfigError(f"{score!r} is not a score: give a finite number", field="score")
        fixed = float(score)
        return lambda: fixed
    parts: object = score
    if not isinstance(parts, list | tuple):
        raise ConfigError(f"{score!r} is not a score: give a number, a function, or doyen.composite(…)", field="score")
    return composite(*parts)


class Scorekeeper:
    """Asks the application's function, never twice at once, and passes on what it said.

    `tell(value)` is for all elections, `answer(channel, number, value)` for one that asked.
    """

    def __init__(
        self,
        score: Plain,
        every: Duration,
        group: str,
        *,
        tell: Callable[[float], None],
        answer: Callable[[str, int, float], None],
    ) -> None:
        self._score, self._every_s, self._group = score, to_seconds(every), group
        self._tell, self._answer = tell, answer
        self.told: float | None = None
        self._asked: dict[str, int] = {}  # By channel, the latest question.
        self._sound = True
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return with the first score, or without it after `FIRST_PATIENCE_S`."""
        first = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(first))
        try:
            async with asyncio.timeout(FIRST_PATIENCE_S):
                await first.wait()
        except TimeoutError:
            log.warning("%s: no score within %g s: joined without one", self._group, FIRST_PATIENCE_S)

    def ask(self, channel: str, number: int) -> None:
        self._asked[channel] = number
        self._wake.set()

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self, first: asyncio.Event) -> None:
        while True:
            self._wake.clear()
            value = await self._measure()
            if value is None:
                value = self.told
            elif self.told is None or abs(value - self.told) > SCORE_STEP * abs(self.told):
                self.told = value
                self._tell(value)
            asked, self._asked = self._asked, {}
            if value is not None:
                for channel, number in asked.items():
                    self._answer(channel, number, value)
            first.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._every_s):
                    await self._wake.wait()

    async def _measure(self) -> float | None:
        """Return the score, or None where the application's function fails: an election must not stop for it."""
        try:
            value = await measured(self._score)
            if not -STANDING_MAX <= value <= STANDING_MAX:
                raise ValueError(f"a score is a finite number, not {value}")
        except Exception:
            if self._sound:
                log.exception("%s: the score function failed; the last score stands", self._group)
            self._sound = False
            return None
        self._sound = True
        return value
