"""Figures 5.6 to 5.13.  [LE §5.4]  Simulated points over the closed form, where there is one."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from doyen.sim.runs import Figure
from doyen_papers.analysis.setting import LossModel
from doyen_papers.papers.cells import curve
from doyen_papers.papers.item import Curve, Made, Mark, Measured, Outcome, Panel, Plot, Task
from doyen_papers.papers.le.cells import (
    Gap,
    Quantity,
    Results,
    farthest,
    figure_of,
    formula,
    gap,
    gap_cell,
    measured,
    task,
)

SIZES: Final = (2, 5, 10, 20, 30, 40, 50, 70, 100, 150, 200, 250, 300, 400, 500)
LINE_SIZES: Final = (2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40, 50, 70, 100, 150, 200, 250, 300, 400, 500)
COLOURS: Final = {"LE-S": 0, "SUP": 1, "LE-M": 2, "AL": 3}
TIME: Final = "time until convergence, without Δ (s)"
COUNT: Final = "messages until convergence"
BOTH: Final[tuple[LossModel, ...]] = ("correlated", "uncorrelated")


class Wanted(Struct, frozen=True, kw_only=True):
    """One curve over N."""

    label: str
    legend: str
    name: str
    model: LossModel
    colour: int
    hollow: bool = False
    ring: bool = False
    more: tuple[tuple[str, Any], ...] = ()

    def task(self, nodes: int) -> Task:
        return task(self.name, nodes, self.model, **dict(self.more))


def lossless(name: str) -> Wanted:
    return Wanted(label=name, legend=name, name=name, model="none", colour=COLOURS[name])


def lossy(name: str, model: LossModel, *, legend: str = "", ring: bool = False) -> Wanted:
    label = f"{name}, {model}"
    return Wanted(
        label=label,
        legend=legend or label,
        name=name,
        model=model,
        colour=COLOURS[name],
        hollow=not legend and model == "uncorrelated",
        ring=ring,
    )


def drawn(wanted: Wanted, quantity: Quantity, results: Results) -> Curve:
    """Return simulated points, and the closed form as a line where it is known at every size."""
    exact = [formula(wanted.task(nodes).setting, quantity) for nodes in LINE_SIZES]
    line = [y for y in exact if y is not None]
    known = len(line) == len(LINE_SIZES)
    return curve(
        wanted.label,
        wanted.colour,
        SIZES,
        [figure_of(results[wanted.task(nodes)], quantity) for nodes in SIZES],
        legend=wanted.legend,
        hollow=wanted.hollow,
        ring=wanted.ring,
        line_xs=[float(nodes) for nodes in LINE_SIZES] if known else [],
        line_ys=line if known else [],
    )


def cells(wanted: Wanted, quantity: Quantity, results: Results) -> list[Measured]:
    return [
        measured(
            f"{wanted.label}, N={nodes}", results[wanted.task(nodes)], quantity, curve=wanted.label, x=float(nodes)
        )
        for nodes in SIZES
    ]


def figure(
    quantity: Quantity,
    panels: Sequence[tuple[str, Sequence[Wanted]]],
    *,
    further: Sequence[Task] = (),
    further_cells: Callable[[Results], list[Measured]] = lambda results: [],
    y_label: str = "",
    **look: Any,
) -> Made:
    """Return a figure of one quantity over N; `look` is how its panels look."""
    every = [wanted for _, wanteds in panels for wanted in wanteds]

    def outcome(results: Results) -> Outcome:
        shown = [
            Panel(title=name, curves=[drawn(wanted, quantity, results) for wanted in wanteds], **look)
            for name, wanteds in panels
        ]
        found = [cell for wanted in every for cell in cells(wanted, quantity, results)]
        label = y_label or (COUNT if quantity == "messages" else TIME)
        return Outcome(
            cells=found + further_cells(results), plot=Plot(panels=shown, x_label="group size N", y_label=label)
        )

    return tuple(wanted.task(nodes) for wanted in every for nodes in SIZES) + tuple(further), outcome


# Figure 5.11: with plain loss nothing can cross; with loss that grows with the load it can.

DEGRADED_S: Final = 0.1  # So far above the plain-loss curve, AL has degraded (see expected.toml).


def against(name: str, load: bool) -> Wanted:
    return Wanted(
        label=f"{name}, load" if load else f"{name}, plain loss",
        legend=name,
        name=name,
        model="load" if load else "uncorrelated",
        colour=COLOURS[name],
    )


def from_which(xs: Sequence[float], ys: Sequence[float], level: float) -> float | None:
    """The x from which on y stays above a level, between points by a straight line; None: it never does."""
    last = max((i for i, y in enumerate(ys) if y <= level), default=-1)
    if last == len(ys) - 1:
        return None
    if last < 0:
        return xs[0]
    return xs[last] + (xs[last + 1] - xs[last]) * (level - ys[last]) / (ys[last + 1] - ys[last])


def crossings(results: Results) -> list[Measured]:
    xs, found = [float(nodes) for nodes in SIZES], []
    for load in (False, True):
        al = [_tmax(results, "AL", nodes, load).mean for nodes in SIZES]
        les = [_tmax(results, "LE-S", nodes, load).mean for nodes in SIZES]
        plain = [formula(against("AL", False).task(nodes).setting, "tmax") or 0.0 for nodes in SIZES]
        how = "load" if load else "plain loss"
        above = [a - b for a, b in zip(al, plain, strict=True)]
        ahead = [a - b for a, b in zip(al, les, strict=True)]
        for what, values, level in (("AL degrades", above, DEGRADED_S), ("LE-S beats AL", ahead, 0.0)):
            at = from_which(xs, values, level)
            note = "between simulated points by a straight line" if at else "it never does, up to N=500"
            found.append(Measured(where=f"{what} from N, {how}", mean=at, unit="processes", note=note))
    first = gap(10, _tmax(results, "LE-S", 10, True), _tmax(results, "AL", 10, True))
    return [*found, gap_cell("LE-S - AL at N=10, load", (0, *first[1:]), unit="s")]


def _tmax(results: Results, name: str, nodes: int, load: bool) -> Figure:
    found = results[against(name, load).task(nodes)].tmax
    assert found is not None
    return found


# Figure 5.12: the first round alone.

NO_LOSS_FIRST = task("LE-S", 100, "none")


def first_rounds(results: Results) -> list[Measured]:
    found = [measured("LE-S, none, N=100", results[NO_LOSS_FIRST], "first_tmax")]
    for model in BOTH:
        gaps: list[Gap] = [
            gap(
                nodes,
                figure_of(results[task("LE-M", nodes, model)], "first_tmax"),
                figure_of(results[task("SUP", nodes, model)], "first_tmax"),
            )
            for nodes in SIZES
        ]
        found.append(gap_cell(f"LE-M - SUP, {model}", farthest(gaps, 0.0), unit="s"))
    return found


def three(model: LossModel, *, overlapping: bool = False) -> tuple[str, list[Wanted]]:
    names = ("LE-S", "SUP", "LE-M")
    return f"{model} loss .4", [lossy(name, model, legend=name, ring=overlapping and name == "LE-M") for name in names]


def at_loss(tenths: int) -> Wanted:
    loss = tenths / 10
    model: LossModel = "correlated" if tenths else "none"
    more = (("loss", loss),) if tenths else ()
    return Wanted(
        label=f"l = {loss:g}", legend=f"loss {loss:g}", name="LE-S", model=model, colour=tenths % 6, more=more
    )


FOUR: Final = [lossy(name, model) for name in ("LE-S", "SUP") for model in BOTH]
MARKS: Final = [Mark(70.0, "published: AL\ndegrades from 70"), Mark(200.0, "published: LE-S\nahead from 200")]

MADE: Final[dict[str, Made]] = {
    "fig5.6": figure("tmax", [("", [lossless("LE-S"), lossless("SUP")])]),
    "fig5.7": figure("messages", [("", [lossless("LE-S"), lossless("SUP")])]),
    "fig5.8": figure("tmax", [("", FOUR)]),
    "fig5.9": figure("messages", [("", FOUR)]),
    "fig5.10": figure("tmax", [("", [at_loss(tenths) for tenths in range(10)])], log_y=True, labels_at_end=True),
    "fig5.11": figure(
        "tmax",
        [
            ("plain loss .4", [against("LE-S", False), against("AL", False)]),
            ("loss .4, growing with load", [against("LE-S", True), against("AL", True)]),
        ],
        further_cells=crossings,
        marks=MARKS,
    ),
    "fig5.12": figure(
        "first_tmax",
        [three(model, overlapping=True) for model in BOTH],
        further=(NO_LOSS_FIRST,),
        further_cells=first_rounds,
        y_label="last announcement of the first round (s)",
    ),
    "fig5.13": figure("tmax", [three(model) for model in BOTH]),
}
