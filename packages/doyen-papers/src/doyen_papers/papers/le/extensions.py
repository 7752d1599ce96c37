"""Simulates each extension of section 5.7 beside the algorithm without it, by the machines.  [LE §5.7]

The chapter only proposes them.  What it hopes of each is judged; what each costs is shown.
"""

from typing import Final

from doyen_papers.analysis.setting import Event, Setting, Variant
from doyen_papers.papers.cells import curve, difference, measured
from doyen_papers.papers.item import Made, Measured, Outcome, Panel, Plot, Task
from doyen_papers.papers.le.cells import LOSS, Extended, Quantity, Results, figure_of
from doyen_papers.studies.announce import Extensions, Summary

SIZES: Final = (5, 10, 20, 50)
RUNS_MAX: Final = 200
LISTEN_S: Final = 3.0  # T_L = 3 T_A, where a leader departs.
SELDOM_S: Final = 10.0  # T_A where a joiner asks: long compared to a reply.
QUERY_S: Final = 0.4  # T_Q = 4Δ, as the machine wants it at least.


def _task(nodes: int, extensions: Extensions = Extensions(), times: int = 2, **more: object) -> Task:  # noqa: B008  (frozen)
    setting = Setting(**{"nodes": nodes, "loss": LOSS, **more})  # type: ignore[arg-type]
    return Task(Extended(setting, extensions), "machine", RUNS_MAX, runs_times=times)


def _start(variant: Variant, nodes: int, **extensions: object) -> Task:
    return _task(nodes, Extensions(**extensions), variant=variant, loss=0.0)  # type: ignore[arg-type]


def _departs(nodes: int, **extensions: object) -> Task:
    event: Event = "leader-departs"
    return _task(nodes, Extensions(**extensions), listen_s=LISTEN_S, event=event)  # type: ignore[arg-type]


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
}


def _outcome(results: Results) -> Outcome:
    cells: list[Measured] = []
    panels = []
    for title, (quantity, runs) in PANELS.items():
        unit = "" if quantity == "messages" else "s"
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
    return Outcome(cells=cells, plot=Plot(panels=panels, x_label="nodes N", y_label="seconds; messages"))


TASKS: Final = tuple(task for _, runs in PANELS.values() for _, by_size in runs for task in by_size.values())
MADE: Final[dict[str, Made]] = {"extensions": (TASKS, _outcome)}
