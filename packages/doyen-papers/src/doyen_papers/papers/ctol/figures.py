"""Figures 3 to 11: elections over Medley's views, as its traces show them.  [CTOL §VI]"""

from functools import partial
from statistics import median
from typing import Final

from msgspec.structs import replace

from doyen.sim.runs import Figure, figure
from doyen_papers.papers.cells import cell, curve, difference, measured, paired, paired_gain, paired_ratio
from doyen_papers.papers.ctol.cells import (
    AS_PRINTED,
    HASTY,
    PREFERRING,
    TOP,
    VARIANTS,
    Results,
    elections,
    straightness,
)
from doyen_papers.papers.ctol.points import DROPS, GROUNDS, LATE_S, POINTS, SIZES, Point
from doyen_papers.papers.item import Made, Measured, Outcome, Panel, Plot, Task

Axis = tuple[tuple[str, float, Point], ...]  # (name of the place, x, point).

BY_GROUND: Final[Axis] = tuple((ground, float(i), Point(topology=ground)) for i, ground in enumerate(GROUNDS, 1))
BY_DROP: Final[Axis] = tuple((f"drop {drop:g}".replace("0.", "."), drop, Point(drop=drop)) for drop in DROPS)
BY_SIZE: Final[Axis] = tuple((f"N={size}", float(size), Point(size=size)) for size in SIZES)
X_LABELS: Final = {id(BY_GROUND): "1 grid, 2 random, 3 cluster", id(BY_DROP): "drop per hop", id(BY_SIZE): "nodes N"}
BY_ACKS: Final = Point(drop=DROPS[-1], gossip="acks")  # As the authors' Medley sends news.
BY_THEN: Final = Point(drop=DROPS[-1], warmup=LATE_S)  # Suspicions have added up.
EVENLY: Final = ", LEADER repeated evenly"
BY_PACE: Final[Axis] = tuple(
    (where, drop, Point(drop=drop, evenly=True)) for where, drop, _ in BY_DROP if drop in DROPS[-2:]
)
SLOWER: Final = {"optimistic": "base", "hybrid": "preferred"}


def tasks_of(axis: Axis) -> tuple[Task, ...]:
    return tuple(elections(point) for _, _, point in axis)


def of(results: Results, point: Point, mode: str, name: str) -> Figure | None:
    return results[elections(point)].of[f"{mode}: {name}"]


def curves(results: Results, axis: Axis, name: str, unit: str = "") -> tuple[list[Measured], Plot]:
    """A cell per point and variant, and a curve per variant; what is as printed has the variant's colour."""
    cells, lines = [], []
    for variant in (*VARIANTS, *(f"{variant}{AS_PRINTED}" for variant in HASTY)):
        hollow = variant.endswith(AS_PRINTED)
        colour = VARIANTS.index(variant.removesuffix(AS_PRINTED))
        for where, x, point in axis:
            more = {"unit": unit, "curve": variant, "x": x, "note": f"{results[elections(point)].runs} runs"}
            cells.append(cell(f"{where}: {variant}", results[elections(point)], f"{variant}: {name}", **more))
        found = [of(results, point, variant, name) for _, _, point in axis]
        lines.append(curve(variant, colour, [x for _, x, _ in axis], found, hollow=hollow))
    label = f"{name.replace('_', ' ')}{f', {unit}' if unit else ''}"
    return cells, Plot(panels=[Panel(curves=lines)], x_label=X_LABELS[id(axis)], y_label=label)


def _bytes(axis: Axis, results: Results) -> Outcome:
    cells, plot = curves(results, axis, "bytes", "B")
    for where, _, point in axis:
        found, base = results[elections(point)], "base: bytes"
        for variant in ("optimistic", "preferred", f"optimistic{AS_PRINTED}"):
            label = variant.replace(AS_PRINTED, "") + " / base" + (AS_PRINTED if AS_PRINTED in variant else "")
            cells.append(paired_ratio(f"{where}: {label}", found, f"{variant}: bytes", base))
        unicasts = ("preferred: unicasts", "base: unicasts")
        cells.append(paired_ratio(f"{where}: preferred / base, unicasts", found, *unicasts))
        for how in ("", AS_PRINTED):
            ours = f"hybrid{how}: bytes"
            cells.append(paired_ratio(f"{where}: hybrid / base - 1{how}", found, ours, base, less=1.0))
    xs = tuple(x for _, x, _ in axis)
    for variant in VARIANTS:
        name, what = ("bytes", "drop") if axis is BY_DROP else ("bytes_end_to_end", "N, each packet once")
        if axis is not BY_GROUND:
            line = straightness(xs, [of(results, point, variant, name) for _, _, point in axis])
            cells.append(Measured(where=f"{variant}: R² of a line in {what}", mean=line))
    return Outcome(cells=cells, plot=plot)


def _gain(where: str, point: Point, variant: str, how: str, results: Results) -> Measured:
    quick, slow = f"{variant}{how}: completion", f"{SLOWER[variant]}: completion"
    return paired_gain(f"{where}: gain of {variant}{how}", results[elections(point)], quick, slow)


def _median_gain(where: str, point: Point, variant: str, how: str, results: Results) -> Measured:
    """The same of medians, which no single run of minutes moves."""
    pairs = results[elections(point)].pairs(f"{variant}{how}: completion", f"{SLOWER[variant]}: completion")
    quick, slow = (median(values) for values in zip(*pairs, strict=True))
    return Measured(where=f"{where}: gain of {variant}{how}, of medians", mean=1 - quick / slow)


def _gain_by_run(point: Point, variant: str, how: str, results: Results) -> Measured:
    """The mean over runs of how much sooner each one ended: long runs count no more than short ones."""
    pairs = results[elections(point)].pairs(f"{variant}{how}: completion", f"{SLOWER[variant]}: completion")
    return measured("", figure(1 - quick / slow for quick, slow in pairs))


def _completion(axis: Axis, results: Results) -> Outcome:
    cells, plot = curves(results, axis, "completion", "s")
    for where, _, point in axis:
        for gain in (_gain, _median_gain):
            cells += [gain(where, point, variant, how, results) for variant in HASTY for how in ("", AS_PRINTED)]
        for variant in HASTY:
            final = results[elections(point)]
            cells.append(cell(f"{where}: {variant}, finally", final, f"{variant}: completion_final", unit="s"))
    for where, _, point in BY_PACE if axis is BY_DROP else ():
        for variant in HASTY:
            for how in ("", AS_PRINTED):
                one = _gain(where, point, variant, how, results)
                cells.append(replace(one, where=one.where + EVENLY))
    for variant in VARIANTS if axis is not BY_GROUND else ():
        first, last = (of(results, axis[i][2], variant, "completion") for i in (0, -1))
        cells.append(difference(f"{variant}: last - first", last, first))
    return Outcome(cells=cells, plot=plot)


def _average(where: str, each: list[Measured]) -> Measured:
    """Return the mean of independent cells, each counting once."""
    known = [one for one in each if one.mean is not None and one.stderr is not None]
    mean = sum(one.mean or 0.0 for one in known) / len(known) if known else None
    error = sum((one.stderr or 0.0) ** 2 for one in known) ** 0.5 / len(known) if known else None
    return Measured(where=where, mean=mean, stderr=error)


def _headline(results: Results) -> Outcome:
    """The averages that the abstract and the summary quote: of all ten configurations, each counting once."""
    cells = []
    for how in ("", AS_PRINTED):
        of_bytes = (f"hybrid{how}: bytes", "base: bytes")
        small = [results[elections(point)] for point in POINTS if point.drop == DROPS[0] and point.size <= 64]
        each = [paired_ratio("", found, *of_bytes, less=1.0) for found in small]
        cells.append(_average(f"hybrid / base - 1{how}, drop .05, average of five configurations", each))
    for variant in HASTY:
        for how in ("", AS_PRINTED):
            gains = [_gain("", point, variant, how, results) for point in POINTS]
            cells.append(_average(f"gain of {variant}{how}, average of ten configurations", gains))
            by_run = [_gain_by_run(point, variant, how, results) for point in POINTS]
            cells.append(_average(f"gain of {variant}{how}, run by run, average of ten configurations", by_run))
    return Outcome(cells=cells)


def _changes(results: Results) -> Outcome:
    cells, plot = curves(results, BY_DROP, "leader_changes")
    for how in ("", AS_PRINTED):
        first, last = (of(results, BY_DROP[i][2], f"hybrid{how}", "leader_changes") for i in (0, -1))
        cells.append(difference(f"hybrid{how}: drop .2 - drop .05", last, first))
        where = f"drop .2: hybrid{how}, gossip on acks alone"
        cells.append(cell(where, results[elections(BY_ACKS)], f"hybrid{how}: leader_changes"))
    return Outcome(cells=cells, plot=plot)


def _health(results: Results) -> Outcome:
    cells, plot = curves(results, BY_DROP, "unhealthy_rank")
    for where, drop, point in BY_DROP:
        found, base = results[elections(point)], "base: unhealthy_rank"
        for variant in PREFERRING:
            ours = f"{variant}: unhealthy_rank"
            cells.append(paired(f"{where}: {variant} - base", found, ours, base))
            if drop in (DROPS[0], DROPS[-1]):
                cells.append(paired_ratio(f"{where}: {variant} / base", found, ours, base))
    late = results[elections(BY_THEN)]
    after = f", after {LATE_S:g} s of warm-up"
    for variant in PREFERRING:
        where = f"drop .2: {variant} / base{after}"
        cells.append(paired_ratio(where, late, f"{variant}: unhealthy_rank", "base: unhealthy_rank"))
    cells.append(cell(f"drop .2: base{after}", late, "base: unhealthy_rank"))
    return Outcome(cells=cells, plot=plot)


def _hash(results: Results) -> Outcome:
    cells, plot = curves(results, BY_DROP, "hash_rank")
    for where, _, point in BY_DROP:
        for variant in PREFERRING:
            found = results[elections(point)]
            cells.append(cell(f"{where}: {variant}{TOP}", found, f"{variant}{TOP}: hash_rank"))
            cells.append(cell(f"{where}: {variant}{TOP}, Preference", found, f"{variant}{TOP}: preference"))
    return Outcome(cells=cells, plot=plot)


AXES: Final = (BY_GROUND, BY_DROP, BY_SIZE)
MADE: Final[dict[str, Made]] = {
    **{f"fig{3 + i}": (tasks_of(axis), partial(_bytes, axis)) for i, axis in enumerate(AXES)},
    **{f"fig{6 + i}": (tasks_of(axis), partial(_completion, axis)) for i, axis in enumerate(AXES)},
    "fig7": (tasks_of((*BY_DROP, *BY_PACE)), partial(_completion, BY_DROP)),
    "fig9": ((*tasks_of(BY_DROP), elections(BY_ACKS)), _changes),
    "fig10": ((*tasks_of(BY_DROP), elections(BY_THEN)), _health),
    "fig11": (tasks_of(BY_DROP), _hash),
    "headline": (tuple(elections(point) for point in POINTS), _headline),
}
