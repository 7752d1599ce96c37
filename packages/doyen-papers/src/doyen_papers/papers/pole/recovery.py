"""The time that a new leader takes until it serves, by the size of the snapshot.  [POLE §4.4; Fig. 8]"""

from itertools import pairwise
from typing import Final

from doyen_papers.papers.cells import curve
from doyen_papers.papers.item import Made, Measured, Outcome, Panel, Plot, Task
from doyen_papers.papers.pole import model
from doyen_papers.papers.pole.cells import Results, cell, exact, mean_of

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
        cells.append(Measured(where=where, mean=growth[rtt] - growth[before], unit="s"))
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
        cells.append(Measured(where=f"p4 - p1, {size} MB", mean=gap, unit="s"))
    return Outcome(
        cells=cells, plot=Plot(panels=[Panel(curves=curves)], x_label="snapshot in MB", y_label="recovery in s")
    )


MADE: Final[dict[str, Made]] = {
    "fig8a": (
        tuple(_of_8a(oracle, rtt, size) for oracle in ORACLES for rtt in RTTS for size in SIZES_MB),
        _figure_8a,
    ),
    "fig8b": (tuple(_of_8b(oracle, size) for oracle in ORACLES for size in SIZES_MB), _figure_8b),
}
