"""Tables I and II, Lemma 1, Figures 1 and 2, Theorems 1 to 4.  [CTOL §III–V]"""

from math import floor, log
from typing import Final

from doyen.sim.runs import Figure
from doyen_papers.papers.ctol.cells import VARIANTS, Asked, Results, cell, difference, elections, statistics
from doyen_papers.papers.ctol.points import POINTS, Point
from doyen_papers.papers.item import Item, Measured, Outcome, Task
from doyen_papers.studies.walkthrough import walk
from doyen_papers.studies.weakviews import elect

BOUNDS: Final = ((0, 0), (4, 0), (4, 2), (13, 1))
SIZES_II: Final = (32, 49, 64, 128, 256)
P: Final = {32: 0.34, 49: 0.43, 64: 0.48, 128: 0.5, 256: 0.5}  # [CTOL Table II]
PREFERRING: Final = ("preferred", "hybrid")
SIZES_4: Final = (32, 49, 64, 128)


def _lemma(c: int, f: int) -> Task:
    return Task(Asked(question="lemma1", c=c, f=f), "machine", 10)


def _lemma_1(results: Results) -> Outcome:
    cells = []
    for c, f in BOUNDS:
        for name in ("unicasts", "multicasts"):
            cells.append(cell(f"c={c}, f={f}: {name}", results[_lemma(c, f)], name, unit="messages"))
    return Outcome(cells=cells)


def _figure_1(results: Results) -> Outcome:
    found = walk("ctol/figure1")
    return Outcome(
        cells=[
            Measured(where="unicasts", mean=found.unicasts),
            Measured(where="multicasts", mean=found.multicasts),
            Measured(where="leader", mean=found.leader),
        ]
    )


def _figure_2(results: Results) -> Outcome:
    found = walk("ctol/figure2")
    cells = []
    for step in found.steps:
        name = f"response from {step.sender}"
        cells += [Measured(where=f"{name}: count of {who}", mean=count) for who, count in step.excluded.items()]
        cells.append(Measured(where=f"{name}: leaders", mean=len(step.leaders)))
        cells.append(Measured(where=f"{name}: lowest leader", mean=step.leaders[0]))
    cells.append(Measured(where="notified, first", mean=found.notified[0]))
    cells.append(Measured(where="notified, last", mean=found.notified[-1]))
    return Outcome(cells=cells)


def _theorem(number: int, variant: str) -> Task:
    return Task(Asked(question=f"theorem{number}", variant=variant), "machine", runs_times=5)  # type: ignore[arg-type]


def _theorem_1(results: Results) -> Outcome:
    found = {v: results[_theorem(1, v)] for v in ("base", "optimistic")}
    return Outcome(cells=[cell(f"{v}: runs with a wrong leader", one, "wrong") for v, one in found.items()])


def _theorem_2(results: Results) -> Outcome:
    found = {v: results[_theorem(2, v)] for v in VARIANTS}
    return Outcome(cells=[cell(f"{v}: runs that do not agree", one, "failed") for v, one in found.items()])


def _theorem_3(results: Results) -> Outcome:
    """c = 2, f = 1: 4 and 5 lack the lowest, 6 is dead."""
    lacking: dict[int, tuple[int, ...]] = {4: (0,), 5: (0,)}
    few = elect(lacking, size=8, c=1, f=1, dead=(6,), asked=(4, 5, 6))  # As if c+f queries sufficed.
    enough = elect(lacking, size=8, c=2, f=1, dead=(6,), asked=(4, 5, 6, 3))
    beyond = elect({3: (0,), **lacking}, size=8, c=2, asked=(3, 4, 5))
    return Outcome(
        cells=[
            Measured(where="c+f asked, f die: hash rank", mean=few[-1]),
            Measured(where="c exceeded by one: hash rank", mean=beyond[-1]),
            Measured(where="c+f+1 asked, f die: hash rank", mean=enough[-1]),
        ]
    )


def _theorem_4(results: Results) -> Outcome:
    cells = []
    for variant in PREFERRING:
        for size in SIZES_4:
            found = results[elections(Point(size=size), variant)]
            cells.append(cell(f"{variant}, N={size}: Preference", found, "preference"))
    return Outcome(cells=cells)


def _table_1(results: Results) -> Outcome:
    cells = []
    found = {point: results[statistics(point)].of for point in POINTS}
    for point, of in found.items():
        published = Figure(point.c, None)
        cells.append(difference(f"{point.name}: Table I - p99", published, of["missing_p99"]))
        cells.append(difference(f"{point.name}: max - Table I", of["missing_max"], published))
        for name in ("missing_mean", "missing_p99", "missing_max"):
            cells.append(cell(f"{point.name}: {name.removeprefix('missing_')}", results[statistics(point)], name))
    low = [(of["missing_p99"], point.size) for point, of in found.items() if point.drop == 0.05]
    shares = [one.mean / size for one, size in low if one is not None]
    cells.append(Measured(where="p99 of N at drop .05, largest share", mean=max(shares)))
    least, most = (found[Point(drop=drop)]["missing_mean"] for drop in (0.05, 0.2))
    cells.append(difference("random, N=49: mean at drop .2 - at .05", most, least))
    small, large = (found[Point(size=size)]["missing_mean"] for size in (32, 256))
    cells.append(difference("random, drop .05: mean at N=256 - at N=32", large, small))
    return Outcome(cells=cells)


def needed(p: float, size: int) -> int:
    """[CTOL Thm 4] The least r with r > log_{1/p} N."""
    return floor(log(size) / log(1 / p)) + 1


def _table_2(results: Results) -> Outcome:
    cells = []
    for size in SIZES_II:
        free, handicapped = (Point(size=size, handicap=handicap) for handicap in (False, True))
        cells.append(cell(f"N={size}: p", results[statistics(free)], "p"))
        cells.append(cell(f"N={size}: p, handicap", results[statistics(handicapped)], "p"))
        cells.append(Measured(where=f"N={size}: r by the printed p", mean=needed(P[size], size)))
        spare = free.c + 1 - needed(P[size], size)
        cells.append(Measured(where=f"N={size}: c+1 - r by the printed p", mean=spare))
        found = results[statistics(free)].of["p"]
        if found is not None and 0 < found.mean < 1:
            cells.append(Measured(where=f"N={size}: r by our p", mean=needed(found.mean, size)))
    return Outcome(cells=cells)


ITEMS: Final = (
    Item(
        id="ctol/lemma1",
        title="Lemma 1: 2(c+f+1)+1 unicasts and one multicast",
        caption="Base on 49 nodes, complete views, no loss; messages to oneself count.",
        tasks=tuple(_lemma(c, f) for c, f in BOUNDS),
        outcome=_lemma_1,
    ),
    Item(
        id="ctol/fig1",
        title="Figure 1: Base on four nodes",
        caption="c = 2, f = 0, node 3 begins. doyen sim walkthrough ctol/figure1",
        tasks=(),
        outcome=_figure_1,
    ),
    Item(
        id="ctol/fig2",
        title="Figure 2: Hybrid on five nodes, step by step",
        caption="x = y = c = 2, node 4 begins, answers come from 4, 0, 1. doyen sim walkthrough ctol/figure2",
        tasks=(),
        outcome=_figure_2,
    ),
    Item(
        id="ctol/theorem1",
        title="Theorem 1: safety",
        caption="Random groups of 3 to 12; exactly c views lack the lowest hash, whoever is asked.",
        tasks=tuple(_theorem(1, v) for v in ("base", "optimistic")),
        outcome=_theorem_1,
    ),
    Item(
        id="ctol/theorem2",
        title="Theorem 2: liveness",
        caption="Random groups of 4 to 12; f of them are dead and listed still.",
        tasks=tuple(_theorem(2, v) for v in VARIANTS),
        outcome=_theorem_2,
    ),
    Item(
        id="ctol/theorem3",
        title="Theorem 3: why c+f+1, by its counterexample",
        caption="The hash rank of who is elected: 1 is a wrong leader.",
        tasks=(),
        outcome=_theorem_3,
    ),
    Item(
        id="ctol/theorem4",
        title="Theorem 4: the leader is outside the system's top y, with high probability",
        caption="Share of elections over Medley's views, drop .05, c from Table I. Should be 1 - 1/N.",
        tasks=tuple(elections(Point(size=size), v) for v in PREFERRING for size in SIZES_4),
        outcome=_theorem_4,
    ),
    Item(
        id="ctol/table1",
        title="Table I: in how many views a member is missing",
        caption="Medley after its warm-up, the five lowest hashes handicapped; over members and instants 200 ms apart. "
        "The table's c lies between the 99th percentile and the worst.",
        tasks=tuple(statistics(point) for point in POINTS),
        outcome=_table_1,
    ),
    Item(
        id="ctol/table2",
        title="Table II: p, and how many answers make Preference likely",
        caption="p: the share of the system's five most unhealthy that a RESPONSE does not list; of Medley alone, and "
        "with the five lowest hashes handicapped as in the figures.",
        tasks=tuple(statistics(Point(size=size, handicap=h)) for size in SIZES_II for h in (False, True)),
        outcome=_table_2,
    ),
)
