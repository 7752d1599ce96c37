"""A cell is in band, a miss, or beyond the paper."""

from math import hypot, isfinite
from typing import Any, Final, Literal

from msgspec import Struct

from doyen.errors import ConfigError
from doyen_papers.papers.expected import Expect
from doyen_papers.papers.item import Measured

Verdict = Literal["in band", "miss", "beyond the paper"]

SIGMAS: Final = 3.5
# The tolerance of the other kinds grows with the standard errors.
_FIXED: Final = ("published", "inferred", "bound", "least")
_ROUNDING: Final = 1e-9  # Relative: a mean of equal numbers need not equal them to the last bit.


class Cell(Struct, frozen=True, kw_only=True):
    """One judged number; these are the cells of results.json.  Times are seconds."""

    where: str
    curve: str
    x: float | None  #: N, for the figures of [LE].
    kind: str | None  #: How it was judged (see expected.toml); null beyond the paper.
    published: float | None  #: As the paper prints it; null if it prints no such number.
    expected: float | None  #: What ours was held against.
    ours: float | None  #: null: it never happened.
    stderr: float | None
    tolerance: float | None  #: How far ours might be from `expected`, standard errors included.
    verdict: Verdict
    edge: bool  #: The band ends so close to ours that another seed may turn the verdict.
    explained: str  #: Why a miss was to be expected; known before the run.
    afterwards: str  #: Why it missed; found out later.
    shown_by: str  #: The item and the cell that show why.
    reason: str
    source: str
    says: str
    unit: str
    note: str
    setting: dict[str, Any]
    command: str


def judge(measured: Measured, expect: Expect | None) -> Cell:
    """Return the cell of a measured number, held against its expectation."""
    value = tolerance = published = None
    verdict: Verdict = "beyond the paper"
    edge = False
    if expect is not None:
        value = measured.formula if expect.value is None else expect.value
        published = expect.published
        if value is None:
            raise ConfigError(f"expected.toml: {expect.item}, {measured.where}: no value, and no closed form beside it")
        tolerance = _tolerance(expect, measured)
        shown = _is_shown(expect.kind, measured.stderr, tolerance)
        verdict = "in band" if shown and _in_band(expect.kind, measured.mean, value, tolerance) else "miss"
        edge = shown and _is_at_edge(expect.kind, measured, value, tolerance)
    return Cell(
        where=measured.where,
        curve=measured.curve,
        x=measured.x,
        kind=expect.kind if expect else None,
        published=published,
        expected=value,
        ours=measured.mean,
        stderr=measured.stderr,
        tolerance=tolerance,
        verdict=verdict,
        edge=edge,
        explained=expect.explained if expect else "",
        afterwards=expect.afterwards if expect else "",
        shown_by=expect.shown_by if expect else "",
        reason=expect.reason if expect else "",
        source=expect.source if expect else "",
        says=expect.says if expect else "",
        unit=measured.unit,
        note=measured.note,
        setting=measured.setting,
        command=measured.command,
    )


def _is_shown(kind: str, stderr: float | None, tolerance: float) -> bool:
    """Return whether a number is known well enough to be said to hold; else it is a miss, wherever its mean lies."""
    if kind == "claim":
        return stderr is not None
    return kind not in ("published", "inferred") or (stderr or 0.0) <= tolerance


def _tolerance(expect: Expect, measured: Measured) -> float:
    if expect.kind in _FIXED:
        return expect.tolerance
    return SIGMAS * hypot(measured.stderr or 0.0, expect.stderr) + expect.tolerance


def _in_band(kind: str, ours: float | None, value: float, tolerance: float) -> bool:
    if ours is None or not isfinite(ours):
        return False
    slack = _ROUNDING * max(1.0, abs(value))
    if kind == "claim":
        return ours - tolerance > value + slack
    if kind == "bound":
        return ours <= value + slack
    if kind == "least":
        return ours >= value - slack
    return abs(ours - value) <= tolerance + slack


def _is_at_edge(kind: str, measured: Measured, value: float, tolerance: float) -> bool:
    """Return whether the verdict would be another one if ours were off by two standard errors; it changes none.

    Where the tolerance has 3.5 of them in it already: by one more.
    """
    mean, off = measured.mean, (measured.stderr or 0.0) * (2 if kind in _FIXED else 1)
    if mean is None:
        return False
    return len({_in_band(kind, ours, value, tolerance) for ours in (mean - off, mean, mean + off)}) > 1
