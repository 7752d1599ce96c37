"""One election over views with given gaps, for theorems and their counterexamples.  [CTOL §V]"""

from collections.abc import Mapping
from typing import Any, Final

from doyen.core.clock import FOREVER, ms, seconds
from doyen.core.commands import Initiate
from doyen.core.host import Host
from doyen.core.ids import NodeId
from doyen.core.view import Member, Status
from doyen.election.churn.config import CTolerantConfig, Variant
from doyen.election.churn.machine import CTolerant
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Network, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.streams import Streams
from doyen.sim.topology import Topology
from doyen_papers.studies.views import ToldViews

CHANNEL: Final = "election"


def elect(
    lacking: Mapping[int, tuple[int, ...]],
    *,
    size: int,
    c: int,
    f: int = 0,
    dead: tuple[int, ...] = (),
    asked: tuple[int, ...] | None = None,
    variant: Variant = "base",
    seed: int = 1,
) -> list[int | None]:
    """Return each node's leader; None for the dead.  Nodes are called by their hash, and the last one begins.

    `lacking` says whom which views hold for failed; the dead are listed still; `asked` fixes who gets the queries.
    """
    streams = Streams(seed)
    sim = Simulation(Network(NetworkConfig(delay=Delay(mean=ms(5))), Topology(size, None), streams), streams)
    config = CTolerantConfig(
        variant=variant, missing_max=c, failure_max=f, ask_interval=FOREVER, bootstrap_after=FOREVER
    )

    def setup(node: SimNode, host: Host) -> None:
        rng: Any = node.rng(CHANNEL)
        if asked is not None:
            rng.sample = lambda population, k: [NodeId(str(i)) for i in asked][:k]
        host.add(
            CHANNEL, lambda port: CTolerant(node.name, node.incarnation, config, port, rng, rank=int, durable=False)
        )

    nodes = [sim.add(NodeId(str(i)), setup) for i in range(size)]
    for node in nodes:
        sim.start(node)
    views = ToldViews(sim)
    views.complete(nodes)
    for i, members in lacking.items():
        views.set(nodes[i], [Member(node=NodeId(str(m)), status=Status.FAILED) for m in members])
    for i in dead:
        sim.crash(nodes[i])
    sim.tell(nodes[-1], Initiate(), channel=CHANNEL)
    sim.run(until=seconds(4))
    return [_leader(node) for node in nodes]


def _leader(node: SimNode) -> int | None:
    if node.host is None:
        return None
    machine: Any = node.host.ports[CHANNEL].machine
    return None if machine.leader is None else int(machine.leader)
