"""A lane picture of a run: one horizontal lane per node, time from left to right, as one SVG without a script.

    picture = Picture("two leaders at 4.2 s", ["a", "b"])
    picture.span("a", 0.1, 4.5, "leads", "a leads, term 1")      # a bar; kinds: leads, paused, down
    picture.mark("a", 4.2, "sent twice", bad=True)               # a point on a lane
    picture.arrow("a", "b", 1.00, 1.01, "Vote")                  # a message; heard_s=None: it was lost
    picture.svg()

Several things may overlap; what a person points at says what it is.
"""

from html import escape
from typing import Final, Literal

from msgspec import Struct

Kind = Literal["leads", "paused", "down"]

WIDTH: Final = 1000.0
LEFT: Final = 110.0
LANE: Final = 46.0
TOP: Final = 64.0
TICKS: Final = 10
_FILL: Final[dict[Kind, str]] = {"leads": "#2f7d4f", "paused": "#d9b44a", "down": "#c9c9c9"}


class Span(Struct, frozen=True):
    """A time in which something held for one node."""

    lane: str
    begin_s: float
    end_s: float
    kind: Kind
    label: str


class Mark(Struct, frozen=True):
    """Something that happened at one node, at one instant; on the lane "" it happened to all of them."""

    lane: str
    at_s: float
    label: str
    bad: bool = False


class Arrow(Struct, frozen=True):
    """A message from one node to another; without `heard_s` it was lost."""

    sender: str
    receiver: str
    sent_s: float
    heard_s: float | None
    label: str


class Picture:
    """One picture: its spans, marks and messages; lanes stand in the order given."""

    def __init__(self, title: str, lanes: list[str]) -> None:
        self.title, self.lanes = title, lanes
        self.spans: list[Span] = []
        self.marks: list[Mark] = []
        self.arrows: list[Arrow] = []

    def span(self, lane: str, begin_s: float, end_s: float, kind: Kind, label: str) -> None:
        self.spans.append(Span(lane, begin_s, end_s, kind, label))

    def mark(self, lane: str, at_s: float, label: str, *, bad: bool = False) -> None:
        self.marks.append(Mark(lane, at_s, label, bad))

    def arrow(self, sender: str, receiver: str, sent_s: float, heard_s: float | None, label: str) -> None:
        self.arrows.append(Arrow(sender, receiver, sent_s, heard_s, label))

    def svg(self, begin_s: float | None = None, end_s: float | None = None) -> str:
        """Return the picture of that time, by default of all that is in it."""
        instants = [t for span in self.spans for t in (span.begin_s, span.end_s)] + [m.at_s for m in self.marks]
        instants += [arrow.sent_s for arrow in self.arrows] + [a.heard_s for a in self.arrows if a.heard_s is not None]
        begin = min(instants, default=0.0) if begin_s is None else begin_s
        end = max(instants, default=1.0) if end_s is None else end_s
        scale = (WIDTH - LEFT - 20) / max(end - begin, 1e-9)
        rows = {lane: TOP + LANE * number for number, lane in enumerate(self.lanes)}
        bottom = TOP + LANE * len(self.lanes)

        def x(at_s: float) -> float:
            return LEFT + (min(max(at_s, begin), end) - begin) * scale

        def shown(at_s: float) -> bool:
            return begin <= at_s <= end

        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {bottom + 30:.0f}" '
            'font-family="sans-serif" font-size="13">',
            f"<title>{escape(self.title)}</title>",
            '<rect width="100%" height="100%" fill="#fff"/>',
            f'<text x="10" y="24" font-size="16">{escape(self.title)}</text>',
        ]
        for tick in range(TICKS + 1):
            at_s = begin + (end - begin) * tick / TICKS
            parts.append(_line(x(at_s), TOP - 18, x(at_s), bottom, "#e6e6e6"))
            parts.append(f'<text x="{x(at_s):.1f}" y="{bottom + 18:.1f}" text-anchor="middle">{at_s:.4g} s</text>')
        for lane, y in rows.items():
            parts.append(f'<text x="10" y="{y + 4:.1f}">{escape(lane)}</text>')
            parts.append(_line(LEFT, y, WIDTH - 20, y, "#888"))
        for span in self.spans:
            if span.lane in rows and span.end_s >= begin and span.begin_s <= end:
                left, y = x(span.begin_s), rows[span.lane]
                wide = max(x(span.end_s) - left, 1.0)
                parts.append(
                    f'<rect x="{left:.1f}" y="{y - 9:.1f}" width="{wide:.1f}" height="18" fill="{_FILL[span.kind]}" '
                    f'fill-opacity="0.85"><title>{escape(span.label)}: {span.begin_s:.6f} to {span.end_s:.6f} s'
                    "</title></rect>"
                )
        for arrow in self.arrows:
            if arrow.sender in rows and arrow.receiver in rows and shown(arrow.sent_s):
                y, lost = rows[arrow.sender], arrow.heard_s is None
                to = (y + rows[arrow.receiver]) / 2 if lost else rows[arrow.receiver]
                at_s = arrow.sent_s if arrow.heard_s is None else arrow.heard_s
                parts.append(
                    _line(x(arrow.sent_s), y, x(at_s), to, "#b03030" if lost else "#3465a4", arrow.label, lost)
                )
        for mark in self.marks:
            if shown(mark.at_s):
                colour, y = "#b03030" if mark.bad else "#333", rows.get(mark.lane, TOP - 18)
                parts.append(
                    f'<circle cx="{x(mark.at_s):.1f}" cy="{y:.1f}" r="4" fill="{colour}">'
                    f"<title>{escape(mark.label)}: {mark.at_s:.6f} s</title></circle>"
                )
                if mark.bad or mark.lane not in rows:
                    parts.append(
                        f'<text x="{x(mark.at_s) + 6:.1f}" y="{y - 11:.1f}" fill="{colour}" font-size="11">'
                        f"{escape(mark.label)}</text>"
                    )
        return "\n".join([*parts, "</svg>", ""])


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, label: str = "", lost: bool = False) -> str:
    dashed = ' stroke-dasharray="4 3"' if lost else ""
    ends = f"<title>{escape(label)}{', lost' if lost else ''}</title>" if label else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{dashed}>{ends}</line>'
        if ends
        else f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{dashed}/>'
    )
