"""The tasks of [MADM]: many runs of one question each, every run on a graph of its own."""

from collections.abc import Callable, Mapping
from functools import partial
from math import isqrt, log
from random import Random
from typing import Any, Final, Literal

from msgspec import Struct

from doyen.core.ids import NodeId
from doyen.sim.runs import Figure, run_many
from doyen_papers.papers.cells import Outcomes, outcomes
from doyen_papers.papers.item import Budget, Task
from doyen_papers.studies.corruption import bound_of, corrupt
from doyen_papers.studies.graphs import chained, random_edges, random_quality, random_setting, regular
from doyen_papers.studies.spanning import Experiment, Graph, SpanningSetting, faults_of, graph, lemmas, simulate
from doyen_papers.studies.spanning_compared import Algorithm, compare

Results = Mapping[Task, Outcomes]
Question = Literal["best", "worst", "lemmas", "failing", "stable", "regular", "regular-worst", "regular-some", "flat"]

SIZES: Final = (10, 15, 20, 25, 30)  # [MADM §6.3]
LINKS_EACH: Final = 2  # Links per node of a random network; the chapter gives none.


class Asked(Struct, frozen=True, kw_only=True):
    """One question."""

    question: Question
    size: int = 0
    algorithm: Algorithm = "spanning"
    shape: str = ""


def task(question: Question, size: int = 0, *, runs_max: int = 0, **more: Any) -> Task:
    return Task(Asked(question=question, size=size, **more), "machine", runs_max)


def run_task(wanted: Task, budget: Budget, progress: Callable[[int], None] | None) -> Outcomes:
    rows = run_many(partial(once, wanted.setting), budget.runs, budget.seed, jobs=budget.jobs, progress=progress)
    return outcomes(rows)


def once(asked: Asked, seed: int) -> dict[str, float | None]:
    """One run; the same seed gives every algorithm the same graph."""
    rng = Random(seed)
    match asked.question:
        case "best":
            found = _random_network(rng, asked.size)
            cost = compare(asked.algorithm, found, rng.choice(found.nodes), seed)
            return {"messages": cost.messages, "told_at": cost.told_at}
        case "worst":
            return _worst(_random_network(rng, asked.size), seed, asked.algorithm)
        case "regular" | "regular-worst" | "regular-some":
            size = asked.size
            found = graph(regular(asked.shape, size), {str(i): rng.random() for i in range(size)})
            if asked.question == "regular-worst":
                return _worst(found, seed, asked.algorithm)
            some = isqrt(size) if asked.question == "regular-some" else 0
            first = (found.nodes[0],)
            run = simulate(SpanningSetting(graph=found, initiators=first, unstable=some > 0, unstable_max=some), seed)
            return {"messages": run.messages["total"], "declared_at": run.declared_at}
        case "lemmas" | "failing":
            setting = random_setting(rng, failing=asked.question == "failing")
            run = simulate(setting, seed)
            return {"violations": len(faults_of(run, setting.graph.quality)), **lemmas(run)}
        case "stable":
            share = _stabilised(rng, seed)
            return {"share": share, "late": float(share is None or share > 1)}
        case "flat":
            size = 2 * asked.size + 1
            found = graph(chained(asked.size), {str(i): rng.random() for i in range(size)})
            run = simulate(SpanningSetting(graph=found, initiators=(NodeId("0"),), diameter_max=4), seed)
            return {"declared_at": run.declared_at}


def _random_network(rng: Random, size: int) -> Graph:
    return graph(random_edges(rng, size, LINKS_EACH * size), random_quality(rng, size))


def _worst(found: Graph, seed: int, algorithm: Algorithm) -> dict[str, float | None]:
    """Every conductor fails before its declaration, but the highest; survivors elect in whatever regions are left."""
    cost = compare(algorithm, found, found.nodes[0], seed, unstable=True)
    return {"messages": cost.messages, "declared_at": cost.declared_at, "told_at": cost.told_at}


def _stabilised(rng: Random, seed: int) -> float | None:
    """Return the share of its bound that a run from corrupted state needed; None if it never agreed."""
    size = rng.randint(2, 12)
    found = graph(random_edges(rng, size), random_quality(rng, size))
    setting = SpanningSetting(graph=found, initiators=(found.nodes[0],), delay="random", pulse_units=6.0, unaided=True)
    experiment = Experiment(setting, seed)
    corrupt(experiment, rng)
    run = experiment.run()
    return run.settled_at / bound_of(experiment) if run.terminated and run.settled_at is not None else None


def exponent(small: tuple[int, Figure | None], large: tuple[int, Figure | None]) -> float | None:
    """e of cost ~ N^e between two sizes."""
    (n, a), (m, b) = small, large
    return None if a is None or b is None or a.mean <= 0 or b.mean <= 0 else log(b.mean / a.mean) / log(m / n)
