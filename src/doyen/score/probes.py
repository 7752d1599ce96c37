"""What a node can measure of itself, and the quality that follows from it.  [MADM §6.2]

    CPU capacity, free memory, battery      read from the kernel's files
    failure rate                            failures per hour of what was watched, counted by whoever watches
    degree, closeness, eccentricity         from the graph, within the region that is reachable
    security level, anything else           set by the user, or any callable

A `Probe` is any callable that gives a number; a `Rating` joins probes and attributes (with their bounds and weights)
to a quality factor, which is a standing: greater is better, in any election.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Final, TypeAlias

from doyen.core.order import order
from doyen.core.rank import Standing
from doyen.errors import ConfigError
from doyen.score.topsis import Attribute, Quality, checked, quality

Probe: TypeAlias = Callable[[], float]
Graph: TypeAlias = Mapping[str, Iterable[str]]  # Neighbours by node; a node that is not a key has none of its own.

log = logging.getLogger("doyen")

PROC: Final = Path("/proc")
BATTERIES: Final = Path("/sys/class/power_supply")


class Unmeasured(Exception):
    """This machine does not tell.  A `Rating` counts the attribute's worst value, and says so."""


class Rating:
    """Probes and attributes, joined: what `quality()` gives is a standing."""

    def __init__(self, attributes: Sequence[Attribute], probes: Mapping[str, Probe]) -> None:
        self.attributes = checked(attributes, "rating")
        for attribute in attributes:
            if attribute.name not in probes:
                raise ConfigError(f"rating: attribute {attribute.name!r} has no probe: one of {', '.join(probes)}")
        self.probes = dict(probes)

    def measure(self) -> tuple[dict[str, float], tuple[str, ...]]:
        """All values, and the names of those that could not be measured and count as the worst."""
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

    def quality(self) -> Quality:
        return quality(self.measure()[0], self.attributes)

    def __call__(self) -> Standing:
        """As a score oracle."""
        return self.quality().value


# Of the machine.


def cpu_capacity_ghz(proc: Path = PROC) -> float:
    """The clock rate of the fastest core, as the chapter measures it."""
    rates = _fields(proc / "cpuinfo", "cpu MHz")
    if not rates:
        raise Unmeasured(f"{proc}/cpuinfo names no clock rate")
    return max(rates) / 1000.0


def memory_free_gib(proc: Path = PROC) -> float:
    """What could be used without swapping."""
    found = _fields(proc / "meminfo", "MemAvailable")
    if not found:
        raise Unmeasured(f"{proc}/meminfo names no available memory")
    return found[0] / 2**20


def load_per_core(proc: Path = PROC) -> float:
    """Processes that want a core, on average over a minute, for each core that there is."""
    try:
        load = float((proc / "loadavg").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        raise Unmeasured(f"{proc}/loadavg tells no load") from None
    return load / max(1, len(_fields(proc / "cpuinfo", "processor")))


def battery_share(supplies: Path = BATTERIES) -> float:
    """What is left of the fullest battery, from 0 to 1; on the mains alone it is 1."""
    shares = []
    for path in sorted(supplies.glob("*/capacity")):
        try:
            shares.append(float(path.read_text()) / 100.0)
        except (OSError, ValueError):
            continue
    return max(shares, default=1.0)


def fixed(value: float) -> Probe:
    """What only a person knows: a security level, a preference."""
    return lambda: value


def _fields(path: Path, name: str) -> list[float]:
    """Numbers of the lines `name: number …`."""
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


class FailureRate:
    """Failures per hour watched.  Whoever watches (a supervisor, a membership) tells it; it has no clock."""

    def __init__(self) -> None:
        self.failure_count = 0
        self.watched_s = 0.0

    def watched(self, span_s: float, failures: int = 0) -> None:
        if not (span_s >= 0 and failures >= 0):
            raise ConfigError(f"watched for {span_s} s, {failures} failures: both must be 0 or more")
        self.watched_s += span_s
        self.failure_count += failures

    def __call__(self) -> float:
        if self.watched_s == 0:
            raise Unmeasured("nothing was watched yet")
        return self.failure_count / (self.watched_s / 3600.0)


# Of the graph.


def distances(graph: Graph, node: str) -> dict[str, int]:
    """Hops to every node of the region, itself included."""
    found, edge = {node: 0}, [node]
    while edge:
        further = []
        for at in edge:
            for other in graph.get(at, ()):
                if other not in found:
                    found[other] = found[at] + 1
                    further.append(other)
        edge = further
    return found


def regions(graph: Graph) -> list[list[str]]:
    """Who can reach whom: members in order, the region of the lowest name first."""
    found: list[list[str]] = []
    seen: set[str] = set()
    for node in sorted(graph, key=order):
        if node not in seen:
            found.append(sorted(distances(graph, node), key=order))
            seen.update(found[-1])
    return found


def degree(graph: Graph, node: str) -> int:
    return len(set(graph.get(node, ())))


def closeness(graph: Graph, node: str) -> float:
    """(N − 1)/Σ hop distances within the region; a node alone is as close to everybody as can be: 1."""
    hops = distances(graph, node)
    return (len(hops) - 1) / sum(hops.values()) if len(hops) > 1 else 1.0


def eccentricity(graph: Graph, node: str) -> int:
    """Hops to the farthest node of the region."""
    return max(distances(graph, node).values())


def modification_time(graph: Graph, leader: str, hop: float = 1.0) -> float:
    """[MADM §6.3] Lock, response, modify, completion, unlock: five sweeps to or from the farthest server."""
    return 5 * eccentricity(graph, leader) * hop
