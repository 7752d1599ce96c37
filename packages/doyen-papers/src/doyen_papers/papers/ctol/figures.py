"""Figures 3 to 11: elections over Medley's views, as its traces show them.  [CTOL §VI]"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from doyen.election.churn.config import Exclusion, Variant
from doyen.sim.runs import Figure
from doyen_papers.papers.ctol.cells import VARIANTS, Results, cell, difference, elections, gain, ratio, straightness
from doyen_papers.papers.ctol.points import DROPS, GROUNDS, SIZES, Point
from doyen_papers.papers.item import Curve, Item, Measured, Outcome, Panel, Plot, Task

Axis = tuple[tuple[str, float, Point], ...]  # (name of the place, x, point).

BY_GROUND: Final[Axis] = tuple((ground, float(i), Point(topology=ground)) for i, ground in enumerate(GROUNDS, 1))
BY_DROP: Final[Axis] = tuple((f"drop {drop:g}".replace("0.", "."), drop, Point(drop=drop)) for drop in DROPS)
BY_SIZE: Final[Axis] = tuple((f"N={size}", float(size), Point(size=size)) for size in SIZES)
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
        lines.append(
            Curve(
                label=variant,
                legend=variant,
                colour=colour,
                xs=[x for _, x, _ in axis],
                ys=[one.mean if one else None for one in found],
                errors=[one.stderr if one else None for one in found],
            )
        )
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
        for variant in ("preferred", "hybrid"):
            ours = of(results, point, variant, "unhealthy_rank")
            cells.append(difference(f"{where}: {variant} - base", ours, base))
            if drop in (DROPS[0], DROPS[-1]):
                cells.append(ratio(f"{where}: {variant} / base", ours, base))
    return Outcome(cells=cells, plot=plot)


def _hash(results: Results) -> Outcome:
    cells, plot = curves(results, BY_DROP, "hash_rank")
    for where, _, point in BY_DROP:
        for variant in ("preferred", "hybrid"):
            found = results[elections(point, variant, "top")]
            cells.append(cell(f"{where}: {variant}, top exclusion", found, "hash_rank"))
            cells.append(cell(f"{where}: {variant}, top exclusion, Preference", found, "preference"))
    return Outcome(cells=cells, plot=plot)


def _top_tasks() -> tuple[Task, ...]:
    wanted: Sequence[Variant] = ("preferred", "hybrid")
    return tuple(elections(point, variant, "top") for _, _, point in BY_DROP for variant in wanted)


ITEMS: Final = (
    *(
        Item(
            id=f"ctol/fig{number}",
            title=f"bytes by {what}",
            caption="Summed over hops, until everybody has acknowledged; LEADER is fanned out and repeated.",
            tasks=tasks_of(axis),
            outcome=partial(_bytes, axis),
        )
        for number, what, axis in ((3, "topology", BY_GROUND), (4, "loss", BY_DROP), (5, "size", BY_SIZE))
    ),
    *(
        Item(
            id=f"ctol/fig{number}",
            title=f"completion by {what}",
            caption="Until the last live node holds the eventual leader, tentative or not; 'finally' waits for its "
            "confirmation, which the paper does not have.",
            tasks=tasks_of(axis),
            outcome=partial(_completion, axis),
        )
        for number, what, axis in ((6, "topology", BY_GROUND), (7, "loss", BY_DROP), (8, "size", BY_SIZE))
    ),
    Item(
        id="ctol/fig9",
        title="leaders told per election",
        caption="LEADERs from another leader than the one before; the first counts.",
        tasks=tasks_of(BY_DROP),
        outcome=_changes,
    ),
    Item(
        id="ctol/fig10",
        title="how healthy the leader is",
        caption="0 is the most unhealthy node of the system, by suspicions summed over all views.",
        tasks=tasks_of(BY_DROP),
        outcome=_health,
    ),
    Item(
        id="ctol/fig11",
        title="the leader's hash rank",
        caption="0 is the lowest hash. 'top exclusion': the y greatest sums are excluded, as in the authors' figures.",
        tasks=(*tasks_of(BY_DROP), *_top_tasks()),
        outcome=_hash,
    ),
)
