"""Figures 3 to 11: elections over Medley's views, as its traces show them.  [CTOL §VI]"""

from functools import partial
from typing import Final

from doyen.election.churn.config import Exclusion, Variant
from doyen.sim.runs import Figure
from doyen_papers.papers.cells import cell, curve, difference, gain, ratio
from doyen_papers.papers.ctol.cells import VARIANTS, Results, elections, straightness
from doyen_papers.papers.ctol.points import DROPS, GROUNDS, SIZES, Point
from doyen_papers.papers.item import Made, Measured, Outcome, Panel, Plot, Task

Axis = tuple[tuple[str, float, Point], ...]  # (name of the place, x, point).

BY_GROUND: Final[Axis] = tuple((ground, float(i), Point(topology=ground)) for i, ground in enumerate(GROUNDS, 1))
BY_DROP: Final[Axis] = tuple((f"drop {drop:g}".replace("0.", "."), drop, Point(drop=drop)) for drop in DROPS)
BY_SIZE: Final[Axis] = tuple((f"N={size}", float(size), Point(size=size)) for size in SIZES)
PREFERRING: Final[tuple[Variant, ...]] = ("preferred", "hybrid")
X_LABELS: Final = {id(BY_GROUND): "1 grid, 2 random, 3 cluster", id(BY_DROP): "drop per hop", id(BY_SIZE): "nodes N"}


def tasks_of(axis: Axis) -> tuple[Task, ...]:
    return tuple(elections(point, variant) for _, _, point in axis for variant in VARIANTS)


def of(results: Results, point: Point, variant: Variant, name: str, exclusion: Exclusion = "union") -> Figure | None:
    return results[elections(point, variant, exclusion)].of[name]


def curves(results: Results, axis: Axis, name: str, unit: str = "") -> tuple[list[Measured], Plot]:
    """A cell per point and variant, and a curve per variant."""
    cells, lines = [], []
    for colour, variant in enumerate(VARIANTS):
        found = [of(results, point, variant, name) for _, _, point in axis]
        for where, x, point in axis:
            task = elections(point, variant)
            cells.append(cell(f"{where}: {variant}", results[task], name, unit=unit, curve=variant, x=x))
        lines.append(curve(variant, colour, [x for _, x, _ in axis], found))
    label = f"{name.replace('_', ' ')}{f', {unit}' if unit else ''}"
    return cells, Plot(panels=[Panel(curves=lines)], x_label=X_LABELS[id(axis)], y_label=label)


def _bytes(axis: Axis, results: Results) -> Outcome:
    cells, plot = curves(results, axis, "bytes", "B")
    for where, _, point in axis:
        base = of(results, point, "base", "bytes")
        for variant in ("optimistic", "preferred"):
            cells.append(ratio(f"{where}: {variant} / base", of(results, point, variant, "bytes"), base))
        cells.append(ratio(f"{where}: hybrid / base - 1", of(results, point, "hybrid", "bytes"), base, less=1.0))
    xs = tuple(x for _, x, _ in axis)
    for variant in VARIANTS:
        name, what = ("bytes", "drop") if axis is BY_DROP else ("bytes_end_to_end", "N, each packet once")
        if axis is not BY_GROUND:
            line = straightness(xs, [of(results, point, variant, name) for _, _, point in axis])
            cells.append(Measured(where=f"{variant}: R² of a line in {what}", mean=line))
    return Outcome(cells=cells, plot=plot)


def _completion(axis: Axis, results: Results) -> Outcome:
    cells, plot = curves(results, axis, "completion", "s")
    for where, _, point in axis:
        times = {variant: of(results, point, variant, "completion") for variant in VARIANTS}
        cells.append(gain(f"{where}: gain of optimistic", times["optimistic"], times["base"]))
        cells.append(gain(f"{where}: gain of hybrid", times["hybrid"], times["preferred"]))
        for variant in ("optimistic", "hybrid"):
            final = results[elections(point, variant)]
            cells.append(cell(f"{where}: {variant}, finally", final, "completion_final", unit="s"))
    for variant in VARIANTS if axis is not BY_GROUND else ():
        first, last = (of(results, axis[i][2], variant, "completion") for i in (0, -1))
        cells.append(difference(f"{variant}: last - first", last, first))
    return Outcome(cells=cells, plot=plot)


def _changes(results: Results) -> Outcome:
    cells, plot = curves(results, BY_DROP, "leader_changes")
    first, last = (of(results, BY_DROP[i][2], "hybrid", "leader_changes") for i in (0, -1))
    cells.append(difference("hybrid: drop .2 - drop .05", last, first))
    return Outcome(cells=cells, plot=plot)


def _health(results: Results) -> Outcome:
    cells, plot = curves(results, BY_DROP, "unhealthy_rank")
    for where, drop, point in BY_DROP:
        base = of(results, point, "base", "unhealthy_rank")
        for variant in PREFERRING:
            ours = of(results, point, variant, "unhealthy_rank")
            cells.append(difference(f"{where}: {variant} - base", ours, base))
            if drop in (DROPS[0], DROPS[-1]):
                cells.append(ratio(f"{where}: {variant} / base", ours, base))
    return Outcome(cells=cells, plot=plot)


def _hash(results: Results) -> Outcome:
    cells, plot = curves(results, BY_DROP, "hash_rank")
    for where, _, point in BY_DROP:
        for variant in PREFERRING:
            found = results[elections(point, variant, "top")]
            cells.append(cell(f"{where}: {variant}, top exclusion", found, "hash_rank"))
            cells.append(cell(f"{where}: {variant}, top exclusion, Preference", found, "preference"))
    return Outcome(cells=cells, plot=plot)


AXES: Final = (BY_GROUND, BY_DROP, BY_SIZE)
MADE: Final[dict[str, Made]] = {
    **{f"fig{3 + i}": (tasks_of(axis), partial(_bytes, axis)) for i, axis in enumerate(AXES)},
    **{f"fig{6 + i}": (tasks_of(axis), partial(_completion, axis)) for i, axis in enumerate(AXES)},
    "fig9": (tasks_of(BY_DROP), _changes),
    "fig10": (tasks_of(BY_DROP), _health),
    "fig11": (
        (*tasks_of(BY_DROP), *(elections(point, v, "top") for _, _, point in BY_DROP for v in PREFERRING)),
        _hash,
    ),
}
