"""Messages and time by topology and on random graphs, lemmas, stabilisation: simulated.  [MADM §6.2.3, §6.2.4, §6.3]"""

from typing import Final, get_args

from doyen.sim.runs import figure
from doyen_papers.papers.cells import cell, curve, measured
from doyen_papers.papers.item import Made, Measured, Outcome, Panel, Plot, Task
from doyen_papers.papers.madm.cells import SIZES, Results, exponent, task
from doyen_papers.studies.spanning_compared import Algorithm

SHAPES: Final = ("ring", "bus", "complete", "torus", "star", "tree")
SMALL, LARGE = 16, 64
WORST: Final = (8, 16)
FLAT: Final = (4, 8, 16, 32, 64)
ALGORITHMS: Final[tuple[Algorithm, ...]] = get_args(Algorithm)
NAMES: Final[dict[str, str]] = {"spanning": "ours", "flooding": "flooding", "vkt": "VKT"}


def _regular(shape: str, size: int, *, worst: bool = False) -> Task:
    return task("regular-worst" if worst else "regular", size, shape=shape, runs_max=3)


def _some(size: int) -> Task:
    """Return the task of √N conductors that fail on a torus, one after the other."""
    return task("regular-some", size, shape="torus", runs_max=3)


def _table_6_1(results: Results) -> Outcome:
    cells = []
    for shape in SHAPES:
        for worst, (small, large) in ((False, (SMALL, LARGE)), (True, WORST)):
            few, many = (results[_regular(shape, size, worst=worst)].of for size in (small, large))
            for name, what in (("messages", "messages"), ("declared_at", "time")):
                found = exponent((small, few[name]), (large, many[name]))
                case = "worst case" if worst else "best case"
                cells.append(Measured(where=f"{shape}, {case}, {what}", mean=found, note=f"N={small} to {large}"))
    some = [(size, results[_some(size)].of["messages"]) for size in (SMALL, LARGE)]
    cells.append(Measured(where="torus, √N conductors fail, messages", mean=exponent(*some)))
    return Outcome(cells=cells)


def _best(algorithm: Algorithm, size: int) -> Task:
    return task("best", size, algorithm=algorithm)


def _worst(algorithm: Algorithm, size: int) -> Task:
    return task("worst", size, algorithm=algorithm, runs_max=20)


def _figure_6_4(results: Results) -> Outcome:
    cells, panels = [], []
    for name, what in (("messages", "messages"), ("told_at", "time")):
        curves = []
        for colour, algorithm in enumerate(ALGORITHMS):
            label = f"{NAMES[algorithm]}, {what}"
            found = [results[_best(algorithm, size)] for size in SIZES]
            unit = "messages" if name == "messages" else "hops"
            cells += [
                cell(f"{label}, N={size}", one, name, unit=unit, curve=label, x=float(size))
                for size, one in zip(SIZES, found, strict=True)
            ]
            curves.append(curve(label, colour, SIZES, [one.of[name] for one in found], legend=NAMES[algorithm]))
        panels.append(Panel(curves=curves, title=what))
    for algorithm in ALGORITHMS:
        for size in SIZES:
            worst, label = results[_worst(algorithm, size)], f"{NAMES[algorithm]}, worst case"
            cells.append(cell(f"{label}, messages, N={size}", worst, "messages", unit="messages"))
            cells.append(cell(f"{label}, time, N={size}", worst, "told_at", unit="hops"))
    cells += _compared(results)
    return Outcome(cells=cells, plot=Plot(panels=panels, x_label="nodes N", y_label="messages; hops"))


def _compared(results: Results) -> list[Measured]:
    """Return what the stand-ins cost more than ours; negative: less.  PALE is not among them, so nothing is judged."""
    cells = []
    for algorithm in (one for one in ALGORITHMS if one != "spanning"):
        for size in (SIZES[0], SIZES[-1]):
            for case, task_of, names in (
                ("nothing fails", _best, ("messages", "told_at")),
                ("worst case", _worst, ("messages",)),  # The stand-ins are told of failures, so times are not alike.
            ):
                theirs, ours = (results[task_of(one, size)].columns for one in (algorithm, "spanning"))
                for name in names:
                    pairs = zip(theirs[name], ours[name], strict=True)  # The same graphs, run by run.
                    more = figure(a - b for a, b in pairs if a is not None and b is not None)
                    what, unit = ("messages", "messages") if name == "messages" else ("time", "hops")
                    where = f"not PALE: {NAMES[algorithm]} - ours, {case}, {what}, N={size}"
                    cells.append(measured(where, more, unit=unit))
    return cells


_LEMMAS: Final = {
    "6.1": "nodes that took no part",
    "6.2": "further conductors",
    "6.3": "regions without exactly one leader",
    "6.4": "nodes that name another",
    "6.5": "runs that did not end",
}


def _lemmas(results: Results) -> Outcome:
    quiet, failing = results[task("lemmas")], results[task("failing")]
    cells = [
        cell(f"Lemma {lemma}, {what}", quiet if lemma in ("6.1", "6.2") else failing, lemma)
        for lemma, what in _LEMMAS.items()
    ]
    cells.append(cell("violations, nothing fails", quiet, "violations"))
    cells.append(cell("violations, links and nodes fail and return", failing, "violations"))
    return Outcome(cells=cells)


def _stable(results: Results) -> Outcome:
    found = results[task("stable")]
    return Outcome(cells=[cell("runs beyond the bound", found, "late"), cell("share of the bound", found, "share")])


def _flat(results: Results) -> Outcome:
    times = {k: results[task("flat", k, runs_max=3)] for k in FLAT}
    first, last = (times[k].of["declared_at"] for k in (FLAT[0], FLAT[-1]))
    longer = last.mean - first.mean if first and last else None
    cells = [cell(f"k={k}, N={2 * k + 1}", found, "declared_at", unit="hops") for k, found in times.items()]
    return Outcome(cells=[*cells, Measured(where=f"k={FLAT[-1]} - k={FLAT[0]}", mean=longer, unit="hops")])


MADE: Final[dict[str, Made]] = {
    "table6.1": (
        tuple(
            _regular(shape, size, worst=worst)
            for shape in SHAPES
            for worst, sizes in ((False, (SMALL, LARGE)), (True, WORST))
            for size in sizes
        )
        + tuple(_some(size) for size in (SMALL, LARGE)),
        _table_6_1,
    ),
    "fig6.4": (tuple(of(a, size) for of in (_best, _worst) for a in ALGORITHMS for size in SIZES), _figure_6_4),
    "lemmas": ((task("lemmas"), task("failing")), _lemmas),
    "theorem6.6": ((task("stable"),), _stable),
    "time": (tuple(task("flat", k, runs_max=3) for k in FLAT), _flat),
}
