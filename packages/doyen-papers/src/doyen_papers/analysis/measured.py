"""Read the network from two readings of the members' tallies, each figure with its confidence."""

from math import sqrt
from typing import Any, Final

import msgspec
from msgspec import Struct

from doyen.errors import ConfigError
from doyen.net.tallies import BOUNDS, Snapshot, Spread

LEVEL_Z: Final = 1.959964  # 95 %, two-sided.
TRIALS_MIN: Final = 20  # Fewer round trips or announcements say nothing about loss.


class Interval(Struct, frozen=True):
    """An estimate, and the ends of its 95 % confidence interval."""

    estimate: float
    low: float
    high: float

    def each(self, function: Any) -> "Interval":
        """Return the interval of an increasing function of this figure."""
        return Interval(function(self.estimate), function(self.low), function(self.high))


class Drift(Struct, frozen=True):
    """The difference of two clocks' rates, and the most that the reading can be wrong by."""

    member: str
    rate: float
    error: float


class Measured(Struct, frozen=True, kw_only=True):
    """The network of a group, as its own traffic shows it."""

    seconds: float
    node: str  # The one that was asked.
    members: tuple[str, ...]  # All that are known.
    heard: tuple[str, ...]  # Those whose tallies count.
    loss: Interval  # Of one packet.
    trials: int
    by_answers: bool  # Whether loss was found by questions without an answer; else by announcements that are missing.
    round_trip_s: Interval  # The mean.
    round_trip_sd_s: float
    round_trip_most_s: float  # 99.9 % take no longer.
    round_trips: int
    pause_most_s: float  # 99.9 % of the timers are no later.
    pauses: int
    write_most_s: float  # 99 % of the writes to disk take no longer.
    writes: int
    drifts: tuple[Drift, ...]
    bytes_per_s: float  # Sent by one member, in the mean.


def proportion(hits: int, trials: int, z: float = LEVEL_Z) -> Interval:
    """Return a share with Wilson's interval, which is never empty, also where nothing or everything was hit."""
    if trials == 0:
        return Interval(0.0, 0.0, 1.0)
    share, weight = hits / trials, z * z / trials
    middle = (share + weight / 2) / (1 + weight)
    half = z * sqrt(share * (1 - share) / trials + weight / (4 * trials)) / (1 + weight)
    return Interval(share, max(0.0, middle - half) if hits else 0.0, min(1.0, middle + half) if hits < trials else 1.0)


def rate(hits: int, over_s: float, z: float = LEVEL_Z) -> Interval:
    """Return a rate with the interval of a Poisson process, as Wilson and Hilferty approximate it."""

    def end(count: int, side: float) -> float:
        return count * max(0.0, 1 - 1 / (9 * count) + side * z / (3 * sqrt(count))) ** 3 if count else 0.0

    return Interval(hits / over_s, end(hits, -1) / over_s, end(hits + 1, 1) / over_s)


def one_way(round_trip_loss: float) -> float:
    """Return the loss of one packet, where both ways lose alike: a round trip is lost with 1 − (1 − l)²."""
    return 1 - sqrt(1 - round_trip_loss)


def quantile_s(spread: Spread, share: float) -> float:
    """Return the upper end of the bucket that has this share of all durations below it, in seconds; 0: there are none.

    The error is a bucket's width: the figure is at most 26 % too high, and never too low.
    """
    total, wanted = sum(spread.buckets.values()), 0
    for bucket, count in sorted(spread.buckets.items()):
        wanted += count
        if wanted >= share * total:
            return BOUNDS[min(bucket, len(BOUNDS) - 1)] / 1e9
    return 0.0


def measured(first: dict[str, Any], last: dict[str, Any], z: float = LEVEL_Z) -> Measured:
    """Return what happened between two answers of one node to the question for tallies."""
    names = [name for name in last["others"] if name in first["others"]]
    pairs = {last["node"]: (_read(first["own"]), _read(last["own"]))}
    pairs |= {n: (_read(first["others"][n]["tallies"]), _read(last["others"][n]["tallies"])) for n in names}
    kept = {name: pair for name, pair in pairs.items() if _went_on(*pair)}  # A member that began anew counts from 0.
    gone = [_minus(after, before) for before, after in kept.values()]
    seconds = (pairs[last["node"]][1].at - pairs[last["node"]][0].at) / 1e9
    answered, unanswered = sum(d.answered for d in gone), sum(d.unanswered for d in gone)
    came, missing = sum(d.came for d in gone), sum(d.missing for d in gone)
    by_answers = answered + unanswered > 0
    trials = answered + unanswered if by_answers else came + missing
    if trials == 0:
        silent = ", ".join(name for name in last["names"] if name != last["node"])
        raise ConfigError(f"{last['node']} hears nothing of {silent}: start them, then measure")
    if trials < TRIALS_MIN:
        raise ConfigError(
            f"--measure {seconds:.3g}s is too short: {trials} messages show losses, and {TRIALS_MIN} are the least"
        )
    lost = proportion(unanswered if by_answers else missing, trials, z)
    trips, late, writes = (_sum([getattr(d, f) for d in gone]) for f in ("round_trips", "lateness", "writes"))
    asked = [
        (told[n]["heard_at"] - told[n]["asked_at"]) / 1e9 for told in (first["others"], last["others"]) for n in names
    ]
    mean, sd, most, count = _round_trips(trips, asked)
    half = z * sd / sqrt(count) if count else 0.0
    return Measured(
        seconds=seconds,
        node=last["node"],
        members=tuple(last["names"]),
        heard=tuple(sorted(kept)),
        loss=lost.each(one_way) if by_answers else lost,
        trials=trials,
        by_answers=by_answers,
        round_trip_s=Interval(mean, max(0.0, mean - half), mean + half),
        round_trip_sd_s=sd,
        round_trip_most_s=most,
        round_trips=count,
        pause_most_s=quantile_s(late, 0.999),
        pauses=sum(late.buckets.values()),
        write_most_s=quantile_s(writes, 0.99),
        writes=sum(writes.buckets.values()),
        drifts=tuple(_drift(n, first["others"][n], last["others"][n]) for n in names if n in kept),
        bytes_per_s=sum(d.sent_bytes for d in gone) / len(gone) / seconds if gone else 0.0,
    )


def _round_trips(trips: Spread, asked: list[float]) -> tuple[float, float, float, int]:
    """Return mean, deviation and 99.9 % of round trips, and their number; of the few questions, if nothing else is."""
    count = sum(trips.buckets.values())
    if count:
        mean = trips.sum_us / count / 1e6
        sd = sqrt(max(0.0, trips.squares_us / count / 1e12 - mean * mean))
        return mean, sd, quantile_s(trips, 0.999), count
    if not asked:
        return 0.0, 0.0, 0.0, 0
    mean = sum(asked) / len(asked)
    return mean, sqrt(sum((a - mean) ** 2 for a in asked) / len(asked)), max(asked), len(asked)


def _drift(name: str, first: dict[str, Any], last: dict[str, Any]) -> Drift:
    """Return the difference of a member's clock rate to that of the asking node's clock.

    The member read its clock somewhere between question and answer, so each reading errs by half a round trip at most.
    """
    (at, trip), (at_2, trip_2) = ((t["asked_at"] + t["heard_at"], t["heard_at"] - t["asked_at"]) for t in (first, last))
    here = (at_2 - at) / 2
    there = _read(last["tallies"]).at - _read(first["tallies"]).at
    return Drift(name, there / here - 1, (trip + trip_2) / 2 / here)


def _read(told: Any) -> Snapshot:
    return msgspec.convert(told, Snapshot, str_keys=True)


def _went_on(before: Snapshot, after: Snapshot) -> bool:
    return bool(after.at > before.at and after.sent_bytes >= before.sent_bytes and after.answered >= before.answered)


def _minus(after: Snapshot, before: Snapshot) -> Snapshot:
    told = {
        name: _spread_minus(value, getattr(before, name))
        if isinstance(value, Spread)
        else value - getattr(before, name)
        for name, value in msgspec.structs.asdict(after).items()
    }
    return Snapshot(**told)


def _spread_minus(after: Spread, before: Spread) -> Spread:
    gone = {bucket: count - before.buckets.get(bucket, 0) for bucket, count in after.buckets.items()}
    kept = {bucket: count for bucket, count in gone.items() if count > 0}
    return Spread(kept, after.sum_us - before.sum_us, after.squares_us - before.squares_us)


def _sum(spreads: list[Spread]) -> Spread:
    buckets: dict[int, int] = {}
    for spread in spreads:
        for bucket, count in spread.buckets.items():
            buckets[bucket] = buckets.get(bucket, 0) + count
    return Spread(buckets, sum(s.sum_us for s in spreads), sum(s.squares_us for s in spreads))
