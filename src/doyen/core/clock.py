"""Time as protocols see it: whole nanoseconds, so that equal instants are equal on every machine."""

import re
from math import isfinite, isinf, isnan
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from doyen.errors import ConfigError

Instant: TypeAlias = int  # Nanoseconds on one node's own clock; only differences mean anything elsewhere.
Duration: TypeAlias = Annotated[int, Meta(extra={"unit": "duration"})]  # Nanoseconds; read and written as `200ms`.

FOREVER: Final[Duration] = 2**62  # Far enough that adding it to an instant stays in 64 bits.
NEVER: Final[Instant] = 2**61  # From here on nothing is scheduled: any clock's now + FOREVER is beyond.

_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "min": 60 * 10**9,
}
_UNITS["h"] = 3600 * 10**9
_TEXT: Final = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(ns|us|µs|ms|s|min|m|h)?\s*", re.ASCII)


def ms(count: float) -> Duration:
    return round(count * 1_000_000)


def seconds(count: float) -> Duration:
    """Return that number of seconds in nanoseconds; infinity is `FOREVER`."""
    return FOREVER if isinf(count) and count > 0 else round(count * 1_000_000_000)


def to_seconds(duration: Duration) -> float:
    return float("inf") if duration >= FOREVER else duration / 1_000_000_000


def parse_duration(text: str | float) -> Duration:
    """Reads `200ms`, `1.5s`, `2min`, `inf`; a bare number means seconds."""
    if not isinstance(text, str):
        text = f"{text:.12f}" if isinstance(text, float) and "e" in repr(text) else repr(text)
    if text.strip().lower() in ("inf", "forever"):
        return FOREVER
    found = _TEXT.fullmatch(text)
    if not found:
        raise ConfigError(f"{text!r} is not a duration: give a number and a unit, e.g. 200ms, 1.5s, 2min, or inf")
    number, unit = float(found[1]), _UNITS[found[2] or "s"]
    duration = number * unit
    if isnan(duration) or not isfinite(duration) or duration >= FOREVER:
        raise ConfigError(f"{text!r} is too long a duration: the longest is {FOREVER // 10**9} s; say inf for no limit")
    return round(duration)


def at_most(duration: Duration) -> str:
    """Return a bound for people: in whole milliseconds, and never below what it is."""
    return format_duration(ms(-(-duration // 1_000_000)) if duration < FOREVER else duration)


def format_duration(duration: Duration) -> str:
    """The shortest spelling a person would use, and `parse_duration` reads back."""
    if duration >= FOREVER:
        return "inf"
    for unit in ("h", "min", "s", "ms", "us"):
        size = _UNITS[unit]
        if duration >= size and (duration % size == 0 or unit in ("s", "ms", "us")):
            return f"{duration / size:.9f}".rstrip("0").rstrip(".") + unit
    return f"{duration}ns"
