"""Tasks: elections over traces, statistics of traces, theorems."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import asdict

from doyen.election.churn.config import Exclusion, Variant
from doyen.sim.runs import Figure, run_many
from doyen_papers.papers.cells import Outcomes, outcomes
from doyen_papers.papers.ctol.deployed import VARIANTS as VARIANTS
from doyen_papers.papers.ctol.deployed import deployed
from doyen_papers.papers.ctol.points import DROPS, VIEWS_S, Point, code, recorded
from doyen_papers.papers.item import Budget, Task
from doyen_papers.papers.kept import Kept
from doyen_papers.studies.ctolerant import FIGURES, ChurnSetting, simulate
from doyen_papers.studies.memstats import trace_stats
from doyen_papers.studies.memtrace import Stage
from doyen_papers.studies.weakviews import elect

Results = Mapping[Task, Outcomes]
Question = Literal["elect", "trace", "lemma1", "theorem1", "theorem2", "mesh", "beside"]

HASTY: Final[tuple[Variant, ...]] = ("optimistic", "hybrid")  # They name a leader before all answers are in.
PREFERRING: Final[tuple[Variant, ...]] = ("preferred", "hybrid")
SIZE: Final = 49  # Of the figures over loss.
LONGEST_RUNS: Final = 16  # Of five minutes with 256 nodes, which take as long as all others together.


class Asked(Struct, frozen=True, kw_only=True):
    """One question."""

    question: Question
    point: Point = Point()
    variant: Variant = "base"
    c: int = 0
    f: int = 0


# What some points say lies at the edge of a band: so many times the runs, so that all seeds say the same.
AT_THE_EDGE: Final = {
    Asked(question="elect", point=Point()): 24,
    Asked(question="elect", point=Point(drop=0.2)): 15,
    Asked(question="elect", point=Point(size=256)): 3,
    Asked(question="trace", point=Point(size=128, handicap=False, gossip="acks")): 40,
}


class Mode(Struct, frozen=True):
    """A variant, and how it is run."""

    variant: Variant
    exclusion: Exclusion = "union"
    confirmed: bool = True


AS_PRINTED: Final = ", as printed"
TOP: Final = ", top exclusion"
MODES: Final[dict[str, Mode]] = {
    **{variant: Mode(variant) for variant in VARIANTS},
    **{f"{variant}{AS_PRINTED}": Mode(variant, confirmed=False) for variant in HASTY},
    **{f"{variant}{TOP}": Mode(variant, "top") for variant in PREFERRING},
}


def elections(point: Point) -> Task:
    """Return the task of holding elections of all modes at a point; those of one run share places and membership."""
    asked = Asked(question="elect", point=point)
    if asked in AT_THE_EDGE:
        return Task(asked, "machine", runs_times=AT_THE_EDGE[asked])
    if point.size > 64:
        return Task(asked, "machine", 48)
    cheap = point.drop == DROPS[0]  # And where little is lost, variants hardly differ.
    return Task(asked, "machine", runs_times=6 if cheap else 3)


def statistics(point: Point) -> Task:
    """Return the task of recording traces for their own sake: five minutes long for Table I, short for Table II."""
    long = point.seconds > VIEWS_S
    if point.size <= 64:
        most = 16 if long else 100
    elif point.size <= 128:
        most = 4 if long else 40
    else:
        most = LONGEST_RUNS if long else 24
    asked = Asked(question="trace", point=point)
    return Task(asked, "machine", most, AT_THE_EDGE.get(asked, 1))


def run_task(wanted: Task, budget: Budget, progress: Callable[[int], None] | None) -> Outcomes:
    asked: Asked = wanted.setting
    if asked.question in ("mesh", "beside"):
        return deployed(asked.question, asked.point.drop, budget.runs)
    once: Callable[[int], dict[str, float | None]]
    if asked.question == "elect":
        once = partial(elected, asked.point)
    elif asked.question == "trace":
        once = partial(_stated, asked.point)
    else:
        once = partial(_proved, asked)
    if budget.work and asked.question in ("elect", "trace"):
        name = f"{asked.question}-{asked.point.name.replace(', ', '-').replace(' ', '')}"
        once = Kept(Path(budget.work) / "runs", name, f"{asked} {code()}", once)
    return outcomes(run_many(once, budget.runs, budget.seed, jobs=budget.jobs, progress=progress))


def elected(point: Point, seed: int) -> dict[str, float | None]:
    """One election of each mode over the run's trace, from the same instant and by the same initiator."""
    stage = Stage(recorded(point, seed))
    row: dict[str, float | None] = {}
    for label, mode in MODES.items():
        if mode.exclusion == "top" and point.size != SIZE:
            continue
        setting = ChurnSetting(
            variant=mode.variant,
            missing_max=str(point.c),
            exclusion=mode.exclusion,
            confirmed=mode.confirmed,
            evenly=point.evenly,
        )
        run = simulate(setting, seed, stage=stage)
        row |= {f"{label}: {name}": getattr(run, name) for name in FIGURES} | {f"{label}: agreed": float(run.agreed)}
    return row


def _stated(point: Point, seed: int) -> dict[str, float | None]:
    found: dict[str, float | None] = asdict(trace_stats(recorded(point, seed)))
    return found


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
