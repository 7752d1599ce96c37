"""Timers for a group that runs, from what was measured of its network, and what to expect of them.

Each stack has one interval (how often a sign of life is sent) and one patience (how long its absence is borne).  The
interval stays as it is, or follows from a wanted detection; the patience is the least that keeps false departures to a
wish.  Waits for single answers follow from the measured round trips and pauses.  Timers that keep all wishes stay.
"""

from collections.abc import Iterator, Sequence
from math import ceil
from statistics import median
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from doyen.core.clock import Duration, format_duration, ms, seconds, to_seconds
from doyen.core.kinds import Around
from doyen.errors import ConfigError
from doyen.membership.swim.config import suspicion_min
from doyen.node.config import NodeConfig
from doyen.node.registry import find_election
from doyen_papers.analysis.departures import (
    YEAR_S,
    leases_lost_per_s,
    missed_in_a_row_per_s,
)
from doyen_papers.analysis.measured import Interval, Measured
from doyen_papers.studies.promised import FalseDepartures, Network, bytes_per_s, takeovers

STEPS: Final = 6
CURVE: Final = range(-2, 3)  # Steps of patience on the picture, below and above those of the timers it is about.
SIMULATED_S_PER_RUN: Final = 60.0  # Of the whole group, at each loss, for each simulated takeover.
BEAT_MIN: Final[Duration] = ms(20)


class Promised(Struct, frozen=True, kw_only=True):
    """The takeover to expect of timers, from a leader's silent loss on, with 95 % confidence."""

    detection_median_s: float  # Until all others have given the leader up.
    detection_most_s: Interval  # 99 % take no longer.
    takeover_median_s: float  # Until another acts.
    takeover_most_s: Interval
    bound_s: float  # Of detection, if nothing is lost and nobody is slow.
    departures_per_year: Interval
    bytes_per_s: float  # Sent by one member.


class Option(Struct, frozen=True, kw_only=True):
    """Timers, with the bound of detection and the false departures that they come to."""

    config: NodeConfig
    bound_s: float
    departures_per_year: Interval


class Stack:
    """A running group's timers, one step of patience after the other."""

    table = ""
    departure = "living members taken for dead"

    def __init__(self, config: NodeConfig, kind: str, found: Measured, simulate: int) -> None:
        self.config, self.kind, self.found, self.simulate = config, kind, found, simulate
        self.nodes = len(found.members)
        self.network = Network.of(found.loss.estimate, found.round_trip_s.estimate, found.round_trip_sd_s)
        self.trip = seconds(max(found.round_trip_most_s, found.round_trip_s.high))
        self.pause = seconds(found.pause_most_s)
        self.disk = seconds(found.write_most_s)
        self._known: dict[Any, Option] = {}  # By table: its false departures are computed once.

    @property
    def now(self) -> Any:
        """Return the table as it is."""
        return self.config.tables[self.table]

    def timers(self, step: int, detection: Duration | None) -> Any | None:
        """Return the table of that step of patience; None: it cannot detect in that time."""
        raise NotImplementedError

    def patient(self, table: Any, steps: int) -> Any | None:
        """Return that table with that many more steps of patience; None: it does not go so far."""
        raise NotImplementedError

    def departures(self, table: Any) -> Interval:
        """Return how many false departures a year to expect, with the ends of the measured loss carried over."""
        raise NotImplementedError

    def with_(self, table: Any) -> NodeConfig:
        return replace(self.config, tables={**self.config.tables, self.table: table})

    def bound_s(self, config: NodeConfig) -> float:
        kind = find_election(self.kind)
        delay = seconds(self.found.round_trip_s.estimate / 2)
        around = Around(delay=delay, group_size=self.nodes, detection=config.detection(), disk=self.disk)
        return to_seconds(kind.worst_case(config.table(kind.table), around).detection)

    def option(self, table: Any) -> Option:
        found = self._known.get(table)
        if found is None:
            config = self.with_(table)
            found = Option(config=config, bound_s=self.bound_s(config), departures_per_year=self.departures(table))
            self._known[table] = found
        return found

    def options(self, detection: Duration | None) -> Iterator[Option]:
        """Yield the options, from the least patience on; with a wanted detection those that take no longer."""
        for step in range(STEPS):
            table = self.timers(step, None if detection is None else detection - self.pause)
            if table is not None and self.soon_enough(self.bound_s(self.with_(table)), detection):
                yield self.option(table)

    def soon_enough(self, bound_s: float, detection: Duration | None) -> bool:
        """Return whether a bound of detection, and a pause, keep the wish."""
        return detection is None or bound_s + to_seconds(self.pause) <= to_seconds(detection)

    def curve(self, option: Option) -> Iterator[Option]:
        """Yield the trade-off that this option stands on: the same timers with less and more patience, and itself."""
        for steps in CURVE:
            table = self.patient(option.config.tables[self.table], steps) if steps else option.config.tables[self.table]
            if table is not None:
                yield self.option(table)

    def promised(self, option: Option) -> Promised:
        """Return what to expect of an option, by simulated losses of the leader."""
        config, kind, nodes, network = option.config, self.kind, self.nodes, self.network
        runs = list(takeovers(config, kind, nodes, network, self.simulate))
        worse = list(takeovers(config, kind, nodes, replace(network, loss=self.found.loss.high), self.simulate))
        detected, acted = sorted(r.detected_s for r in runs), sorted(r.acted_s for r in runs)
        late_s = self.found.pause_most_s
        return Promised(
            detection_median_s=median(detected),
            detection_most_s=_most(detected, [r.detected_s for r in worse], option.bound_s, late_s),
            takeover_median_s=median(acted),
            takeover_most_s=_most(acted, [r.acted_s for r in worse], option.bound_s, late_s),
            bound_s=option.bound_s,
            departures_per_year=option.departures_per_year,
            bytes_per_s=bytes_per_s(config, kind, nodes, network),
        )


class Gossip(Stack):
    """Gossip over SWIM: heartbeats of the leader, probes, and suspicions that can be refuted."""

    table = "swim"

    def timers(self, step: int, detection: Duration | None) -> Any | None:
        now = self.now
        ack = rounded(max(self.trip * 5 // 4, 4 * self.pause, ms(5)))
        suspicion = rounded(ack * 2 ** (step + 1))
        found = replace(
            now,
            period=max(now.period, 5 * ack),
            beat_interval=max(now.beat_interval, 2 * ack) if now.beat_interval else 0,
            ack_timeout=ack,
            suspicion_timeout=suspicion,
            watch_timeout=3 * ack,
            recheck_interval=ack if now.recheck_interval else 0,
            gossip_interval=ack if now.gossip_interval else 0,
        )
        if detection is None:
            return found
        beat = detection - 4 * ack - found.longest_suspicion(self.nodes)
        if beat < max(2 * ack, BEAT_MIN) or not now.beat_interval:
            return None
        return replace(found, beat_interval=rounded_down(beat), period=max(rounded_down(beat * 8 // 5), 5 * ack))

    def patient(self, table: Any, steps: int) -> Any | None:
        suspicion = int(suspicion_min(table, self.nodes) * 2.0**steps)
        return replace(table, suspicion_timeout=suspicion) if suspicion >= table.ack_timeout else None

    def departures(self, table: Any) -> Interval:
        lasting_s = self.simulate * SIMULATED_S_PER_RUN
        found = FalseDepartures(self.with_(table), self.kind, self.nodes, self.network, lasting_s)
        loss = self.found.loss
        per_s = [found.per_s(end) for end in (loss.estimate, loss.low, loss.high)]
        return Interval(YEAR_S * per_s[0].estimate, YEAR_S * per_s[1].low, YEAR_S * per_s[2].high)


class Fast(Stack):
    """Announce-listen: a leader announces itself, and is given up after a silence."""

    table = "announce"
    departure = "members that give a living leader up"

    @property
    def slack(self) -> Duration:
        """Return by how much an announcement may be late."""
        return rounded(self.trip // 2 + self.pause)

    def timers(self, step: int, detection: Duration | None) -> Any | None:
        now, misses = self.now, step + 1
        delay = seconds(self.found.round_trip_s.estimate / 2)
        announce = now.announce_interval
        if detection is not None:
            announce = rounded_down((detection - self.slack - delay) // misses)
        if announce < max(2 * self.slack, BEAT_MIN):
            return None
        suppress = now.suppress_interval
        if suppress:  # T_A >= T_S + delay, and T_S well above a delay.  [LE §5.4]
            suppress = min(max(suppress, 3 * self.slack), announce - delay)
        return replace(
            now,
            announce_interval=announce,
            listen_timeout=misses * announce + self.slack,
            suppress_interval=rounded_down(suppress),
        )

    def patient(self, table: Any, steps: int) -> Any | None:
        listen = table.listen_timeout + steps * table.announce_interval
        return replace(table, listen_timeout=listen) if listen > table.announce_interval else None

    def departures(self, table: Any) -> Interval:
        interval_s = to_seconds(table.announce_interval)
        misses = int((to_seconds(table.listen_timeout) - self.found.round_trip_sd_s) / interval_s)
        return self.found.loss.each(
            lambda loss: YEAR_S * missed_in_a_row_per_s(loss, self.nodes, interval_s=interval_s, misses=misses)
        )


class Quorum(Stack):
    """A quorum: a leader's lease is renewed by the voters that answer its heartbeats."""

    table = "pole"
    departure = "leases that a living leader loses"

    def timers(self, step: int, detection: Duration | None) -> Any | None:
        now = self.now
        wait = rounded(max(self.trip * 3 // 2 + self.pause, ms(10)))
        beats = 3 + step
        beat = now.beat_interval
        if detection is not None:
            delay = seconds(self.found.round_trip_s.estimate / 2)
            beat = rounded_down(int((detection - delay) * (1 - 2 * now.drift_max)) // beats)
        if beat < max(wait, BEAT_MIN):
            return None
        return replace(
            now,
            heartbeat_interval=beat,
            lease=beats * beat,
            election_timeout=wait,
            retry_max=max(now.retry_max, wait),
        )

    def patient(self, table: Any, steps: int) -> Any | None:
        lease = table.lease + steps * table.beat_interval
        if lease < 2 * table.beat_interval:
            return None
        found = replace(table, lease=lease, heartbeat_interval=table.beat_interval)
        return found if found.beat_interval == table.beat_interval else None  # A short lease has shorter intervals.

    def departures(self, table: Any) -> Interval:
        return self.found.loss.each(
            lambda loss: (
                YEAR_S
                * leases_lost_per_s(
                    loss,
                    len(self.config.voters) or self.nodes,
                    lease_s=to_seconds(table.lease),
                    beat_s=to_seconds(table.beat_interval),
                    retry_s=to_seconds(table.election_timeout),
                    round_trip_s=self.found.round_trip_s.estimate,
                )
            )
        )


def stack_of(config: NodeConfig, kind: str | None, found: Measured, simulate: int) -> Stack:
    """Return the timers of what runs; raise `ConfigError` for a stack that there is no advice for."""
    table = "" if kind is None else find_election(kind).table.name
    if config.membership_name() == "swim" and kind is not None and find_election(kind).needs.members:
        return Gossip(config, kind, found, simulate)
    for choice in (Fast, Quorum):
        if table == choice.table and kind is not None:
            return choice(config, kind, found, simulate)
    runs = f"{kind or 'no election'} over {config.membership_name()}"
    raise ConfigError(f"there is no advice for {runs}: only for gossip over swim, fast and quorum; see doyen presets")


def no_better(today: Promised, advised: Promised, per_year: float, soon_enough: bool | None) -> bool:
    """Return whether today's timers stay: they keep the wishes as well as the advised ones.

    `soon_enough` says whether today's detection keeps the wish for it; None: there is none, and sooner is better.
    """
    if soon_enough is False:
        return False
    before, after = (max(per_year, promised.departures_per_year.high) for promised in (today, advised))
    if before != after:
        return after > before
    return soon_enough is True or advised.detection_most_s.high >= today.detection_most_s.high


def told_apart(curve: Sequence[Option], option: Option) -> list[Option]:
    """Return that option, and from it on those whose departures are known well enough to differ from their neighbour's.

    More patience never takes more living members for dead; where the upper end rises with it all the same, too little
    was simulated to see so few.
    """
    at, high = curve.index(option), option.departures_per_year.high
    before: list[Option] = []
    for less in reversed(curve[:at]):
        if less.departures_per_year.high >= (before[-1].departures_per_year.high if before else high):
            before.append(less)
    found = [*reversed(before), option]
    for more in curve[at + 1 :]:
        if more.departures_per_year.high <= found[-1].departures_per_year.high:
            found.append(more)
    return found


def changes(before: NodeConfig, after: NodeConfig, table: str) -> dict[str, tuple[str, str]]:
    """Return the fields of the table that differ, as text: before and after."""
    old, new = asdict(before.tables[table]), asdict(after.tables[table])
    return {f: (format_duration(old[f]), format_duration(new[f])) for f in new if new[f] != old[f]}


def rounded(duration: Duration) -> Duration:
    """Return at least this duration, in two digits."""
    step = _step(duration)
    return ceil(duration / step) * step


def rounded_down(duration: Duration) -> Duration:
    """Return at most this duration, in two digits."""
    step = _step(duration)
    return duration // step * step


def _step(duration: Duration) -> int:
    digits = len(str(max(1, int(duration))))
    return max(int(ms(1)), int(10 ** max(0, digits - 2)))


def _most(sample: list[float], worse: list[float], bound_s: float, late_s: float) -> Interval:
    """Return 99 % of a sample, plus a pause; the upper end is the longest of both samples, or the timers' own bound.

    A few dozens of takeovers hardly ever hold the worst phase of the timers, so the upper end is not below their bound
    (decision 132).
    """
    ordered = sorted(sample)
    at = ceil(0.99 * len(ordered)) - 1
    lower = max(0, at - ceil(1.96 * (0.0099 * len(ordered)) ** 0.5))
    return Interval(ordered[at] + late_s, ordered[lower], max(bound_s, *sample, *worse) + late_s)
