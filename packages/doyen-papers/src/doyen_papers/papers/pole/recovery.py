"""The time that a new leader takes until it serves, by the size of the snapshot.  [POLE §4.4; Fig. 8]"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from doyen_papers.papers.cells import curve, numbers
from doyen_papers.papers.item import Made, Measured, Outcome, Panel, Plot, Task
from doyen_papers.papers.pole import model
from doyen_papers.papers.pole.cells import Results, What, cell, exact, mean_of

SIZES_MB: Final = (0, 50, 100, 150, 200, 250)
RTTS: Final = (0.0, 20.75, 53.26, 77.06)
ORACLES: Final = {"history": "p4", "rotating": "p1"}


def _of_8a(oracle: str, rtt: float, size: int) -> Task:
    return exact(
        deployment="two-dc", oracle=oracle, rtt_ms=rtt, outdated=("p1",), snapshot_bytes=size * 10**6, share=None
    )


def _figure_8a(results: Results) -> Outcome:
    cells, panels = [], []
    growth: dict[float, float] = {}
    for oracle in ORACLES:
        curves = []
        for colour, rtt in enumerate(RTTS):
            tasks = [_of_8a(oracle, rtt, size) for size in SIZES_MB]
            label = f"{oracle}, RTT {rtt:g}"
            for size, task in zip(SIZES_MB, tasks, strict=True):
                formula = model.recovery_s(task.setting)
                cells.append(
                    cell(f"{label}, {size} MB", results, task, "recovery_time", formula=formula, curve=label, x=size)
                )
            ys = [mean_of(results, task, "recovery_time") for task in tasks]
            if oracle == "rotating":
                growth[rtt] = ys[-1] - ys[0]
            curves.append(curve(label, colour, SIZES_MB, ys, legend=f"{rtt:g} ms"))
        panels.append(Panel(curves=curves, title=f"{oracle}: {ORACLES[oracle]} leads"))
    for before, rtt in pairwise(RTTS):
        where = f"amplified, RTT {rtt:g} against {before:g}"
        cells.append(Measured(where=where, mean=growth[rtt] - growth[before], stderr=0.0, unit="s"))
    return Outcome(cells=cells, plot=Plot(panels=panels, x_label="snapshot in MB", y_label="recovery in s"))


def _of_8b(oracle: str, size: int) -> Task:
    return exact(deployment="recovery", oracle=oracle, snapshot_bytes=size * 10**6)


def _figure_8b(results: Results) -> Outcome:
    cells, curves = [], []
    times = {oracle: [mean_of(results, _of_8b(oracle, s), "recovery_time") for s in SIZES_MB] for oracle in ORACLES}
    for colour, (oracle, leader) in enumerate(ORACLES.items()):
        for size in SIZES_MB:
            task = _of_8b(oracle, size)
            cells.append(cell(f"{leader} leads, {size} MB", results, task, "recovery_time", curve=leader, x=size))
        curves.append(curve(leader, colour, SIZES_MB, times[oracle], legend=f"{leader} ({oracle})"))
    for i, size in enumerate(SIZES_MB):
        gap = times["history"][i] - times["rotating"][i]
        cells.append(Measured(where=f"p4 - p1, {size} MB", mean=gap, stderr=0.0, unit="s"))
    return Outcome(
        cells=cells, plot=Plot(panels=[Panel(curves=curves)], x_label="snapshot in MB", y_label="recovery in s")
    )


# Statements of §4.3 and §4.4: each server in turn leads, and the best is found.

SERVERS: Final = ("p1", "p2", "p3", "p4")
STATED_BYTES: Final = 100 * 10**6


def _led(name: str, oracle: str) -> Task:
    size = STATED_BYTES if name == "recovery" else 0
    return exact(deployment=name, oracle=oracle, share=1.0, snapshot_bytes=size)


def _leader(name: str, results: Results, what: What) -> float:
    """Return the number of the server that is best as the leader."""
    found = {server: mean_of(results, _led(name, f"preference:{server}"), what) for server in SERVERS}
    return float(min(found, key=lambda server: found[server])[1:])


def _counterexample(results: Results) -> Outcome:
    values: dict[str, float | None] = {}
    for name in "12":
        values[f"{name}, all requests at D3: fastest leader"] = _leader(name, results, "mean")
        elected = model.leader_of(_led(name, "request").setting)
        values[f"{name}, all requests at D3: request elects"] = float(elected[1:])
    return Outcome(cells=numbers(values) + _each(results, "12", "mean"))


def _recovery_latency(results: Results) -> Outcome:
    elected = model.leader_of(_led("recovery", "latency").setting)
    values: dict[str, float | None] = {
        "all requests at D1: fastest leader": _leader("recovery", results, "mean"),
        "all requests at D1: latency elects": float(elected[1:]),
        "all requests at D1: least recovery": _leader("recovery", results, "recovery_time"),
    }
    shown = _each(results, ("recovery",), "mean") + _each(results, ("recovery",), "recovery_time")
    return Outcome(cells=numbers(values) + shown)


def _each(results: Results, names: Iterable[str], what: What) -> list[Measured]:
    word = "mean latency" if what == "mean" else "recovery"
    tasks = [(f"{name}, {s} leads, {word}", _led(name, f"preference:{s}")) for name in names for s in SERVERS]
    return [cell(where, results, task, what) for where, task in tasks]


MADE: Final[dict[str, Made]] = {
    "counterexample": (tuple(_led(name, f"preference:{s}") for name in "12" for s in SERVERS), _counterexample),
    "recovery-latency": (tuple(_led("recovery", f"preference:{s}") for s in SERVERS), _recovery_latency),
    "fig8a": (
        tuple(_of_8a(oracle, rtt, size) for oracle in ORACLES for rtt in RTTS for size in SIZES_MB),
        _figure_8a,
    ),
    "fig8b": (tuple(_of_8b(oracle, size) for oracle in ORACLES for size in SIZES_MB), _figure_8b),
}
