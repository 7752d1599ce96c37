"""Announce-listen elections by simulation: figures over many runs, by the machines or by the kernels.  [LE §5.4]

What each figure means is said in `announce_run`, which makes one run.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Literal

from msgspec import Struct

from doyen.errors import ConfigError
from doyen.sim.runs import Figure, figure, refuse_counts, run_many
from doyen.sim.trace import combined_hash
from doyen_papers.analysis.setting import Setting
from doyen_papers.studies.announce_run import Extensions, refuse, simulate

__all__ = ["Engine", "Extensions", "FirstRound", "Summary", "refuse", "simulate", "study"]

Engine = Literal["machine", "kernel"]

_FIGURES: Final = (
    "tmax",
    "messages",
    "rounds",
    "avg_rounds",
    "first_tmax",
    "first_messages",
    "reestablishment",
    "notice",
    "inconsistent",
    "leaders",
)
KERNEL_SLICE: Final = 10_000


class FirstRound(Struct, frozen=True):
    tmax: Figure | None
    messages: Figure | None


class Summary(Struct, frozen=True, kw_only=True):
    """Figures over many runs; what never happened is None."""

    setting: Setting
    runs: int
    seed: int
    engine: Engine
    converged: int
    tmax: Figure | None
    messages: Figure | None
    rounds: Figure | None
    avg_rounds: Figure | None
    first_round: FirstRound
    reestablishment: Figure | None
    notice: Figure | None
    inconsistent: Figure | None
    leaders: Figure | None
    trace_hash: str | None  # Of the runs' hashes in run order; the kernels make no trace.


def study(
    setting: Setting,
    *,
    runs: int,
    seed: int,
    jobs: int = 0,
    engine: Engine = "machine",
    extensions: Extensions = Extensions(),  # noqa: B008  (frozen)
    progress: Callable[[int], None] | None = None,
) -> Summary:
    """One cell: many runs of one setting, by the machines or by the kernels."""
    refuse(setting, extensions)
    refuse_counts(runs, jobs)
    if engine == "kernel":
        return _by_kernel(setting, runs, seed, extensions, progress)
    results = run_many(partial(simulate, setting, extensions=extensions), runs, seed, jobs=jobs, progress=progress)
    columns = {name: [getattr(result, name) for result in results] for name in _FIGURES}
    hashes = combined_hash([result.trace_hash for result in results])
    return _summary(setting, runs, seed, engine, sum(result.converged for result in results), columns, hashes)


def _by_kernel(
    setting: Setting, runs: int, seed: int, extensions: Extensions, progress: Callable[[int], None] | None
) -> Summary:
    if extensions != Extensions():
        raise ConfigError("kernel knows none of the extensions: give --engine machine", field="engine")
    try:
        from doyen_papers import kernels
    except ImportError as error:
        raise ConfigError(
            f"kernel needs numpy and numba ({error}): pip install 'doyen[sim]' (in a checkout: '.[sim]')",
            field="engine",
        ) from None
    parts = []
    for first in range(0, runs, KERNEL_SLICE):
        parts.append(kernels.run(setting, min(KERNEL_SLICE, runs - first), seed, first_run=first))
        if progress is not None:
            progress(min(KERNEL_SLICE, runs - first))
    result = kernels.join(parts)
    columns = {
        name: [None if x != x else x for x in getattr(result, name).tolist()] if hasattr(result, name) else []
        for name in _FIGURES
    }
    return _summary(setting, runs, seed, "kernel", int(result.converged.sum()), columns, None)


def _summary(
    setting: Setting,
    runs: int,
    seed: int,
    engine: Engine,
    converged: int,
    columns: dict[str, list[float | None]],
    trace_hash: str | None,
) -> Summary:
    figures = {name: figure(values) for name, values in columns.items()}
    first = FirstRound(figures.pop("first_tmax"), figures.pop("first_messages"))
    return Summary(
        setting=setting,
        runs=runs,
        seed=seed,
        engine=engine,
        converged=converged,
        first_round=first,
        trace_hash=trace_hash,
        **figures,
    )
