"""Tables I and II, Lemma 1, Figures 1 and 2, Theorems 1 to 4.  [CTOL §III–V]"""

from math import floor, log
from typing import Final

from msgspec.structs import replace

from doyen_papers.papers.cells import cell, difference, numbers
from doyen_papers.papers.ctol.cells import AS_PRINTED, PREFERRING, VARIANTS, Asked, Results, elections, statistics
from doyen_papers.papers.ctol.points import LONG_S, POINTS, Point
from doyen_papers.papers.item import Made, Measured, Outcome, Task
from doyen_papers.studies.underlay import Gossip
from doyen_papers.studies.walkthrough import walk
from doyen_papers.studies.weakviews import elect

BOUNDS: Final = ((0, 0), (4, 0), (4, 2), (13, 1))
SIZES_II: Final = (32, 49, 64, 128, 256)
P: Final = {32: 0.34, 49: 0.43, 64: 0.48, 128: 0.5, 256: 0.5}  # [CTOL Table II]
LARGE: Final = SIZES_II[-2:]
LONGER_S: Final = 60.0  # A warm-up in which news crosses a large group, also on acks alone.
SIZES_4: Final = (32, 49, 64, 128)
SETTLED: Final = tuple(Point(size=size, warmup=LONGER_S) for size in (32, 49, 64))  # Their y most unhealthy stay.


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
    return Outcome(cells=numbers({"unicasts": found.unicasts, "multicasts": found.multicasts, "leader": found.leader}))


def _figure_2(results: Results) -> Outcome:
    found = walk("ctol/figure2")
    values: dict[str, float | None] = {}
    for step in found.steps:
        name = f"response from {step.sender}"
        values |= {f"{name}: count of {who}": count for who, count in step.excluded.items()}
        values |= {f"{name}: leaders": len(step.leaders), f"{name}: lowest leader": step.leaders[0]}
    return Outcome(cells=numbers(values | {"notified, first": found.notified[0], "notified, last": found.notified[-1]}))


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
    found = {"c+f asked, f die": few, "c exceeded by one": beyond, "c+f+1 asked, f die": enough}
    return Outcome(cells=numbers({f"{where}: hash rank": leaders[-1] for where, leaders in found.items()}))


def _theorem_4(results: Results) -> Outcome:
    cells = []
    for variant in (*PREFERRING, f"hybrid{AS_PRINTED}"):
        for size in SIZES_4:
            found = results[elections(Point(size=size))]
            cells.append(cell(f"{variant}, N={size}: Preference", found, f"{variant}: preference"))
        for point in SETTLED:
            where = f"{variant}, N={point.size}: Preference, after {LONGER_S:g} s of warm-up"
            cells.append(cell(where, results[elections(point)], f"{variant}: preference"))
    return Outcome(cells=cells)


def _long(point: Point, gossip: Gossip) -> Task:
    """Return the task of five minutes; more of them where c is small, most where its growth with N is to be shown."""
    made = statistics(replace(point, seconds=LONG_S, gossip=gossip))
    if gossip != "private" or point.size > 64:
        return made
    return replace(made, runs_max=16 if point.size == 49 else 24)


GOSSIPS: Final[dict[Gossip, str]] = {
    "all": "",
    "acks": ", gossip on acks alone",
    "private": ", removals not gossiped",  # Nobody hears from others who is suspected or has failed.
}


def _table_1(results: Results) -> Outcome:
    """[CTOL §III-A] c: the greatest number of views that lack one member, at any instant of five minutes."""
    cells = []
    for gossip, how in GOSSIPS.items():
        found = {point: results[_long(point, gossip)].of for point in POINTS}
        for point in POINTS:
            for name, word in (("missing_max", "c"), ("missing_p99", "p99"), ("missing_mean", "mean")):
                cells.append(cell(f"{point.name}: {word}{how}", results[_long(point, gossip)], name))
        low = [(of["missing_max"], point.size) for point, of in found.items() if point.drop == 0.05]
        shares = [one.mean / size for one, size in low if one is not None]
        cells.append(Measured(where=f"c of N at drop .05, largest share{how}", mean=max(shares)))
        for word, of_last, of_first in (
            ("random, N=49: c at drop .2 - at .05", Point(drop=0.2), Point()),
            ("random, drop .05: c at N=64 - at N=32", Point(size=64), Point(size=32)),
        ):
            last, first = (found[point]["missing_max"] for point in (of_last, of_first))
            cells.append(difference(f"{word}{how}", last, first))
    return Outcome(cells=cells)


def needed(p: float, size: int) -> int:
    """[CTOL Thm 4] The least r with r > log_{1/p} N."""
    return floor(log(size) / log(1 / p)) + 1


def _points_ii(size: int) -> tuple[Point, Point, Point]:
    free = Point(size=size, handicap=False)
    return free, Point(size=size), replace(free, gossip="acks")


def _longer(size: int) -> Task:
    return statistics(Point(size=size, handicap=False, gossip="acks", warmup=LONGER_S))


def _table_2(results: Results) -> Outcome:
    cells = []
    for size in SIZES_II:
        free, handicapped, by_acks = _points_ii(size)
        cells.append(cell(f"N={size}: p", results[statistics(free)], "p"))
        cells.append(cell(f"N={size}: p, handicap", results[statistics(handicapped)], "p"))
        cells.append(cell(f"N={size}: p{GOSSIPS['acks']}", results[statistics(by_acks)], "p"))
        cells.append(Measured(where=f"N={size}: r by the printed p", mean=needed(P[size], size)))
        rounded = round(log(size) / log(1 / P[size]))
        cells += numbers({f"N={size}: log of N by the printed p, rounded": rounded})
        spare = free.c + 1 - needed(P[size], size)
        cells.append(Measured(where=f"N={size}: c+1 - r by the printed p", mean=spare, stderr=0.0))
        cells += numbers({f"N={size}: c+1 - rounded": free.c + 1 - rounded})
        found = results[statistics(free)].of["p"]
        if found is not None and 0 < found.mean < 1:
            cells.append(Measured(where=f"N={size}: r by our p", mean=needed(found.mean, size)))
    how = f"{GOSSIPS['acks']}, after {LONGER_S:g} s of warm-up"
    cells += [cell(f"N={size}: p{how}", results[_longer(size)], "p") for size in LARGE]
    return Outcome(cells=cells)


MADE: Final[dict[str, Made]] = {
    "lemma1": (tuple(_lemma(c, f) for c, f in BOUNDS), _lemma_1),
    "fig1": ((), _figure_1),
    "fig2": ((), _figure_2),
    "theorem1": (tuple(_theorem(1, v) for v in ("base", "optimistic")), _theorem_1),
    "theorem2": (tuple(_theorem(2, v) for v in VARIANTS), _theorem_2),
    "theorem3": ((), _theorem_3),
    "theorem4": ((*(elections(Point(size=size)) for size in SIZES_4), *map(elections, SETTLED)), _theorem_4),
    "table1": (tuple(_long(point, gossip) for gossip in GOSSIPS for point in POINTS), _table_1),
    "table2": (
        (*(statistics(point) for size in SIZES_II for point in _points_ii(size)), *map(_longer, LARGE)),
        _table_2,
    ),
}
