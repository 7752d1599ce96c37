"""Simulates each extension of section 5.7 beside the algorithm without it, by the machines.  [LE §5.7]

The chapter only proposes them.  What it hopes of each is judged; what each costs is shown.
"""

from collections.abc import Mapping
from typing import Any, Final

from doyen_papers.analysis.setting import Event, LossModel, Setting, Variant
from doyen_papers.papers.cells import Outcomes, cell, curve, difference, measured
from doyen_papers.papers.item import Made, Measured, Outcome, Panel, Plot, Task
from doyen_papers.papers.le.cells import LOSS, Composed, Extended, Quantity, Results, figure_of, formula
from doyen_papers.studies.announce import Extensions, Summary

SIZES: Final = (5, 10, 20, 50)
RUNS_MAX: Final = 200
LISTEN_S: Final = 3.0  # T_L = 3 T_A, where a leader departs.
SELDOM_S: Final = 10.0  # T_A where a joiner asks: long compared to a reply.
QUERY_S: Final = 0.4  # T_Q = 4Δ, as the machine wants it at least.
SELDOM_LOST: Final = 0.1  # Beside LOSS: what ageing buys hangs on it.
AGED_S: Final = 1.5  # Half of T_L: a leader has aged that was not heard once.


def _task(nodes: int, extensions: Extensions = Extensions(), times: int = 2, **more: object) -> Task:  # noqa: B008  (frozen)
    setting = Setting(**{"nodes": nodes, "loss": LOSS, **more})  # type: ignore[arg-type]
    return Task(Extended(setting, extensions), "machine", RUNS_MAX, runs_times=times)


def _start(variant: Variant, nodes: int, **extensions: object) -> Task:
    return _task(nodes, Extensions(**extensions), variant=variant, loss=0.0)  # type: ignore[arg-type]


def _departs(nodes: int, loss: float = LOSS, **extensions: object) -> Task:
    event: Event = "leader-departs"
    more = {"listen_s": LISTEN_S, "event": event, "loss": loss}
    return _task(nodes, Extensions(**extensions), times=2 if loss == LOSS else 1, **more)  # type: ignore[arg-type]


def _doubts(nodes: int, **extensions: object) -> Task:
    event: Event = "false-departure"  # 100 T_A a run, so few runs will do.
    setting = Setting(nodes=nodes, loss=LOSS, listen_s=LISTEN_S, event=event)
    return Task(Extended(setting, Extensions(**extensions)), "machine", 100)  # type: ignore[arg-type]


def _composed(variant: Variant, nodes: int, model: LossModel = "none") -> Task:
    loss = 0.0 if model == "none" else LOSS
    return Task(Composed(Setting(variant=variant, nodes=nodes, loss_model=model, loss=loss)), "machine", RUNS_MAX)


def _joins(nodes: int, **extensions: object) -> Task:
    event: Event = "joiner-worse"  # When it comes within an announcement is chance, so its wait varies much.
    return _task(nodes, Extensions(**extensions), times=8, announce_s=SELDOM_S, event=event)  # type: ignore[arg-type]


#: By title: the quantity, what is compared, and how each of the two is run.
PANELS: Final[dict[str, tuple[Quantity, tuple[tuple[str, dict[int, Task]], ...]]]] = {
    "Bye: until survivors agree": (
        "reestablishment",
        (
            ("without", {n: _departs(n) for n in SIZES}),
            ("with Bye", {n: _departs(n, bye=True, bye_loss=LOSS) for n in SIZES}),
        ),
    ),
    "Query: until a joiner knows": (
        "reestablishment",
        (
            ("without", {n: _joins(n) for n in SIZES}),
            ("with Query", {n: _joins(n, query_s=QUERY_S) for n in SIZES}),
        ),
    ),
    "rank in the wake-up: time": (
        "tmax",
        (
            ("none", {n: _start("le-s", n) for n in SIZES}),
            ("likely", {n: _start("le-s", n, rank_map="likely") for n in SIZES}),
            ("perfect", {n: _start("le-s", n, rank_map="perfect") for n in SIZES}),
            ("LE-M", {n: _start("le-m", n) for n in SIZES}),
        ),
    ),
    "Query at the start: messages": (
        "messages",
        (
            ("query", {n: _start("le-a", n, query_s=QUERY_S) for n in SIZES}),
            ("suppress, then query", {n: _start("le-s", n, query_s=QUERY_S) for n in SIZES}),
        ),
    ),
    "Query at the start: time": (
        "tmax",
        (
            ("suppress, then query", {n: _start("le-s", n, query_s=QUERY_S) for n in SIZES}),
            ("query", {n: _start("le-a", n, query_s=QUERY_S) for n in SIZES}),
        ),
    ),
    "k leaders: messages": (
        "messages",
        tuple((f"k={k}", {n: _start("le-s", n, leader_count=k) for n in SIZES}) for k in (1, 2, 3)),
    ),
    "ageing: until survivors agree": (
        "reestablishment",
        (
            ("without", {n: _departs(n) for n in SIZES}),
            ("aged after T_L/2", {n: _departs(n, ageing_s=AGED_S) for n in SIZES}),
        ),
    ),
    "ageing at loss .1: until survivors agree": (
        "reestablishment",
        (
            ("without", {n: _departs(n, SELDOM_LOST) for n in SIZES}),
            ("aged after T_L/2", {n: _departs(n, SELDOM_LOST, ageing_s=AGED_S) for n in SIZES}),
        ),
    ),
    "ageing: time in disagreement": (
        "inconsistent",
        (
            ("aged after T_L/2", {n: _doubts(n, ageing_s=AGED_S) for n in SIZES}),
            ("without", {n: _doubts(n) for n in SIZES}),
        ),
    ),
}

RECEIPT: Final = {
    model: {n: _composed("sup-al-receipt", n, model) for n in SIZES}
    for model in ("none", "uncorrelated")  # The chapter warns of loss; delay alone does it, too.
}
REDRAW: Final = {n: _composed("sup-al-redraw", n) for n in SIZES}
SPREAD: Final = {n: _composed("sup-al-spread", n) for n in SIZES}


def _receipt(results: Mapping[Task, Any]) -> tuple[list[Measured], Panel]:
    """SUP+AL by mere receipt: who leads after 50 T_A."""
    cells, curves = [], []
    title = "SUP+AL, elected on receipt"
    for colour, (model, what) in enumerate(
        (("none", "no leader"), ("uncorrelated", "no leader"), ("uncorrelated", "several elected"))
    ):
        loss = "no loss" if model == "none" else f"loss {LOSS:g}"
        label = f"{title}, {loss}: {what}"
        found: dict[int, Outcomes] = {n: results[task] for n, task in RECEIPT[model].items()}
        points = [cell(f"{label}, N={n}", one, what, curve=label, x=float(n)) for n, one in found.items()]
        cells += points
        curves.append(curve(label, colour, SIZES, points, legend=f"{what.split()[0]}, {loss}"))
        if model == "none":  # All that announce within Δ of the first defer to it, and the first to them.
            for n, one in found.items():
                alone = (1 - Setting().delay_s) ** n
                cells.append(cell(f"{title}, {loss}: one leader, N={n}", one, "one leader", formula=alone))
    return cells, Panel(curves=curves, title=f"{title}: share of runs")


def _redraw(results: Mapping[Task, Any]) -> tuple[list[Measured], Panel]:
    """SUP+AL drawn anew each interval: how many announce in one of them."""
    cells, points = [], []
    title = "SUP+AL, drawn anew: messages an interval"
    for n, task in REDRAW.items():
        one: Outcomes = results[task]
        more = {"curve": title, "x": float(n), "formula": formula(Setting(variant="sup", nodes=n), "messages")}
        points.append(cell(f"{title}, N={n}", one, "messages", **more))
        everybody = Measured(where="", mean=float(n), stderr=0.0)
        cells += [points[-1], difference(f"{title}, AL - drawn anew, N={n}", everybody, points[-1])]
    al = curve("AL", 0, SIZES, [float(n) for n in SIZES])
    return cells, Panel(curves=[al, curve(title, 1, SIZES, points, legend="drawn anew")], title=title)


def _spread(results: Mapping[Task, Any]) -> tuple[list[Measured], list[Panel]]:
    """SUP+AL that only spreads announcements: all come, but not at once."""
    cells, ends = [], []
    title = "SUP+AL, only spread"
    found: dict[int, Outcomes] = {n: results[task] for n, task in SPREAD.items()}
    for colour, (what, share) in enumerate((("first", 0.0), ("last", 1.0))):
        label = f"{title}: {what} announcement"
        points = [
            cell(
                f"{label}, N={n}", one, what, unit="s", formula=(1 + share * (n - 1)) / (n + 1), curve=label, x=float(n)
            )
            for n, one in found.items()
        ]
        cells += points
        ends.append(curve(label, colour, SIZES, points, legend=what))
    together = [cell(f"{title}: within Δ, N={n}", one, "together") for n, one in found.items()]
    for n, at_once in zip(SIZES, together, strict=True):
        cells.append(cell(f"{title}: messages an interval, N={n}", found[n], "messages"))
        everybody = Measured(where="", mean=float(n), stderr=0.0)
        cells += [at_once, difference(f"{title}: within Δ, AL - spread, N={n}", everybody, at_once)]
    al = curve("AL", 0, SIZES, [float(n) for n in SIZES])
    peak = Panel(
        curves=[al, curve(f"{title}: within Δ", 1, SIZES, together, legend="spread")],
        title=f"{title}: messages within Δ of each other",
    )
    return cells, [Panel(curves=ends, title=f"{title}: when the first and the last is sent"), peak]


def _outcome(results: Results) -> Outcome:
    cells: list[Measured] = []
    panels = []
    for title, (quantity, runs) in PANELS.items():
        unit = {"messages": "", "inconsistent": "of the time"}.get(quantity, "s")
        curves = []
        found: dict[tuple[str, int], Measured] = {}
        for colour, (name, by_size) in enumerate(runs):
            for nodes, task in by_size.items():
                summary: Summary = results[task]
                where = f"{title}, {name}, N={nodes}"
                more = {"unit": unit, "curve": f"{title}, {name}", "x": float(nodes), "note": f"{summary.runs} runs"}
                found[name, nodes] = measured(where, figure_of(summary, quantity), **more)
            points = [found[name, nodes] for nodes in SIZES]
            curves.append(curve(f"{title}, {name}", colour, SIZES, points, legend=name))
        cells += found.values()
        panels.append(Panel(curves=curves, title=title))
        first, *others = [name for name, _ in runs]
        for name in others:
            for nodes in SIZES:
                where = f"{title}, {first} - {name}, N={nodes}"
                cells.append(difference(where, found[first, nodes], found[name, nodes], unit=unit))
    for nodes in SIZES:
        title = "rank in the wake-up: time"
        at = {cell.where: cell for cell in cells}
        pair = (at[f"{title}, {name}, N={nodes}"] for name in ("perfect", "LE-M"))
        cells.append(difference(f"{title}, perfect - LE-M, N={nodes}", *pair, unit="s"))
    for found_here, panel in (_receipt(results), _redraw(results)):
        cells += found_here
        panels.append(panel)
    spread, both = _spread(results)
    plot = Plot(panels=[*panels, *both], x_label="nodes N", y_label="seconds; messages; share")
    return Outcome(cells=[*cells, *spread], plot=plot)


COMPOSED: Final = (*RECEIPT.values(), REDRAW, SPREAD)
TASKS: Final = (
    *(task for _, runs in PANELS.values() for _, by_size in runs for task in by_size.values()),
    *(task for by_size in COMPOSED for task in by_size.values()),
)
MADE: Final[dict[str, Made]] = {"extensions": (TASKS, _outcome)}
