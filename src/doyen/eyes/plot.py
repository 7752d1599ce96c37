"""Draws numbers as one SVG: lines, steps and points on two axes, without a package and without a script.

plot = Plot("takeovers", "seconds", "share of takeovers")
plot.steps("quorum", shares([0.9, 1.1, 1.0]))
plot.point("yours", 1.0, 0.5)
plot.svg()
"""

from collections.abc import Iterable, Sequence
from html import escape
from math import floor, isfinite, log10
from typing import Final

from msgspec import Struct

Points = Sequence[tuple[float, float]]

WIDTH: Final = 720.0
HEIGHT: Final = 420.0
LEFT: Final = 78.0
RIGHT: Final = 20.0
TOP: Final = 52.0
BOTTOM: Final = 56.0
COLOURS: Final = ("#1a56c4", "#1f7a46", "#b3261e", "#8a6d00", "#7a5bb5", "#0b7285")
_TICKS: Final = 6


class Line(Struct, frozen=True):
    """One line, or one point."""

    name: str
    points: tuple[tuple[float, float], ...]
    kind: str  # line, steps or point


class Plot:
    """A picture of numbers; what is not finite is left out.

    An axis of powers of ten has no 0: a line leaves it out, and a point stands on the lower edge and is named so.
    """

    def __init__(self, title: str, x: str, y: str, *, y_powers: bool = False) -> None:
        self.title, self.x, self.y, self.y_powers = title, x, y, y_powers
        self.lines: list[Line] = []

    def line(self, name: str, points: Points) -> None:
        self._add(name, points, "line")

    def steps(self, name: str, points: Points) -> None:
        self._add(name, points, "steps")

    def point(self, name: str, x: float, y: float) -> None:
        self._add(name, [(x, y)], "point")

    def _add(self, name: str, points: Points, kind: str) -> None:
        kept = tuple((x, y) for x, y in points if isfinite(x) and isfinite(y))
        if self.y_powers and kind == "point" and kept and kept[0][1] <= 0:
            name = f"{name} (0)"
        elif self.y_powers:
            kept = tuple((x, y) for x, y in kept if y > 0)
        if kept:
            self.lines.append(Line(name, kept, kind))

    def svg(self) -> str:
        """Return the picture."""
        xs = [x for line in self.lines for x, _ in line.points] or [0.0, 1.0]
        ys = [self._height(y) for line in self.lines for _, y in line.points if y > 0 or not self.y_powers] or [
            0.0,
            1.0,
        ]
        x_ticks, y_ticks = _ticks(min(xs), max(xs)), _ticks(*self._range(ys))
        left, right, low, high = x_ticks[0], x_ticks[-1], y_ticks[0], y_ticks[-1]
        more = 17 * max(0, len(self.lines) - 2)  # The names of the lines stand above, and the picture grows with them.
        top, height = TOP + more, HEIGHT + more

        def at(x: float, y: float) -> tuple[float, float]:
            across = (x - left) / (right - left)
            up = (y - low) / (high - low)
            return LEFT + across * (WIDTH - LEFT - RIGHT), height - BOTTOM - up * (height - top - BOTTOM)

        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {height:.0f}" font-family="sans-serif" '
            f'font-size="13" role="img"><title>{escape(self.title)}</title>',
            '<rect width="100%" height="100%" fill="#fff"/>',
            f'<text x="12" y="22" font-size="15">{escape(self.title)}</text>',
        ]
        for tick in x_ticks:
            x, y = at(tick, low)
            parts.append(f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{y:.1f}" stroke="#e6e6e6"/>')
            parts.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{tick:g}</text>')
        for tick in y_ticks:
            x, y = at(left, tick)
            shown = f"{10**tick:.0e}" if self.y_powers else f"{tick:g}"
            parts.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#e6e6e6"/>')
            parts.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{shown}</text>')
        middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
        parts.append(f'<text x="{middle:.0f}" y="{height - 14:.0f}" text-anchor="middle">{escape(self.x)}</text>')
        parts.append(f'<text x="12" y="42" font-size="12">{escape(self.y)}</text>')
        for number, line in enumerate(self.lines):
            colour, dashes = COLOURS[number % len(COLOURS)], number // len(COLOURS)
            spots = [at(x, self._height(y) if y > 0 or not self.y_powers else low) for x, y in line.points]
            name = f"<title>{escape(line.name)}</title>"
            if line.kind == "point" or len(spots) == 1:
                x, y = spots[0]
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}">{name}</circle>')
                side, anchor = (9, "start") if x < middle else (-9, "end")
                parts.append(
                    f'<text x="{x + side:.1f}" y="{y - 8:.1f}" text-anchor="{anchor}" fill="{colour}">'
                    f"{escape(line.name)}</text>"
                )
            else:
                path = _path(spots, line.kind == "steps")
                dashed = f' stroke-dasharray="{9 - 2 * min(dashes, 4)} 3"' if dashes else ""  # Colours come again.
                parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashed}>{name}</path>')
            parts.append(
                f'<text x="{WIDTH - RIGHT:.0f}" y="{22 + 17 * number}" text-anchor="end" fill="{colour}">'
                f"{escape(line.name)}</text>"
            )
        return "\n".join([*parts, "</svg>", ""])

    def _height(self, y: float) -> float:
        return log10(y) if self.y_powers else y

    def _range(self, ys: list[float]) -> tuple[float, float]:
        return (floor(min(ys)), max(ys)) if self.y_powers else (min(0.0, *ys), max(ys))


def shares(values: Iterable[float]) -> list[tuple[float, float]]:
    """Return how large a share of the values is at most each of them, from none at the least of them on."""
    ordered = sorted(values)
    found = [(value, (number + 1) / len(ordered)) for number, value in enumerate(ordered)]
    return [(ordered[0], 0.0), *found] if found else []


def _path(spots: list[tuple[float, float]], steps: bool) -> str:
    words = [f"M{spots[0][0]:.1f} {spots[0][1]:.1f}"]
    for x, y in spots[1:]:
        words.append(f"H{x:.1f} V{y:.1f}" if steps else f"L{x:.1f} {y:.1f}")
    return " ".join(words)


def _ticks(least: float, most: float) -> list[float]:
    """Return round numbers from below the least to above the most."""
    if most <= least:
        least, most = least - 0.5, most + 0.5
    rough = (most - least) / _TICKS
    power = 10.0 ** floor(log10(rough))
    step = next(power * times for times in (1, 2, 5, 10) if power * times >= rough)
    first = floor(least / step)
    found = [first * step]
    while found[-1] < most - step * 1e-9:
        found.append((first + len(found)) * step)
    return [round(tick, 12) for tick in found]
