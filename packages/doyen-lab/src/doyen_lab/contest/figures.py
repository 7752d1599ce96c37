"""What a contest comes to: figures per system, ratios between systems, and the aims beside them.

Takeover × traffic is the price of a failover that does not change when timers are scaled: half the timeout costs twice
the heartbeats.  It is the median takeover in seconds by the bytes per second that all processes send while idle.
"""

from collections.abc import Sequence
from statistics import median

from msgspec import Struct

from doyen_lab.beside import Fault, Process, Ratio
from doyen_lab.usage import Mean, Sample

KILL_AIMS = {"unicast": 3.0, "multicast": 10.0}  # Theirs by ours, at least.
CUT_AIM, CUT_AIM_FROM = 3.0, 16  # From so many members on.
RSS_AIM = 26e6  # With a key and HTTP.


class Loss(Struct, frozen=True, kw_only=True):
    """One leader lost; times are from the fault."""

    fault: Fault
    member: str
    pid: int
    heir: str | None = None
    acts_s: float | None = None  # Until exactly one other acted, and went on to; None: never.
    known_s: float | None = None  # Until all others named it, where members say so.
    join_s: float | None = None  # Killed ones: from its new start until all took part under one leader again.


class Takeovers(Struct, frozen=True, kw_only=True):
    seconds: list[float]
    median_s: float | None
    known_median_s: float | None
    never: int

    @classmethod
    def of(cls, losses: Sequence[Loss]) -> "Takeovers":
        acts = [loss.acts_s for loss in losses if loss.acts_s is not None]
        known = [loss.known_s for loss in losses if loss.known_s is not None]
        return cls(
            seconds=acts,
            median_s=median(acts) if acts else None,
            known_median_s=median(known) if known else None,
            never=len(losses) - len(acts),
        )


class Idle(Struct, frozen=True, kw_only=True):
    """All processes together, servers included, while nothing happens."""

    seconds: float
    bytes_per_s: Mean
    packets_per_s: Mean
    cpu_percent: Mean
    rss_each: Mean
    pss_each: Mean

    @classmethod
    def of(cls, samples: Sequence[Sample], seconds: float) -> "Idle":
        names = cls.__struct_fields__[1:]
        return cls(seconds=seconds, **{name: Mean.of([getattr(s, name) for s in samples]) for name in names})


class Figures(Struct, frozen=True, kw_only=True):
    """One system at one size."""

    system: str
    nodes: int
    servers: int
    formed_s: float  # From the first member's start until all took part.
    idle: Idle
    kill: Takeovers
    cut: Takeovers
    join_s: float | None  # Median.
    losses: list[Loss]
    processes: list[Process]
    stopped: str = ""  # Why no further faults were tried.


class Absent(Struct, frozen=True, kw_only=True):
    """A system that could not be measured at this size, and why."""

    system: str
    nodes: int
    why: str


class Check(Struct, frozen=True, kw_only=True):
    """One figure beside its aim."""

    nodes: int
    system: str
    peer: str = ""
    what: str  # kill × traffic, cut × traffic, RSS, CPU
    value: float | None  # Of the first two: theirs by ours; None: somebody never took over.
    low: float | None = None  # Their best by our worst takeover.
    high: float | None = None
    aim: float | None = None  # None: published as it is.
    holds: bool | None = None


class Contest(Struct, frozen=True, kw_only=True):
    systems: list[Figures]
    absent: list[Absent]
    checks: list[Check]
    holds: bool


def price(takeovers: Takeovers, idle: Idle) -> float | None:
    """Takeover × traffic, in bytes."""
    return None if takeovers.median_s is None else takeovers.median_s * idle.bytes_per_s.mean


def price_ratio(ours: Figures, theirs: Figures, fault: Fault) -> Ratio | None:
    """Theirs by ours; the spread is that of single takeovers, at the mean traffic."""
    mine: Takeovers = getattr(ours, fault)
    other: Takeovers = getattr(theirs, fault)
    paid, asked = price(mine, ours.idle), price(other, theirs.idle)
    if not paid or asked is None:
        return None
    traffic = theirs.idle.bytes_per_s.mean / ours.idle.bytes_per_s.mean
    low = min(other.seconds) / max(mine.seconds) * traffic
    high = max(other.seconds) / min(mine.seconds) * traffic
    return Ratio(asked / paid, low, high)


def checks(systems: Sequence[Figures]) -> list[Check]:
    """Every system of ours against every peer of the same size, and against its own bounds."""
    found: list[Check] = []
    for ours in (figures for figures in systems if is_ours(figures.system)):
        peers = [other for other in systems if other.nodes == ours.nodes and not is_ours(other.system)]
        for peer in peers:
            found.append(_price_check(ours, peer, "kill", KILL_AIMS[reach(ours.system)]))
            found.append(_price_check(ours, peer, "cut", CUT_AIM if ours.nodes >= CUT_AIM_FROM else None))
            if peer.system == "serf":
                found.append(_below(ours, "CPU", ours.idle.cpu_percent.mean, peer.idle.cpu_percent.mean, peer.system))
        if ours.system.endswith("+key"):
            found.append(_below(ours, "RSS", ours.idle.rss_each.mean, RSS_AIM))
    return found


def _price_check(ours: Figures, peer: Figures, fault: Fault, aim: float | None) -> Check:
    ratio = price_ratio(ours, peer, fault)
    mine: Takeovers = getattr(ours, fault)
    holds: bool | None = None
    if mine.never:
        holds = False
    elif aim is not None and ratio is not None:
        holds = ratio.ratio >= aim
    return Check(
        nodes=ours.nodes,
        system=ours.system,
        peer=peer.system,
        what=f"{fault} × traffic",
        value=None if ratio is None else ratio.ratio,
        low=None if ratio is None else ratio.low,
        high=None if ratio is None else ratio.high,
        aim=aim,
        holds=holds,
    )


def _below(ours: Figures, what: str, value: float, aim: float, peer: str = "") -> Check:
    return Check(nodes=ours.nodes, system=ours.system, peer=peer, what=what, value=value, aim=aim, holds=value <= aim)


def is_ours(system: str) -> bool:
    return system.startswith("doyen ")


def reach(system: str) -> str:
    """`doyen unicast+key` → unicast."""
    return system.removeprefix("doyen ").removesuffix("+key")
