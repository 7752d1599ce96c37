"""Cells and curves made of figures: what all papers share."""

from collections.abc import Mapping, Sequence
from math import hypot
from typing import Any

from msgspec import Struct

from doyen.sim.runs import Figure, figure
from doyen_papers.papers.item import Curve, Measured

Point = Figure | Measured | None  # Whatever has a mean and a standard error.


class Outcomes(Struct, frozen=True):
    """Figures by name, over the runs."""

    runs: int
    of: dict[str, Figure | None]


def outcomes(rows: Sequence[Mapping[str, float | None]]) -> Outcomes:
    """Return the figures of rows that all have the same columns."""
    return Outcomes(len(rows), {name: figure(row[name] for row in rows) for name in rows[0]})


def measured(where: str, found: Point, **more: Any) -> Measured:
    return Measured(where=where, mean=found.mean if found else None, stderr=found.stderr if found else None, **more)


def cell(where: str, found: Outcomes, name: str, **more: Any) -> Measured:
    return measured(where, found.of[name], **({"note": f"{name}, {found.runs} runs"} | more))


def numbers(values: Mapping[str, float | None], **more: Any) -> list[Measured]:
    """Return a cell per number: none of them has a standard error."""
    return [Measured(where=where, mean=value, **more) for where, value in values.items()]


def ratio(where: str, a: Figure | None, b: Figure | None, *, less: float = 0.0, **more: Any) -> Measured:
    """Return a/b − less, with its standard error."""
    if a is None or b is None or not b.mean:
        return Measured(where=where, mean=None, **more)
    value = a.mean / b.mean
    error = abs(value) * hypot((a.stderr or 0.0) / a.mean if a.mean else 0.0, (b.stderr or 0.0) / b.mean)
    return Measured(where=where, mean=value - less, stderr=error, **more)


def gain(where: str, quick: Figure | None, slow: Figure | None) -> Measured:
    """Return 1 − quick/slow, with its standard error."""
    found = ratio(where, quick, slow)
    return Measured(where=where, mean=None if found.mean is None else 1 - found.mean, stderr=found.stderr)


def difference(where: str, a: Point, b: Point, **more: Any) -> Measured:
    """Return a − b of independent measurements, with its standard error."""
    if a is None or b is None or a.mean is None or b.mean is None:
        return Measured(where=where, mean=None)
    return Measured(where=where, mean=a.mean - b.mean, stderr=hypot(a.stderr or 0.0, b.stderr or 0.0), **more)


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
