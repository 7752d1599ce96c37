"""Simulate timers on a measured network, in made-up time: takeovers, traffic, and members that are taken for dead.

The group is built from a running node's own configuration, as `doyen drill` does it.
"""

from collections.abc import Iterator
from math import exp, log, sqrt
from random import Random
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from doyen.core.clock import Instant
from doyen.core.leadership import LeaderLost
from doyen.core.view import Status, ViewChanged
from doyen.node.config import NodeConfig
from doyen.node.registry import find_election
from doyen.sim.node import SimNode
from doyen.sim.world import DISK
from doyen.testing.cluster import Cluster
from doyen_papers.analysis.measured import Interval, rate

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
    """Yield how long each of that many silent losses of the leader took."""
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


# ── Rare departures ─────────────────────────────────────────────────────────────────────────────────────────

LOSSES: Final = (0.5, 0.35, 0.25, 0.17, 0.12, 0.08, 0.055, 0.04)  # Where departures may be frequent enough to count.
HITS_MIN: Final = 5
HITS_ENOUGH: Final = 40  # Then a rate is known to a third, and the next loss is simulated.
PARTS: Final = 10


class FalseDepartures:
    """The rate at which living members are taken for dead, for any loss.

    The whole group is simulated, with its helpers, rechecks, refutations and doubts of itself, at ever smaller losses
    until departures become rare.  Below, their rate falls at least as steeply as between the last two losses: each
    departure needs several losses, so the rate goes as a power of the loss, and the power only grows as losses become
    fewer.
    """

    def __init__(self, config: NodeConfig, kind: str, nodes: int, network: Network, lasting_s: float) -> None:
        self._scale = nodes / min(nodes, SIMULATED_MAX)  # Each member probes one other, however many there are.
        self._points: list[tuple[float, int, float]] = []  # (loss, departures, seconds), the greatest loss first.
        for loss in LOSSES:
            hits, over_s = 0, 0.0
            for seed in range(1, PARTS + 1):
                hits += departures(config, kind, nodes, replace(network, loss=loss), lasting_s / PARTS, seed)
                over_s += lasting_s / PARTS
                if hits >= HITS_ENOUGH:
                    break
            if hits < HITS_MIN and len(self._points) >= 2:
                break
            self._points.append((loss, hits, over_s))

    def per_s(self, loss: float) -> Interval:
        """Return the rate at this loss."""
        if loss <= 0:
            return Interval(0.0, 0.0, 0.0)
        rates = [(at, rate(max(hits, 1), over_s)) for at, hits, over_s in self._points]
        last = len(rates) - 1
        place = next((i for i in range(1, last) if rates[i][0] <= loss), last)  # Of the next simulated loss below.
        (above, upper), (below, lower) = rates[place - 1], rates[place]
        way, width = log(loss / below), log(above / below)
        if way > 0:
            powers = [log(getattr(upper, end) / getattr(lower, end)) / width for end in ("estimate", "low", "high")]
        else:  # Below all of them.  No power between two of them is greater than the one that holds here.
            least = max(log(one.low / lower.high) / log(at / below) for at, one in rates[:-1])
            powers = [log(upper.estimate / lower.estimate) / width, log(upper.high / lower.low) / width, least]
            powers = [max(1.0, power) for power in powers]
        found = zip((lower.estimate, lower.low, lower.high), powers, strict=True)
        return Interval(*(self._scale * per_s * exp(power * way) for per_s, power in found))
