"""Many runs of one experiment: over all cores, with results that do not depend on how they were shared out."""

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from hashlib import blake2b
from math import sqrt
from multiprocessing import parent_process
from multiprocessing.connection import wait
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct

from doyen.errors import ConfigError

R = TypeVar("R")

CHUNK_MAX = 50
RUNS_MAX = 1_000_000  # All results are kept until the last run has ended.


class Figure(Struct, frozen=True):
    """A mean over runs, and its standard error (None for a single run)."""

    mean: float
    stderr: float | None


def figure(values: Iterable[float | None]) -> Figure | None:
    """Return the mean of the values that are known; None if there are none."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    mean = sum(known) / len(known)
    if len(known) == 1:
        return Figure(mean, None)
    variance = sum((value - mean) ** 2 for value in known) / (len(known) - 1)
    return Figure(mean, sqrt(variance / len(known)))


def run_seed(seed: int, run: int) -> int:
    """Return the seed of one run of many: unrelated for neighbouring runs and seeds."""
    return int.from_bytes(blake2b(f"{seed}/{run}".encode(), digest_size=8).digest(), "little")


@contextmanager
def undisturbed() -> Iterator[None]:
    """Collect no garbage while a run lasts: hardly any of its objects dies by itself before the end, and all do then.

    What is left of the run is young, so that collecting it looks at nothing else.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.collect(0)
            gc.enable()


def refuse_counts(runs: int, jobs: int) -> None:
    if runs < 1:
        raise ConfigError(f"{runs} is too few: give at least 1", field="runs")
    if runs > RUNS_MAX:
        raise ConfigError(f"{runs} is too many: at most {RUNS_MAX:,}; give another seed for more", field="runs")
    if jobs < 0:
        raise ConfigError(f"{jobs} is not a number of processes: give 0 (one per core) or more", field="jobs")


class Spread(NamedTuple):
    """Workers elsewhere: how many there are, and what yields the results of each chunk of seeds, in order."""

    workers: int
    parts: Callable[[Callable[[int], Any], Sequence[list[int]]], Iterator[list[Any]]]


def run_many(
    once: Callable[[int], R],
    runs: int,
    seed: int,
    *,
    jobs: int = 0,
    spread: Spread | None = None,
    progress: Callable[[int], None] | None = None,
    see: Callable[[list[R]], None] | None = None,
) -> list[R]:
    """Return `once(run_seed)` for every run, in run order.  jobs 0: one process per core; 1: in this one.

    `spread` runs them elsewhere; `see` gets results as soon as they are known.
    """
    refuse_counts(runs, jobs)
    jobs = min(jobs or os.cpu_count() or 1, runs) if spread is None else max(spread.workers, 1)
    seeds = [run_seed(seed, run) for run in range(runs)]
    size = max(1, min(CHUNK_MAX, runs // (4 * jobs) or 1))
    chunks = [seeds[i : i + size] for i in range(0, runs, size)]
    results: list[R] = []
    for part in _parts(once, chunks, jobs) if spread is None else spread.parts(once, chunks):
        results += part
        if see is not None:
            see(part)
        if progress is not None:
            progress(len(part))
    return results


def _parts(once: Callable[[int], R], chunks: Sequence[list[int]], jobs: int) -> Iterator[list[R]]:
    if jobs == 1:
        yield from (chunk(once, seeds) for seeds in chunks)
    else:
        with ProcessPoolExecutor(jobs, initializer=_end_with_parent) as pool:
            yield from pool.map(chunk, [once] * len(chunks), chunks)


def _end_with_parent() -> None:
    """Let this worker end when its parent does: one that is killed cannot tell its workers to end."""
    parent = parent_process()
    assert parent is not None, "a worker has a parent"

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def chunk(once: Callable[[int], R], seeds: list[int]) -> list[R]:
    """Return the results of several runs: what one worker gets at a time."""
    return [once(seed) for seed in seeds]
