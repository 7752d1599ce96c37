"""Figures 5.6 to 5.13.  [LE §5.4]  Simulated points over the closed form, where there is one."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from doyen.sim.runs import Figure
from doyen_papers.analysis.setting import LossModel
from doyen_papers.papers.item import Curve, Item, Mark, Measured, Outcome, Panel, Plot, Task
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
SHOWN: Final = (10, 100, 500)
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


def curve(wanted: Wanted, quantity: Quantity, results: Results) -> Curve:
    figures = [figure_of(results[wanted.task(nodes)], quantity) for nodes in SIZES]
    exact = [formula(wanted.task(nodes).setting, quantity) for nodes in LINE_SIZES]
    known = [(float(nodes), y) for nodes, y in zip(LINE_SIZES, exact, strict=True) if y is not None]
    return Curve(
        label=wanted.label,
        legend=wanted.legend,
        colour=wanted.colour,
        hollow=wanted.hollow,
        ring=wanted.ring,
        xs=[float(nodes) for nodes in SIZES],
        ys=[found.mean if found else None for found in figures],
        errors=[found.stderr if found else None for found in figures],
        line_xs=[x for x, _ in known] if len(known) == len(LINE_SIZES) else [],
        line_ys=[y for _, y in known] if len(known) == len(LINE_SIZES) else [],
    )


def cells(wanted: Wanted, quantity: Quantity, results: Results) -> list[Measured]:
    return [
        measured(
            f"{wanted.label}, N={nodes}", results[wanted.task(nodes)], quantity, curve=wanted.label, x=float(nodes)
        )
        for nodes in SIZES
    ]


def figure(
    number: str,
    title: str,
    caption: str,
    quantity: Quantity,
    panels: Sequence[tuple[str, Sequence[Wanted]]],
    *,
    further: Sequence[Task] = (),
    further_cells: Callable[[Results], list[Measured]] = lambda results: [],
    marks: dict[str, list[Mark]] | None = None,
    log_y: bool = False,
    labels_at_end: bool = False,
    y_label: str = "",
    shown: tuple[float, ...] = SHOWN,
) -> Item:
    every = [wanted for _, wanteds in panels for wanted in wanteds]

    def outcome(results: Results) -> Outcome:
        drawn = [
            Panel(
                title=name,
                curves=[curve(wanted, quantity, results) for wanted in wanteds],
                marks=(marks or {}).get(name, []),
                log_y=log_y,
                labels_at_end=labels_at_end,
            )
            for name, wanteds in panels
        ]
        found = [cell for wanted in every for cell in cells(wanted, quantity, results)]
        return Outcome(
            cells=found + further_cells(results),
            plot=Plot(
                panels=drawn, x_label="group size N", y_label=y_label or (COUNT if quantity == "messages" else TIME)
            ),
        )

    return Item(
        id=f"le/fig{number}",
        title=title,
        caption=caption,
        tasks=tuple(wanted.task(nodes) for wanted in every for nodes in SIZES) + tuple(further),
        outcome=outcome,
        shown_x=shown,
    )


# Figure 5.11: with plain loss nothing can cross; with loss that grows with the load it can.

DEGRADED_S: Final = 0.1  # So far above the plain-loss curve, AL has degraded (see expected.toml).
PLAIN, LOADED = "plain loss .4", "loss .4, growing with load"


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
            found.append(
                Measured(
                    where=f"{what} from N, {how}",
                    mean=at,
                    unit="processes",
                    note="between simulated points by a straight line" if at else "it never does, up to N=500",
                )
            )
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

FIGURES: Final = (
    figure(
        "5.6",
        "time until convergence, no loss",
        "LE-S waits for the wake-up of one particular process, so for half of T_S at any N; "
        "SUP only for the first few wake-ups of all.",
        "tmax",
        [("", [lossless("LE-S"), lossless("SUP")])],
    ),
    figure(
        "5.7",
        "messages until convergence, no loss",
        "A message suppresses in SUP whoever hears it, in LE-S only those of lower rank: "
        "LE-S sends about ln N messages more.",
        "messages",
        [("", [lossless("LE-S"), lossless("SUP")])],
    ),
    figure(
        "5.8",
        "time until convergence, loss .4",
        "Loss costs LE-S whole announcement intervals, and under uncorrelated loss the more, the more receivers "
        "there are; SUP is done after one.",
        "tmax",
        [("", FOUR)],
    ),
    figure(
        "5.9",
        "messages until convergence, loss .4",
        "The same runs as Figure 5.8. For uncorrelated loss no closed form is known.",
        "messages",
        [("", FOUR)],
    ),
    figure(
        "5.10",
        "time until convergence of LE-S, correlated loss 0 to .9",
        "One flat line per loss, at .5 + l/(1-l): the size of the group does not matter. Mind the logarithmic axis.",
        "tmax",
        [("", [at_loss(tenths) for tenths in range(10)])],
        log_y=True,
        labels_at_end=True,
        shown=(100,),
    ),
    figure(
        "5.11",
        "time until convergence, loss .4: LE-S and AL",
        "The chapter sees AL degrade from N=70 and LE-S overtake it at N=200. With plain loss that cannot happen: LE-S "
        "lags by E[t_s] at every N (above). If loss grows with the messages that arrive together, it does (below): "
        "AL's N messages meet, those of LE-S are spread and few. The load model's capacity is ours to choose, "
        "so the lower panel shows that the explanation suffices, not that the chapter's numbers follow from it.",
        "tmax",
        [
            (PLAIN, [against("LE-S", False), against("AL", False)]),
            (LOADED, [against("LE-S", True), against("AL", True)]),
        ],
        further_cells=crossings,
        marks={PLAIN: MARKS, LOADED: MARKS},
    ),
    figure(
        "5.12",
        "time of the first round alone, loss .4",
        "When the last announcement of the first round is sent. LE-M lies on SUP: in that round they are the same.",
        "first_tmax",
        [three(model, overlapping=True) for model in BOTH],
        further=(NO_LOSS_FIRST,),
        further_cells=first_rounds,
        y_label="last announcement of the first round (s)",
    ),
    figure(
        "5.13",
        "time until convergence, all rounds, loss .4",
        "SUP stops after one round and bounds the others from below; LE-M saves the wait for a particular wake-up.",
        "tmax",
        [three(model) for model in BOTH],
    ),
)
