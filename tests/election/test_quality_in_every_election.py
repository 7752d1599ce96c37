"""The quality factor is a rank in every election, and an oracle of POLE: each elects node 10 of Table 6.5.  [MADM]"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from doyen.core.clock import Instant, ms, seconds
from doyen.core.host import Host, Port
from doyen.core.ids import NodeId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.rank import ScoreGiven, ScoreWanted
from doyen.core.view import Member, ViewChanged, ViewEditor
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.machine import Announce
from doyen.election.churn.config import CTolerantConfig
from doyen.election.churn.local import Local
from doyen.election.churn.machine import CTolerant
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.machine import Pole
from doyen.election.spanning.config import SpanningConfig
from doyen.election.spanning.machine import Spanning
from doyen.score.probes import Rating
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Network, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.streams import Streams
from doyen.sim.topology import Topology
from doyen_papers.papers.madm.chapter import ATTRIBUTES, GRAPHS, TABLES, neighbours, quality_of

ROWS = {NodeId(row.node): row.values for row in TABLES["6.5"]}
QUALITY = quality_of("6.5")
CHANNEL = "election"
Build = Callable[[SimNode, Port], Any]


def rating(node: NodeId) -> Rating:
    """As a node has it: one probe per attribute."""
    return Rating(ATTRIBUTES, {name: partial(float, value) for name, value in ROWS[node].items()})


def rank(node: NodeId) -> float:
    return -QUALITY[node]  # There the lowest leads.


def oracle(node: NodeId) -> Callable[[int, NodeId | None], tuple[float, ...] | None]:
    return lambda epoch, gone: (round(QUALITY[node], 6),)


BUILDS: dict[str, Build] = {
    "announce": lambda node, port: Announce(
        node.name, AnnounceConfig(group_size=12), port, node.rng("e"), standing=rating(node.name)()
    ),
    "churn-tolerant": lambda node, port: CTolerant(
        node.name,
        node.incarnation,
        CTolerantConfig(variant="base", bootstrap_after=seconds(1)),
        port,
        node.rng("e"),
        rank=rank,
        durable=False,
    ),
    "local": lambda node, port: Local(node.name, port, rank=rank),
    "spanning": lambda node, port: Spanning(
        node.name,
        SpanningConfig(hop_delay=ms(50), diameter_max=11),
        port,
        measure=rating(node.name),
        neighbours=[NodeId(other) for other in neighbours(GRAPHS["6.5"])[node.name]],
        returning=True,
    ),
    "pole, by oracle": lambda node, port: Pole(
        node.name, PoleConfig(), port, node.rng("e"), voters=ROWS, score=oracle(node.name), newcomer=True, durable=False
    ),
    "pole, asked": lambda node, port: Pole(
        node.name, PoleConfig(), port, node.rng("e"), voters=ROWS, newcomer=True, durable=False
    ),
}


@pytest.mark.parametrize("election", BUILDS)
def test_every_election_elects_the_greatest_quality(election: str) -> None:
    streams = Streams(1)
    network = Network(NetworkConfig(delay=Delay(mean=ms(5))), Topology(len(ROWS), None), streams)
    sim = Simulation(network, streams)
    named: dict[NodeId, NodeId | None] = {}

    def setup(node: SimNode, host: Host) -> None:
        host.add(CHANNEL, lambda port: BUILDS[election](node, port))

    def watch(node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if isinstance(fact, LeaderElected | LeaderLost):
            named[node.name] = fact.term.leader if isinstance(fact, LeaderElected) else None
        elif isinstance(fact, ScoreWanted):
            sim.tell(node, ScoreGiven(fact.number, rating(node.name)()))

    sim.watchers.append(watch)
    nodes = {name: sim.add(name, setup) for name in ROWS}
    for node in nodes.values():
        sim.start(node)
    view = ViewEditor()
    for node in nodes.values():
        view.put(Member(node=node.name, incarnation=node.incarnation))
    for node in nodes.values():
        sim.tell(node, ViewChanged(view.view, tuple(nodes)))
    sim.run(until=seconds(60))
    assert named == dict.fromkeys(ROWS, "10")
