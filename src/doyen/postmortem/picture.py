"""The data that a file about an incident shows, wherever it comes from: recordings or a simulation."""

from typing import Final

from msgspec import Struct

from doyen.eyes.lanes import Lanes
from doyen.postmortem.verdict import Verdict

ARROWS_MAX: Final = 10_000


class Said(Struct, frozen=True, omit_defaults=True):
    """The answer of `explain` on one lane, from that instant on."""

    lane: str
    at: float
    sentence: str
    lines: tuple[tuple[str, str], ...] = ()


class ClockOf(Struct, frozen=True, kw_only=True):
    """One recording, and how well its clock is known."""

    node: str
    path: str
    doyen: str
    inputs: int
    begin: float
    end: float
    error_s: float | None  # None: no messages tell, so its wall clock was taken.
    wall_off_s: float  # By how much its wall clock is ahead of the common one.
    contradicts_s: float = 0.0  # By how much its messages contradict each other: its clock was set, or runs badly.


class Incident(Struct, frozen=True, kw_only=True):
    """All that a file shows."""

    title: str
    source: str  # recordings, or simulation
    verdicts: tuple[Verdict, ...]
    lanes: Lanes
    said: tuple[Said, ...]
    clocks: tuple[ClockOf, ...] = ()
    notes: tuple[str, ...] = ()  # What a reader ought to know.
