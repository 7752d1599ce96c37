"""Holds elections by the most neighbours, among nodes of which some do not hear each other.  [LE §5.1, §5.7]

The study `observed` knows delay and loss, which every network has.  A process that reaches all others has no fewer
neighbours than any, so here pairs are apart, both ways, at random; one process drawn at random reaches all, else the
group could not agree on anybody.  One run holds three elections on the same network, and measures them as that study
does: the leader by name, by an oracle that counts the pairs, and by what each node observes itself.
"""

from collections import Counter
from random import Random
from typing import Final

from doyen.core.clock import Duration, ms, seconds
from doyen.core.leadership import LeaderElected
from doyen.election.announce.config import AnnounceConfig
from doyen.sim.network import Delay, NetworkConfig
from doyen.sim.scenario.nodes import world_of
from doyen.sim.scenario.schema import Group, RunConfig, Scenario
from doyen_papers.studies.observed import HOWS, LENGTH, How

APART: Final = 0.3  # The chance that two do not hear each other.
DELAY: Final[Duration] = ms(5)


def observe_neighbours(nodes: int, seed: int) -> dict[str, float | None]:
    """Hold the three elections on one network."""
    rng = Random(seed)
    central = rng.randrange(nodes)
    apart = [
        (a, b) for a in range(nodes) for b in range(a) if rng.random() < APART and central not in (a, b)
    ]  # The same for all three.
    row: dict[str, float | None] = {}
    for how in HOWS:
        row |= {f"{how}: {name}": value for name, value in _held(how, nodes, apart, seed).items()}
    return row


def _held(how: How, nodes: int, apart: list[tuple[int, int]], seed: int) -> dict[str, float | None]:
    election = AnnounceConfig(
        announce_interval=seconds(1),
        suppress_interval=ms(500),
        listen_timeout=seconds(6),
        group_size=nodes,
        observed_rank="neighbours" if how == "observed" else "none",
    )
    network = NetworkConfig(delay=Delay(mean=DELAY))
    scenario = Scenario(
        group=Group(nodes=nodes, election=election), network=network, run=RunConfig(length=LENGTH, quiet=0)
    )
    world = world_of(scenario, seed)
    sim, reigns = world.sim, Counter[str]()
    sim.watchers.append(
        lambda node, channel, fact, now: reigns.update(
            [node.name] if isinstance(fact, LeaderElected) and fact.term.leader == node.name else []
        )
    )
    links = [(sim.nodes[a], sim.nodes[b]) for a, b in apart]
    sim.block("apart", [pair for a, b in links for pair in ((a, b), (b, a))])
    unheard = Counter(one for pair in apart for one in pair)
    world.start()
    if how == "oracle":
        for node in sim.nodes:
            world.set_score(node, nodes - 1 - unheard[node.index])
    sim.run(until=LENGTH)
    named = Counter(name for node in sim.nodes for name in world.named_by(node))
    name, named_count = named.most_common(1)[0]
    leader = sim.by_name[name]
    return {
        "excess": unheard[leader.index] / (nodes - 1),  # Who is best lacks none.
        "agree": named_count / nodes,
        "changes": float(reigns.total()),
        "messages": sim.message_count / nodes / (LENGTH / 1e9),
    }
