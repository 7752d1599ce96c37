"""Lines for people: what happened, and colour where it carries meaning."""

import logging
import os
from typing import Any, Final, TextIO

from doyen.core.plain import plain
from doyen.node.reign import clock_text

GOOD: Final = "32"  # Green: it leads.
CARE: Final = "33"  # Yellow: look here.
BAD: Final = "31"  # Red: it is gone, or wrong.

TONES: Final = {
    "elected": GOOD,
    "failed": BAD,
    **dict.fromkeys(("lost", "accused", "suspected", "shortage", "waiting", "alone", "differs", "warning"), CARE),
}
STATES: Final = {"suspected": CARE, "failed": BAD, "dead": BAD}  # The tones of members' states.


def has_colour(stream: TextIO) -> bool:
    """Return whether text on that stream may be coloured: on a terminal that can, unless NO_COLOR is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def paint(text: str, tone: str, stream: TextIO) -> str:
    """Return the text in that tone where the stream takes colour; `tone` may be empty."""
    return f"\x1b[{tone}m{text}\x1b[0m" if tone and has_colour(stream) else text


def event_line(event: dict[str, Any], stream: TextIO) -> str:
    """Return one event of a node, as its JSON has it, as a line."""
    kind = event["kind"]
    parts = [event.get("member") or ""]
    if kind in ("elected", "lost"):
        which = f"{event['election']}: " if event.get("election") else ""
        parts = [f"{which}{event['leader']} (term {event['term']})"]
    if kind == "accused":
        parts.append(f"by {', '.join(event.get('by', ()))}")
    parts.append(event.get("reason") or "")
    if event.get("dropped"):
        parts.append(f"{event['dropped']} events before it were dropped")
    return dated_line(event["at"], kind, " · ".join(filter(None, parts)), stream)


def dated_line(at: float, kind: str, text: str, stream: TextIO) -> str:
    return f" {clock_text(at)}  {paint(f'{kind:9}', TONES.get(kind, ''), stream)} {plain(text)}".rstrip()


class WarningLines(logging.StreamHandler[TextIO]):
    """Writes warnings as lines among those of events."""

    def format(self, record: logging.LogRecord) -> str:
        return dated_line(record.created, "warning", record.getMessage(), self.stream)
