"""Statistics of a membership trace's views: c of [CTOL Table I], p of [CTOL Table II]."""

from collections import Counter
from typing import Final

from msgspec import Struct

from doyen.core.ids import NodeId
from doyen.election.churn.standpoint import hash_rank
from doyen_papers.studies.memtrace import MemTrace

SAMPLE_MS: Final = 200
LISTS_MS: Final = 5000  # Between comparisons of lists of the unhealthy.


class TraceStats(Struct, frozen=True, kw_only=True):
    """c_i, over members and instants, and how much of the system's top y a RESPONSE lacks."""

    missing_mean: float
    missing_p99: float
    missing_max: float
    p: float | None  # None: nobody was ever suspected.


def trace_stats(trace: MemTrace, unhealthy_count: int = 5) -> TraceStats:
    size = len(trace.header.nodes)
    order = {i: hash_rank(NodeId(name)) for i, name in enumerate(trace.header.nodes)}
    absent = [0] * size  # c_i now.
    held: list[dict[int, tuple[bool, int]]] = [{} for _ in range(size)]  # By node and member: present, suspicions.
    histogram: Counter[int] = Counter()
    shares: list[float] = []
    upto = 0
    for t in range(0, trace.header.duration_ms + 1, SAMPLE_MS):
        while upto < len(trace.changes) and trace.changes[upto][0] <= t:
            _, node, member, letter, count = trace.changes[upto]
            upto += 1
            before, present = held[node].get(member, (True, 0))[0], letter in "as"
            absent[member] += before - present
            held[node][member] = (present, count)
        histogram.update(absent)
        if t % LISTS_MS == 0:
            shares += _lacking(held, order, unhealthy_count)
    mean, p99, most = spread(histogram)
    p = sum(shares) / len(shares) if shares else None
    return TraceStats(missing_mean=mean, missing_p99=p99, missing_max=most, p=p)


def spread(histogram: Counter[int]) -> tuple[float, float, float]:
    """Return the mean, the 99th percentile and the greatest value."""
    mean = sum(value * times for value, times in histogram.items()) / histogram.total()
    return mean, float(percentile(histogram, 0.99)), float(max(histogram))


def percentile(histogram: Counter[int], share: float) -> int:
    """Return the least value that at least this share of the whole is at or below."""
    left = histogram.total() * (1 - share)
    for value in sorted(histogram, reverse=True):
        left -= histogram[value]
        if left < 0:
            return value
    return min(histogram, default=0)


def _lacking(held: list[dict[int, tuple[bool, int]]], order: dict[int, int], count: int) -> list[float]:
    """Return for each node the share of the system's most unhealthy that its list would not have."""
    sums: Counter[int] = Counter()
    for view in held:
        for member, (_, suspicions) in view.items():
            sums[member] += suspicions
    top = set(_worst(dict(sums), order, count))
    if not top:
        return []
    lists = [_worst({m: n for m, (present, n) in view.items() if present}, order, count) for view in held]
    return [len(top - set(listed)) / len(top) for listed in lists]


def _worst(counts: dict[int, int], order: dict[int, int], count: int) -> list[int]:
    sick = [member for member, n in counts.items() if n >= 1]
    return sorted(sick, key=lambda member: (-counts[member], order[member]))[:count]
