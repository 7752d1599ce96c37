"""Tasks: elections over traces, statistics of traces, theorems."""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import asdict

from doyen.election.churn.config import Exclusion, Variant
from doyen.sim.runs import Figure, run_many
from doyen_papers.papers.cells import Outcomes, outcomes
from doyen_papers.papers.ctol.points import Point, traces
from doyen_papers.papers.item import Budget, Task
from doyen_papers.studies.ctolerant import FIGURES, ChurnSetting, simulate
from doyen_papers.studies.memstats import trace_stats
from doyen_papers.studies.memtrace import read
from doyen_papers.studies.weakviews import elect

Results = Mapping[Task, Outcomes]
Question = Literal["elect", "trace", "lemma1", "theorem1", "theorem2"]

VARIANTS: Final[tuple[Variant, ...]] = ("base", "optimistic", "preferred", "hybrid")


class Asked(Struct, frozen=True, kw_only=True):
    """One question."""

    question: Question
    point: Point = Point()
    variant: Variant = "base"
    exclusion: Exclusion = "union"
    c: int = 0
    f: int = 0


def elections(point: Point, variant: Variant, exclusion: Exclusion = "union") -> Task:
    most = 0 if point.size <= 64 else 24 if point.size <= 128 else 12
    if exclusion == "top":
        most = 20
    return Task(Asked(question="elect", point=point, variant=variant, exclusion=exclusion), "machine", most)


def statistics(point: Point) -> Task:
    return Task(Asked(question="trace", point=point), "machine", point.trace_count)


def run_task(wanted: Task, budget: Budget, progress: Callable[[int], None] | None) -> Outcomes:
    asked: Asked = wanted.setting
    if asked.question in ("elect", "trace"):
        paths = traces(asked.point, budget.work, seed=budget.seed, jobs=budget.jobs)
        if asked.question == "trace":
            found = [trace_stats(read(path)) for path in paths]
            if progress is not None:
                progress(budget.runs)
            return outcomes([asdict(one) for one in found])
        once: Callable[[int], dict[str, float | None]] = partial(_elected, asked, paths)
    else:
        once = partial(_proved, asked)
    rows = run_many(once, budget.runs, budget.seed, jobs=budget.jobs, progress=progress)
    return outcomes(rows)


def _elected(asked: Asked, paths: tuple[str, ...], seed: int) -> dict[str, float | None]:
    """One election over one of the point's traces, from a random instant of it on."""
    setting = ChurnSetting(
        variant=asked.variant,
        trace=paths[seed % len(paths)],
        missing_max=str(asked.point.c),
        exclusion=asked.exclusion,
    )
    run = simulate(setting, seed)
    return {name: getattr(run, name) for name in FIGURES} | {"agreed": float(run.agreed)}


def _proved(asked: Asked, seed: int) -> dict[str, float | None]:
    match asked.question:
        case "lemma1":
            setting = ChurnSetting(drop=0.0, missing_max=str(asked.c), failure_max=asked.f, variant="base")
            run = simulate(setting, seed)
            return {"unicasts": run.unicasts, "multicasts": run.multicasts}
        case "theorem1":
            # Exactly c views lack the lowest, whichever they are.
            rng = Random(seed)
            size = rng.randint(3, 12)
            c = rng.randint(0, size - 2)
            lacking = dict.fromkeys(rng.sample(range(1, size), c), (0,))
            leaders = elect(lacking, size=size, c=c, variant=asked.variant, seed=seed)
            return {"wrong": float(leaders != [0] * size)}
        case _:
            # Up to f members are dead and listed still; neither the initiator nor the lowest.
            rng = Random(seed)
            size = rng.randint(4, 12)
            f = rng.randint(0, (size - 2) // 2)
            c = rng.randint(0, size - 2 - f)
            dead = tuple(rng.sample(range(1, size - 1), f))
            leaders = elect({}, size=size, c=c, f=f, dead=dead, variant=asked.variant, seed=seed)
            live = {leader for i, leader in enumerate(leaders) if i not in dead}
            return {"failed": float(live != {0})}


def straightness(xs: tuple[float, ...], figures: list[Figure | None]) -> float | None:
    """R² of a straight line through the points."""
    ys = [found.mean for found in figures if found is not None]
    if len(ys) != len(xs):
        return None
    n, mx, my = len(xs), sum(xs) / len(xs), sum(ys) / len(ys)
    sxy = sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True))
    sxx, syy = sum((x - mx) ** 2 for x in xs), sum((y - my) ** 2 for y in ys)
    return sxy**2 / (sxx * syy) if n > 1 and syy else None
