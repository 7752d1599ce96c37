"""Announce-listen elections by simulation: figures over many runs, by the machines or by the kernels.  [LE §5.4]

What each figure means is said in `announce_run`, which makes one run.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Literal

from msgspec import Struct

from doyen.core.config import need
from doyen.sim.runs import Figure, figure, refuse_counts, run_many
from doyen.sim.trace import combined_hash
from doyen_papers.analysis.setting import Setting
from doyen_papers.studies.announce_run import Extensions, Run, refuse, simulate

__all__ = ["Engine", "Extensions", "FirstRound", "Summary", "refuse", "simulate", "study"]

Engine = Literal["machine", "kernel"]

#: What a run measures.
_FIGURES: Final = tuple(name for name in Run.__struct_fields__ if name not in ("converged", "trace_hash"))
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
    """Make many runs of one setting, by the machines or by the kernels."""
    refuse(setting, extensions)
    refuse_counts(runs, jobs)
    hashes = None
    if engine == "kernel":
        need(extensions == Extensions(), "engine", "kernel knows none of the extensions: give --engine machine")
        converged, columns = _by_kernel(setting, runs, seed, progress)
    else:
        results = run_many(partial(simulate, setting, extensions=extensions), runs, seed, jobs=jobs, progress=progress)
        converged = sum(result.converged for result in results)
        columns = {name: [getattr(result, name) for result in results] for name in _FIGURES}
        hashes = combined_hash([result.trace_hash for result in results])
    figures = {name: figure(values) for name, values in columns.items()}
    first = FirstRound(figures.pop("first_tmax"), figures.pop("first_messages"))
    return Summary(
        setting=setting,
        runs=runs,
        seed=seed,
        engine=engine,
        converged=converged,
        first_round=first,
        trace_hash=hashes,
        **figures,
    )


def _by_kernel(
    setting: Setting, runs: int, seed: int, progress: Callable[[int], None] | None
) -> tuple[int, dict[str, list[float | None]]]:
    """Return how many runs converged, and each figure's value by run."""
    from doyen_papers import kernels  # Compiled, so it takes its time.

    parts = []
    for first in range(0, runs, KERNEL_SLICE):
        parts.append(kernels.run(setting, min(KERNEL_SLICE, runs - first), seed, first_run=first))
        if progress is not None:
            progress(min(KERNEL_SLICE, runs - first))
    result = kernels.join(parts)
    known = [name for name in _FIGURES if name in result.__struct_fields__]
    found = {name: [None if x != x else x for x in getattr(result, name).tolist()] for name in known}
    return int(result.converged.sum()), {name: found.get(name, []) for name in _FIGURES}
