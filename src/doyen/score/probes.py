"""Probes measure a node itself, and a rating makes one number of them.  [MADM §6.2]

    CPU capacity, free memory, load, battery    read from the kernel's files
    security level, anything else               set by the user, or any callable

A `Probe` is any callable that gives a number; a `Rating` joins probes and attributes (with their bounds and weights)
to a quality factor, which is a standing: greater is better, in any election.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Final, TypeAlias

from doyen.core.rank import Standing
from doyen.errors import ConfigError
from doyen.score.topsis import Attribute, checked, quality

Probe: TypeAlias = Callable[[], float]

log = logging.getLogger("doyen")

PROC: Final = Path("/proc")
BATTERIES: Final = Path("/sys/class/power_supply")


class Unmeasured(Exception):
    """This machine cannot be measured: a `Rating` then counts the attribute's worst value, and says so."""


class Rating:
    """Joins probes and attributes; what a call gives is a standing: greater is better."""

    def __init__(self, attributes: Sequence[Attribute], probes: Mapping[str, Probe]) -> None:
        self.attributes = checked(attributes, "rating")
        for attribute in attributes:
            if attribute.name not in probes:
                raise ConfigError(f"rating: attribute {attribute.name!r} has no probe: one of {', '.join(probes)}")
        self.probes = dict(probes)

    def measure(self) -> tuple[dict[str, float], tuple[str, ...]]:
        """Return all values, and the names of those that could not be measured and count as the worst."""
        values, missing = {}, []
        for attribute in self.attributes:
            try:
                value = float(self.probes[attribute.name]())
                if not isfinite(value):
                    raise Unmeasured(f"{attribute.name} is {value}")
            except Exception as error:  # An election must not stop for a probe's mistake.
                if not isinstance(error, Unmeasured):
                    log.exception("the probe of %s failed: its worst value counts", attribute.name)
                missing.append(attribute.name)
                value = attribute.min if attribute.kind == "benefit" else attribute.max
            values[attribute.name] = value
        return values, tuple(missing)

    def __call__(self) -> Standing:
        """Measure, and return the quality factor."""
        return quality(self.measure()[0], self.attributes).value


# Of the machine.


def cpu_capacity_ghz(proc: Path = PROC) -> float:
    """Return the clock rate of the fastest core, as the chapter measures it."""
    rates = _fields(proc / "cpuinfo", "cpu MHz")
    if not rates:
        raise Unmeasured(f"{proc}/cpuinfo names no clock rate")
    return max(rates) / 1000.0


def memory_free_gib(proc: Path = PROC) -> float:
    """Return the memory that could be used without swapping."""
    found = _fields(proc / "meminfo", "MemAvailable")
    if not found:
        raise Unmeasured(f"{proc}/meminfo names no available memory")
    return found[0] / 2**20


def load_per_core(proc: Path = PROC) -> float:
    """Return how many processes want a core, on average over a minute, for each core that there is."""
    try:
        load = float((proc / "loadavg").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        raise Unmeasured(f"{proc}/loadavg tells no load") from None
    return load / max(1, len(_fields(proc / "cpuinfo", "processor")))


def battery_share(supplies: Path = BATTERIES) -> float:
    """Return the charge of the fullest battery, from 0 to 1; a machine without a battery counts as 1."""
    shares = []
    for path in sorted(supplies.glob("*/capacity")):
        try:
            shares.append(float(path.read_text()) / 100.0)
        except (OSError, ValueError):
            continue
    return max(shares, default=1.0)


def fixed(value: float) -> Probe:
    """Return a probe that always gives this value, for what only a person knows: a security level, a preference."""
    return lambda: value


def _fields(path: Path, name: str) -> list[float]:
    """Return the numbers of the lines `name: number …`."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    found = []
    for line in lines:
        key, _, rest = line.partition(":")
        if key.strip() == name and rest.split():
            try:
                found.append(float(rest.split()[0]))
            except ValueError:
                continue
    return found
