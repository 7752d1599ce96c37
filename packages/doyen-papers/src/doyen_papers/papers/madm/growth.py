"""Messages and time by topology and on random graphs, lemmas, stabilisation: simulated.  [MADM §6.2.3, §6.2.4, §6.3]"""

from typing import Final, get_args

from doyen_papers.papers.item import Curve, Item, Measured, Outcome, Panel, Plot, Task
from doyen_papers.papers.madm.cells import SIZES, Results, cell, exponent, task
from doyen_papers.studies.spanning_compared import Algorithm

SHAPES: Final = ("ring", "bus", "complete", "torus", "star", "tree")
SMALL, LARGE = 16, 64
WORST: Final = (8, 16)
FLAT: Final = (4, 8, 16, 32, 64)
NAMES: Final[dict[str, str]] = {"spanning": "ours", "flooding": "flooding", "vkt": "VKT"}


def _regular(shape: str, size: int, *, worst: bool = False) -> Task:
    return task("regular-worst" if worst else "regular", size, shape=shape, runs_max=3)


def _table_6_1(results: Results) -> Outcome:
    cells = []
    for shape in SHAPES:
        for worst, (small, large) in ((False, (SMALL, LARGE)), (True, WORST)):
            few, many = (results[_regular(shape, size, worst=worst)].of for size in (small, large))
            for name, what in (("messages", "messages"), ("declared_at", "time")):
                found = exponent((small, few[name]), (large, many[name]))
                case = "worst case" if worst else "best case"
                cells.append(Measured(where=f"{shape}, {case}, {what}", mean=found, note=f"N={small} to {large}"))
    return Outcome(cells=cells)


def _best(algorithm: Algorithm, size: int) -> Task:
    return task("best", size, algorithm=algorithm)


def _worst(algorithm: Algorithm, size: int) -> Task:
    return task("worst", size, algorithm=algorithm, runs_max=20)


def _figure_6_4(results: Results) -> Outcome:
    cells, panels = [], []
    for name, what in (("messages", "messages"), ("told_at", "time")):
        curves = []
        for colour, algorithm in enumerate(get_args(Algorithm)):
            label = f"{NAMES[algorithm]}, {what}"
            found = [results[_best(algorithm, size)] for size in SIZES]
            unit = "messages" if name == "messages" else "hops"
            cells += [
                cell(f"{label}, N={size}", one, name, unit=unit, curve=label, x=float(size))
                for size, one in zip(SIZES, found, strict=True)
            ]
            figures = [one.of[name] for one in found]
            curves.append(
                Curve(
                    label=label,
                    legend=NAMES[algorithm],
                    colour=colour,
                    xs=[float(size) for size in SIZES],
                    ys=[one.mean if one else None for one in figures],
                    errors=[one.stderr if one else None for one in figures],
                )
            )
        panels.append(Panel(curves=curves, title=what))
    for algorithm in get_args(Algorithm):
        for size in SIZES:
            worst, label = results[_worst(algorithm, size)], f"{NAMES[algorithm]}, worst case"
            cells.append(cell(f"{label}, messages, N={size}", worst, "messages", unit="messages"))
            cells.append(cell(f"{label}, time, N={size}", worst, "told_at", unit="hops"))
    return Outcome(cells=cells, plot=Plot(panels=panels, x_label="nodes N", y_label="messages; hops"))


_LEMMAS: Final = {
    "6.1": "nodes that took no part",
    "6.2": "further conductors",
    "6.3": "regions without exactly one leader",
    "6.4": "nodes that name another",
    "6.5": "runs that did not end",
}


def _lemmas(results: Results) -> Outcome:
    quiet, failing = results[task("lemmas")], results[task("failing")]
    return Outcome(
        cells=[
            *(
                cell(f"Lemma {lemma}, {what}", quiet if lemma in ("6.1", "6.2") else failing, lemma)
                for lemma, what in _LEMMAS.items()
            ),
            cell("violations, nothing fails", results[task("lemmas")], "violations"),
            cell("violations, links and nodes fail and return", results[task("failing")], "violations"),
        ]
    )


def _stable(results: Results) -> Outcome:
    found = results[task("stable")]
    return Outcome(cells=[cell("runs beyond the bound", found, "late"), cell("share of the bound", found, "share")])


def _flat(results: Results) -> Outcome:
    times = {k: results[task("flat", k, runs_max=3)] for k in FLAT}
    first, last = (times[k].of["declared_at"] for k in (FLAT[0], FLAT[-1]))
    longer = last.mean - first.mean if first and last else None
    cells = [cell(f"k={k}, N={2 * k + 1}", found, "declared_at", unit="hops") for k, found in times.items()]
    return Outcome(cells=[*cells, Measured(where=f"k={FLAT[-1]} - k={FLAT[0]}", mean=longer, unit="hops")])


ITEMS: Final = (
    Item(
        id="madm/table6.1",
        title="growth of messages and time by topology, as an exponent of N",
        caption="Table 6.1's orders as exponents; a logarithm is about .3 over these sizes. In the worst case every "
        "conductor fails for good, so regions fall apart, and the chapter's own orders contradict its section 6.2.4.",
        tasks=tuple(
            _regular(shape, size, worst=worst)
            for shape in SHAPES
            for worst, sizes in ((False, (SMALL, LARGE)), (True, WORST))
            for size in sizes
        ),
        outcome=_table_6_1,
    ),
    Item(
        id="madm/fig6.4",
        title="messages and time on random graphs, beside flooding and VKT",
        caption="Two links per node, one initiator, unit delays; time until the last node is told. The chapter's "
        "comparator, PALE, is not specified in it, and the figure is lost: flooding the maximum (never sure when done) "
        "and the election of Vasudevan, Kurose and Towsley stand in. Worst case: every conductor fails one hop after "
        "it began, but the highest; the stand-ins are told of that at once, ours waits: compare messages.",
        tasks=(
            *(_best(algorithm, size) for algorithm in get_args(Algorithm) for size in SIZES),
            *(_worst(algorithm, size) for algorithm in get_args(Algorithm) for size in SIZES),
        ),
        outcome=_figure_6_4,
    ),
    Item(
        id="madm/lemmas",
        title="Lemmas 6.1 to 6.5 as checkers, on random graphs",
        caption="2 to 60 nodes, 1 to 4 initiators, random delays, ties: termination, one agreed leader per region, the "
        "best of those that took part.",
        tasks=(task("lemmas"), task("failing")),
        outcome=_lemmas,
    ),
    Item(
        id="madm/theorem6.6",
        title="self-stabilisation from corrupted state",
        caption="The theorem shows uniqueness, agreement and termination, not convergence: we add that. The mean share "
        "of its stated bound that a run needs, and how many runs needed more.",
        tasks=(task("stable"),),
        outcome=_stable,
    ),
    Item(
        id="madm/time",
        title="time grows with the diameter and not with N",
        caption="0-a, a-(k+a), (k+a)-(a+1): diameter 4 at any N, where co-parents that wait for each other without "
        "bound would take time in proportion to N.",
        tasks=tuple(task("flat", k, runs_max=3) for k in FLAT),
        outcome=_flat,
    ),
)
