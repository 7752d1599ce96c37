"""Figures that every comparison shows: the cost while nothing happens, takeovers, ratios with their spread."""

from collections.abc import Sequence
from statistics import fmean, median
from typing import Literal

from msgspec import Struct

from doyen_lab.mesh import HopCounters
from doyen_lab.netns import Counters
from doyen_lab.usage import Mean, Sample

Fault = Literal["kill", "cut"]
Sort = Literal["servers", "clients", "members"]
FAULTS: tuple[Fault, ...] = ("kill", "cut")
BLOCKS = 5  # The number of parts of the measured time, for the spread of ratios.


class MeasuredProcess(Struct, frozen=True, kw_only=True):
    """One process, alone in its namespace; counters since the namespace was made."""

    system: str
    name: str
    pid: int
    namespace: str
    namespace_inode: int
    interface: str
    address: str
    counters: Counters


class Idle(Struct, frozen=True, kw_only=True):
    """All processes of a system together, servers included, while nothing happens."""

    seconds: float
    bytes_per_s: Mean
    packets_per_s: Mean
    cpu_percent: Mean
    rss_each: Mean
    pss_each: Mean

    @classmethod
    def of(cls, samples: Sequence[Sample], seconds: float) -> "Idle":
        return cls(seconds=seconds, **_means(samples))


class IdleOnMesh(Idle, frozen=True, kw_only=True):
    hop_bytes_per_s: float  # IP bytes on all links of the mesh: a packet over three hops counts three times.

    @classmethod
    def on_links(cls, samples: Sequence[Sample], seconds: float, hops: HopCounters) -> "IdleOnMesh":
        return cls(seconds=seconds, hop_bytes_per_s=hops.bytes / seconds, **_means(samples))


def _means(samples: Sequence[Sample]) -> dict[str, Mean]:
    names = Idle.__struct_fields__[1:]
    return {name: Mean.of([getattr(sample, name) for sample in samples]) for name in names}


class Takeovers(Struct, frozen=True, kw_only=True):
    """The times for which a system was without a leader, fault by fault."""

    seconds: list[float]
    median_s: float | None
    never: int  # Faults after which there was no agreement, or no recovery, in time.

    @classmethod
    def of(cls, found: Sequence[float | None]) -> "Takeovers":
        taken = [value for value in found if value is not None]
        return cls(seconds=taken, median_s=median_of(taken), never=len(found) - len(taken))


class Ratio(Struct, frozen=True):
    """One quantity of two systems, and between which bounds it lay."""

    ratio: float
    low: float
    high: float


def block_ratio(ours: Sequence[Sample], theirs: Sequence[Sample], name: str) -> Ratio:
    """Return the ratio of the means, with the least and greatest of the same over parts of the time."""

    def mean(samples: Sequence[Sample]) -> float:
        return fmean(getattr(sample, name) for sample in samples)

    count = min(len(ours), len(theirs))
    size = max(1, count // BLOCKS)
    blocks = [slice(at, at + size) for at in range(0, count - size + 1, size)]
    each = [mean(ours[block]) / max(mean(theirs[block]), 1e-12) for block in blocks]
    return Ratio(mean(ours) / max(mean(theirs), 1e-12), min(each), max(each))


def takeover_ratio(ours: Sequence[float], theirs: Sequence[float], scale: float = 1.0) -> Ratio:
    """Return the ratio of the medians, with that of our best by their worst, and of our worst by their best."""
    return Ratio(
        median(ours) / median(theirs) * scale, min(ours) / max(theirs) * scale, max(ours) / min(theirs) * scale
    )


def median_of(values: Sequence[float]) -> float | None:
    """Return the median, or None where there is nothing."""
    return median(values) if values else None
