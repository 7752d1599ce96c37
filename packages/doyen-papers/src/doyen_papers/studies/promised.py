"""Simulate timers on a measured network, in made-up time: takeovers, traffic, and suspicions that nobody refutes.

The group is built from a running node's own configuration, as `doyen drill` does it.
"""

from collections.abc import Iterator
from itertools import pairwise
from math import exp, inf, log, sqrt
from random import Random
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from doyen.core.clock import Instant, to_seconds
from doyen.core.ids import NodeId
from doyen.core.leadership import LeaderLost
from doyen.core.link import LinkBroken
from doyen.core.view import Status, ViewChanged
from doyen.node.config import NodeConfig
from doyen.node.registry import find_election
from doyen.sim.node import SimNode
from doyen.sim.world import DISK
from doyen.testing.cluster import Cluster
from doyen_papers.analysis.measured import Interval, proportion

SIMULATED_MAX: Final = 16  # Members; what one suspicion or one takeover comes to hardly depends on more.
SETTLED_S: Final = 20.0  # Time after the first election, in which the group comes to rest,
SPREAD_S: Final = 6.0  # and more of it at random, so that leaders are lost at any phase of heartbeats.
LATEST: Final = "10min"


class Network(Struct, frozen=True):
    """A network as it was measured: delays are uniform around their mean, one way, and losses independent."""

    loss: float
    delay_s: float
    spread_s: float

    @classmethod
    def of(cls, loss: float, round_trip_s: float, round_trip_sd_s: float) -> "Network":
        """Return the network whose round trips have that mean and that standard deviation."""
        delay_s = round_trip_s / 2
        return cls(loss, delay_s, min(delay_s, sqrt(3 * round_trip_sd_s**2 / 2)))


class Takeover(Struct, frozen=True):
    """One leader that was cut off: when all others had given it up, and when another acted."""

    detected_s: float
    acted_s: float


def group(config: NodeConfig, kind: str, nodes: int, network: Network, seed: int) -> Cluster:
    """Return the group in made-up time."""
    size = min(nodes, SIMULATED_MAX)
    names = [f"n{i}" for i in range(size)] if len(config.voters) != nodes else sorted(config.voters)[:size]
    plain = replace(
        config,
        election=kind,
        elections=(),
        seeds=(),
        expect=0,
        voters=tuple(names) if config.voters else (),
        state=DISK if config.state else "",
    )
    near_s = network.delay_s - network.spread_s
    return Cluster(names, loss=network.loss, delay=near_s, jitter=network.spread_s, seed=seed, like=plain)


def takeovers(config: NodeConfig, kind: str, nodes: int, network: Network, count: int) -> Iterator[Takeover]:
    """Yield what each of so many silent losses of the leader took."""
    for seed in range(1, count + 1):
        cluster = group(config, kind, nodes, network, seed)
        cluster.run_until_leader(within=LATEST)
        cluster.run_for(SETTLED_S + SPREAD_S * Random(seed).random())
        lost = cluster.run_until_leader(within=LATEST)
        cluster.partition([lost], rest=True)
        rest = [name for name in cluster.names if name != lost]
        detected_s = cluster.run_until(lambda: all(cluster.named_by(n) != lost for n in rest), within=LATEST)  # noqa: B023
        acted_s = cluster.run_until(lambda: any(map(cluster.is_leader, rest)), within=LATEST)  # noqa: B023
        yield Takeover(detected_s, detected_s + acted_s)


def bytes_per_s(config: NodeConfig, kind: str, nodes: int, network: Network, lasting_s: float = 120.0) -> float:
    """Return what one member sends, in the mean: bytes of datagrams without headers, while nothing happens."""
    cluster = group(config, kind, nodes, network, seed=1)
    cluster.run_until_leader(within=LATEST)
    cluster.run_for(SETTLED_S)
    before = _sent(cluster)
    cluster.run_for(lasting_s)
    return (_sent(cluster) - before) / lasting_s / len(cluster.names)


def _sent(cluster: Cluster) -> int:
    return sum(traffic.hop_bytes for traffic in cluster.sim.traffic.values())


def departures(config: NodeConfig, kind: str, nodes: int, network: Network, lasting_s: float, seed: int = 1) -> int:
    """Return how many living members failed, each incarnation once.

    Without a membership: how often a leader lost its lease, or, where there is none, a member its leader.
    Nobody crashes and nothing is cut, so each of them is false.
    """
    cluster = group(config, kind, nodes, network, seed)
    watch = _Watch(cluster)
    cluster.run_until_leader(within=LATEST)
    cluster.run_for(SETTLED_S)
    watch.forget()
    cluster.run_for(lasting_s)
    if config.membership_name() != "none":
        return len(watch.failed)
    leased = find_election(kind).lease(config.table(find_election(kind).table)) is not None
    return watch.lost_itself if leased else watch.lost_another


def unrefuted(config: NodeConfig, kind: str, nodes: int, network: Network, count: int, seed: int = 1) -> int:
    """Return how many of so many suspicions of living members end as failures of them.

    A suspicion is begun as by an unanswered probe, at a member and about another, both drawn, one after the other.
    It lasts for the least time, as if helpers had confirmed it, so the share is rather too high than too low.
    """
    table = config.tables[config.membership_name()]
    config = replace(config, tables={**config.tables, config.membership_name(): replace(table, suspicion_max_mult=1.0)})
    cluster = group(config, kind, nodes, network, seed)
    watch, rng = _Watch(cluster), Random(seed)
    cluster.run_until_leader(within=LATEST)
    cluster.run_for(SETTLED_S)
    made = config.tables[config.membership_name()]
    pause_s = 2 * to_seconds(made.longest_suspicion(len(cluster.names)) + made.period)
    watch.forget()
    hits = 0
    for _ in range(count):
        accuser, suspect = rng.sample(cluster.names, 2)
        node = cluster.sim.by_name[NodeId(suspect)]
        cluster.sim.tell(
            cluster.sim.by_name[NodeId(accuser)], LinkBroken(NodeId(suspect), node.incarnation, gone=False)
        )
        cluster.run_for(pause_s)
        hits += any(member == suspect for member, _ in watch.failed)
        watch.forget()
    return hits


class _Watch:
    """Notes which members fail, and which leaders are lost, in anybody's view."""

    def __init__(self, cluster: Cluster) -> None:
        self.failed: set[tuple[str, int]] = set()
        self.lost_itself = self.lost_another = 0
        cluster.sim.watchers.append(self._on_fact)

    def forget(self) -> None:
        self.failed.clear()
        self.lost_itself = self.lost_another = 0

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if isinstance(fact, ViewChanged):
            for name in fact.changed:
                member = fact.view.members.get(name)
                if member is not None and member.status is Status.FAILED:
                    self.failed.add((name, member.incarnation))
        elif isinstance(fact, LeaderLost):
            if fact.term.leader == node.name:
                self.lost_itself += 1
            else:
                self.lost_another += 1


# ── Rare failures ───────────────────────────────────────────────────────────────────────────────────────────

LOSSES: Final = (0.5, 0.35, 0.25, 0.17, 0.12, 0.08)  # Where failures are frequent enough to be counted.
HITS_MIN: Final = 5


class Unrefuted:
    """The share of false suspicions that end as failures, for any loss.

    It is simulated at ever smaller losses until failures become rare.  Below, it falls at least as steeply as between
    the last two: each failure needs several losses, so the share goes as a power of the loss, and the power only grows
    as losses become fewer.
    """

    def __init__(self, config: NodeConfig, kind: str, nodes: int, network: Network, count: int) -> None:
        self._points: list[tuple[float, int, int]] = []  # (loss, failures, suspicions), the greatest loss first.
        for loss in LOSSES:
            hits = unrefuted(config, kind, nodes, replace(network, loss=loss), count)
            if hits < HITS_MIN and len(self._points) >= 2:
                break
            self._points.append((loss, hits, count))

    def share(self, loss: float) -> Interval:
        """Return the share at this loss."""
        above, below = self._points[-2], self._points[-1]
        for one, next_one in pairwise(self._points):
            if next_one[0] <= loss:
                above, below = one, next_one
                break
        upper, lower = (proportion(max(hits, 1), of) for _, hits, of in (above, below))
        way = log(loss / below[0]) if loss > 0 else -inf  # Negative below the last point.
        width = log(above[0] / below[0])
        powers = [log(a / b) / width for a, b in ((upper.estimate, lower.estimate), (upper.low, lower.high))]
        power, least = (max(1.0, found) for found in powers)
        if loss <= 0:
            return Interval(0.0, 0.0, 0.0)
        steepest = max(1.0, log(upper.high / max(lower.low, 1e-9)) / width)
        ends = (lower.low * exp(steepest * way), lower.high * exp(least * way))
        return Interval(min(1.0, lower.estimate * exp(power * way)), min(ends), min(1.0, max(ends)))
