"""Cells and curves made of figures: what all papers share."""

from collections.abc import Mapping, Sequence
from math import hypot
from typing import Any

from msgspec import Struct

from doyen.sim.runs import Figure, figure
from doyen_papers.papers.item import Curve, Measured

Point = Figure | Measured | None  # Whatever has a mean and a standard error.


class Outcomes(Struct, frozen=True):
    """Figures by name, over the runs, and the runs themselves: columns of one run belong together."""

    runs: int
    of: dict[str, Figure | None]
    columns: dict[str, list[float | None]] = {}
    why: str = ""  #: Why nothing was measured, if so.

    def pairs(self, a: str, b: str) -> list[tuple[float, float]]:
        """Return both values of each run that has both."""
        found = zip(self.columns[a], self.columns[b], strict=True)
        return [(x, y) for x, y in found if x is not None and y is not None]


def outcomes(rows: Sequence[Mapping[str, float | None]]) -> Outcomes:
    """Return the figures of rows that all have the same columns."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return Outcomes(len(rows), {name: figure(values) for name, values in columns.items()}, columns)


def measured(where: str, found: Point, **more: Any) -> Measured:
    return Measured(where=where, mean=found.mean if found else None, stderr=found.stderr if found else None, **more)


def cell(where: str, found: Outcomes, name: str, **more: Any) -> Measured:
    return measured(where, found.of[name], **({"note": f"{name}, {found.runs} runs"} | more))


def numbers(values: Mapping[str, float | None], **more: Any) -> list[Measured]:
    """Return a cell per number; there is no chance in any of them."""
    return [Measured(where=where, mean=value, stderr=0.0, **more) for where, value in values.items()]


def difference(where: str, a: Point, b: Point, **more: Any) -> Measured:
    """Return a − b of independent measurements, with its standard error if both have one."""
    if a is None or b is None or a.mean is None or b.mean is None:
        return Measured(where=where, mean=None)
    known = a.stderr is not None and b.stderr is not None
    error = hypot(a.stderr or 0.0, b.stderr or 0.0) if known else None
    return Measured(where=where, mean=a.mean - b.mean, stderr=error, **more)


def paired(where: str, found: Outcomes, a: str, b: str, **more: Any) -> Measured:
    """Return the mean of a − b within a run, with its standard error."""
    return measured(where, figure(x - y for x, y in found.pairs(a, b)), **more)


def paired_ratio(where: str, found: Outcomes, a: str, b: str, *, less: float = 0.0, **more: Any) -> Measured:
    """Return mean(a)/mean(b) − less of measurements that belong together run by run, with its standard error."""
    pairs = found.pairs(a, b)
    mean_a, mean_b = (sum(values) / len(values) for values in zip(*pairs, strict=True)) if pairs else (0.0, 0.0)
    if not mean_b:
        return Measured(where=where, mean=None, **more)
    value = mean_a / mean_b
    apart = figure(x - value * y for x, y in pairs)
    error = None if apart is None or apart.stderr is None else apart.stderr / abs(mean_b)
    return Measured(where=where, mean=value - less, stderr=error, **more)


def paired_gain(where: str, found: Outcomes, quick: str, slow: str) -> Measured:
    """Return 1 − quick/slow of measurements that belong together, with its standard error."""
    one = paired_ratio(where, found, quick, slow)
    return Measured(where=where, mean=None if one.mean is None else 1 - one.mean, stderr=one.stderr)


def curve(
    label: str, colour: int, xs: Sequence[float], found: Sequence[Point | float], *, legend: str = "", **more: Any
) -> Curve:
    """Return the curve through these points; a plain number has no standard error."""
    points = [Figure(float(one), None) if isinstance(one, float | int) else one for one in found]
    return Curve(
        label=label,
        legend=legend or label,
        colour=colour,
        xs=[float(x) for x in xs],
        ys=[point.mean if point else None for point in points],
        errors=[point.stderr if point else None for point in points],
        **more,
    )
