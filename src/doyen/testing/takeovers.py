"""Simulated takeovers: leaders that are cut off silently, on a network as a preset takes it to be.

`doyen presets --takeovers 200` shows them beside the worst case that the election states.
"""

from random import Random

from doyen.core.kinds import DELAYS, LOSSES, Network
from doyen.testing.cluster import Cluster

SETTLED_S = 20.0  # Time after the first election, in which the group comes to rest,
SPREAD_S = 6.0  # and more of it at random, so that leaders are lost at any phase of heartbeats.


def takeovers(preset: Network, size: int, election: str, count: int, *, first_seed: int = 1) -> list[float]:
    """Return how long each took, in seconds, from the cut until all others named one other leader, which acted."""
    return [_takeover(preset, size, election, seed) for seed in range(first_seed, first_seed + count)]


def _takeover(preset: Network, size: int, election: str, seed: int) -> float:
    delay_s, loss = DELAYS[preset] / 1e9, LOSSES[preset]
    cluster = Cluster(size, election=election, preset=preset, group_size=size, delay=delay_s, loss=loss, seed=seed)
    cluster.run_until_leader(within="10min")
    cluster.run_for(SETTLED_S + SPREAD_S * Random(seed).random())
    lost = cluster.run_until_leader(within="10min")
    cluster.partition([lost], rest=True)
    rest = [name for name in cluster.names if name != lost]

    def is_replaced() -> bool:
        named = {cluster.named_by(name) for name in rest}
        leader = named.pop()
        return not named and leader is not None and leader != lost and cluster.is_leader(leader)

    return cluster.run_until(is_replaced, within="10min")
