"""Announce-listen elections that rank by what nodes observe, beside those that only a simulator can hold.  [LE §5.7]

Every pair of nodes has a delay, and every direction a loss of its own.  One run holds three elections on the same
network: by name alone, by the true sums (an oracle), and by what each node observes itself by probes and echoes.

    excess     by how much the leader's true sum is above the best node's, per other member: ms, or a share
    changes    how often somebody began to lead
    messages   per node and second
"""

from collections import Counter
from typing import Final, Literal

from doyen.core.clock import Duration, ms, seconds
from doyen.core.leadership import LeaderElected
from doyen.election.announce.config import AnnounceConfig
from doyen.sim.network import Delay, Loss, Network, NetworkConfig
from doyen.sim.scenario.nodes import world_of
from doyen.sim.scenario.schema import Group, RunConfig, Scenario

By = Literal["delay", "loss"]
How = Literal["name", "oracle", "observed"]

HOWS: Final[tuple[How, ...]] = ("name", "oracle", "observed")
LENGTH: Final[Duration] = seconds(90)  # Twice what the observer's window takes.
NETWORKS: Final[dict[By, NetworkConfig]] = {
    "delay": NetworkConfig(delay=Delay(mean=ms(50), link_spread=ms(45)), loss=Loss(model="uncorrelated", prob=0.05)),
    "loss": NetworkConfig(delay=Delay(mean=ms(5)), loss=Loss(model="links", prob=0.1)),
}


def observe(by: By, nodes: int, seed: int) -> dict[str, float | None]:
    """Hold the three elections on one network."""
    row: dict[str, float | None] = {}
    for how in HOWS:
        row |= {f"{how}: {name}": value for name, value in _held(by, how, nodes, seed).items()}
    return row


def _held(by: By, how: How, nodes: int, seed: int) -> dict[str, float | None]:
    election = AnnounceConfig(
        announce_interval=seconds(1),
        suppress_interval=ms(500),
        listen_timeout=seconds(6),
        group_size=nodes,
        observed_rank=by if how == "observed" else "none",
    )
    group = Group(nodes=nodes, rank=by if how == "oracle" else "address", election=election)
    scenario = Scenario(group=group, network=NETWORKS[by], run=RunConfig(length=LENGTH, quiet=0))
    world = world_of(scenario, seed)
    sim, reigns = world.sim, Counter[str]()
    sim.watchers.append(
        lambda node, channel, fact, now: reigns.update(
            [node.name] if isinstance(fact, LeaderElected) and fact.term.leader == node.name else []
        )
    )
    world.start()
    sim.run(until=LENGTH)
    named = Counter(name for node in sim.nodes for name in world.named_by(node))
    leader = sim.by_name[named.most_common(1)[0][0]]
    sums = [true_sum(by, sim.network, index) for index in range(nodes)]
    return {
        "excess": (sums[leader.index] - min(sums)) / (nodes - 1),
        "changes": float(reigns.total()),
        "messages": sim.message_count / nodes / (LENGTH / 1e9),
    }


def true_sum(by: By, network: Network, node: int) -> float:
    """Return a node's sum over all others, as the network has it: delays in ms, or losses of a round trip."""
    others = [other for other in range(network.topology.size) if other != node]
    if by == "delay":
        return sum(network.link_delay(min(node, other), max(node, other)) for other in others) / 1e6
    return sum(1 - (1 - network.link_loss(node, other)) * (1 - network.link_loss(other, node)) for other in others)
