"""Lanes and views as characters: what `doyen top` draws, without a terminal.

A picture is a list of lines, a line a list of (text, tone); tones are "good", "care", "bad", "faint", "strong" and "".
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from doyen.core.plain import plain

Line = list[tuple[str, str]]

SPANS: Final = {  # The character of a span, its tone, and its weight where several hold in one cell.
    "leads": ("█", "good", 5),
    "named": ("▒", "care", 4),
    "suspected": ("≈", "care", 3),
    "paused": ("=", "care", 3),
    "down": ("┄", "bad", 2),
    "left": ("·", "faint", 1),
}
MARKS: Final = {  # Those that are worth a character of their own, the heavier the later.
    "joined": ("●", "good"),
    "alive": ("●", "good"),
    "left": ("○", "faint"),
    "suspected": ("!", "care"),
    "resigned": ("◆", "care"),
    "lost": ("▼", "care"),
    "elected": ("▲", "strong"),
    "failed": ("╳", "bad"),
    "bad": ("╳", "bad"),
}
_WEIGHTS: Final = {kind: weight for weight, kind in enumerate(MARKS)}
STATES: Final = {"alive": "good", "suspected": "care", "unknown": "care", "failed": "bad", "left": "faint"}


def lanes(
    picture: Mapping[str, Any],
    begin: float,
    end: float,
    width: int,
    clock: Callable[[float, float], str],
    known: float | None = None,
) -> list[Line]:
    """Return the lanes of that time, below a line with the clock; `picture` is the JSON of `Lanes`.

    `known` is until when anything is known, if that is not the present: what lasts is drawn until then.
    """
    names = [plain(lane.get("label") or lane["id"]) for lane in picture["lanes"]]
    gutter = min(max(map(len, names), default=4), 16, width // 3) + 2
    room = max(10, width - gutter)
    per_s = room / max(end - begin, 1e-9)

    def column(at: float) -> int:
        return int((at - begin) * per_s)

    found = [_axis(begin, end, gutter, room, clock)]
    for lane, name in zip(picture["lanes"], names, strict=True):
        cells: list[tuple[str, str, int]] = [("─", "faint", 0)] * room
        for span in picture["spans"]:
            if span["lane"] != lane["id"]:
                continue
            sign, tone, weight = SPANS.get(span["kind"], ("-", "faint", 1))
            until = span.get("end")
            last = column((end if known is None else known) if until is None else until)
            for at in range(max(0, column(span["begin"])), min(room, max(last, column(span["begin"]) + 1))):
                if weight > cells[at][2]:
                    cells[at] = (sign, tone, weight)
        for mark in picture["marks"]:
            weight = 10 + _WEIGHTS.get(mark["kind"], -1)
            if mark.get("lane") == lane["id"] and mark["kind"] in MARKS and 0 <= (at := column(mark["at"])) < room:
                if weight > cells[at][2]:
                    cells[at] = (*MARKS[mark["kind"]], weight)
        found.append([(f"{name[: gutter - 2]:{gutter}}", ""), *_joined(cells)])
    return found


def _axis(begin: float, end: float, gutter: int, room: int, clock: Callable[[float, float], str]) -> Line:
    count = max(1, room // 14)
    step = (end - begin) / count
    text = ""
    for number in range(count):
        text = text.ljust(number * room // count) + clock(begin + number * step, step) + " "
    return [(" " * gutter, ""), (text[:room].ljust(room), "faint")]


def _joined(cells: Sequence[tuple[str, str, int]]) -> Line:
    """Return the cells as few runs of one tone each."""
    runs: Line = []
    for sign, tone, _ in cells:
        if runs and runs[-1][1] == tone:
            runs[-1] = (runs[-1][0] + sign, tone)
        else:
            runs.append((sign, tone))
    return runs


def matrix(rows: Sequence[Mapping[str, Any]], stale_s: float = 2.5) -> list[Line]:
    """Return who sees whom: a line per member."""
    names = sorted({row["name"] for row in rows} | {seen["name"] for row in rows for seen in row["seen"]})
    by = {row["name"]: row for row in rows}
    wide = min(max(map(len, names), default=4), 12)
    cell = 9 if len(names) <= 12 else 2
    heading: Line = [(" " * (2 * wide + 4), "")]
    heading += [(f"{plain(name)[: cell - 1]:{cell}}", "strong") for name in names]
    found = [heading]
    for name in names:
        row = by.get(name)
        age = None if row is None else row["age_s"]
        asking = row is not None and row.get("asking", False)
        stale = age is None or age > stale_s or asking or (row is not None and row.get("gone", False))
        named = (
            "…"
            if asking
            else "no answer"
            if row is None or age is None
            else (row["leader"] or "nobody")
            if not stale
            else f"{age:.0f} s old"
        )
        line: Line = [(f"{plain(name)[:wide]:{wide}}  ", "strong"), (f"{plain(named)[:wide]:{wide}}  ", "faint")]
        seen = {} if row is None else {each["name"]: each for each in row["seen"]}
        for other in names:
            line.append(_cell(name == other, seen.get(other), stale, cell))
        found.append(line)
    return found


def _cell(itself: bool, seen: Mapping[str, Any] | None, stale: bool, wide: int) -> tuple[str, str]:
    if itself:
        return "·".ljust(wide), "faint"
    if seen is None:
        return ("?" if stale else "–").ljust(wide), "faint"
    state, trip = str(seen["state"]), seen["rtt_s"]
    text = {"alive": "ok"}.get(state, plain(state))
    if state == "alive" and trip is not None:
        text = f"{trip * 1000:.1f} ms"
    if wide < 5:
        text = {"alive": "✓", "suspected": "?", "failed": "✕", "left": "○"}.get(state, "…")
    return text[: wide - 1].ljust(wide), "faint" if stale else STATES.get(state, "")


def sides(rows: Sequence[Mapping[str, Any]], stale_s: float = 2.5, *, strong: bool = False) -> tuple[str, str]:
    """Return in a sentence whether all that answer agree, and its tone; `strong`: nobody leads without a majority."""
    answering: dict[str, list[str]] = {}
    last: dict[str, list[str]] = {}  # Whom those that cannot be asked named when they were last heard.
    never, asking = [], []
    for row in rows:
        name, leader, age = row["name"], row["leader"] or "nobody", row["age_s"]
        if row.get("asking"):
            asking.append(name)
        elif age is None:
            never.append(name)
        elif age > stale_s or row.get("gone"):
            last.setdefault(leader, []).append(f"{name} ({age:.0f} s ago)")
        else:
            answering.setdefault(leader, []).append(name)
    silent = [f"{', '.join(who)} last named {leader}" for leader, who in last.items()]
    silent += [f"{', '.join(never)} never answered"] if never else []
    other = "only a side with a majority of the voters has a leader"
    other = other if strong else "members there may see another leader"
    gone = f" Cannot be asked now: {'; '.join(silent)}; {other}." if silent else ""
    gone += f" Asking {', '.join(asking)} …" if asking else ""
    if len(answering) > 1:
        words = "; ".join(f"{', '.join(who)} names {leader}" for leader, who in answering.items())
        return plain(f"Views differ: {words}.{gone}"), "bad"
    return plain(f"All that answer agree: {next(iter(answering), 'nobody')} leads.{gone}"), "care" if gone else "good"
