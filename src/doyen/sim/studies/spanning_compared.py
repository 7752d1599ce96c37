"""The spanning election beside its comparators, on one graph and one initiator, nothing failing.  [MADM §6.3]

`told_at` is when the last node knows its leader; `declared_at` when the first does (flooding: never, for nobody knows
when it is over).  Time in units of a hop.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.core.host import Host
from doyen.core.ids import NodeId
from doyen.core.leadership import LeaderElected
from doyen.core.order import order
from doyen.election.spanning.comparators import FloodMax, Vkt
from doyen.errors import InvariantViolated
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Network, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.streams import Streams
from doyen.sim.studies.spanning import CHANNEL, UNIT, Graph, Setting, simulate
from doyen.sim.topology import Topology

Algorithm = Literal["spanning", "flooding", "vkt"]
_MACHINES: Final[dict[str, Callable[..., Any]]] = {"flooding": FloodMax, "vkt": Vkt}


class Cost(Struct, frozen=True):
    messages: int
    declared_at: float | None
    told_at: float


def compare(algorithm: Algorithm, found: Graph, initiator: NodeId, seed: int, *, random: bool = False) -> Cost:
    if algorithm == "spanning":
        setting = Setting(graph=found, initiators=(initiator,), delay="random" if random else "unit")
        last: list[Instant] = []
        run = simulate(setting, seed, prepare=lambda e: e.sim.watchers.append(partial(_note, last)))
        return Cost(run.messages["total"], run.declared_at, last[-1] / UNIT)
    delay = Delay(model="uniform", mean=UNIT // 2, spread=UNIT // 2) if random else Delay(mean=UNIT)
    streams = Streams(seed)
    sim = Simulation(Network(NetworkConfig(delay=delay), Topology(len(found.nodes), None), streams), streams)
    adjacent, last, named = found.neighbours(), [], {}

    def setup(node: SimNode, host: Host) -> None:
        standing, neighbours = found.quality[node.name], adjacent[node.name]
        host.add(CHANNEL, lambda out: _MACHINES[algorithm](node.name, out, standing=standing, neighbours=neighbours))

    def watch(node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        named[node.name] = fact.term.leader
        last.append(now)

    sim.watchers.append(watch)
    nodes = {name: sim.add(name, setup) for name in found.nodes}
    for node in nodes.values():
        sim.start(node)
    sim.at(0, partial(sim.command, nodes[initiator], CHANNEL, "initiate"), "initiate")
    sim.run()
    best = min(found.nodes, key=lambda name: (-found.quality[name], order(name)))
    if set(named.values()) != {best} or len(named) != len(nodes):
        raise InvariantViolated(f"{algorithm} elected {sorted(set(named.values()))}, the best is {best} (seed {seed})")
    return Cost(sim.message_count, None if algorithm == "flooding" else last[0] / UNIT, last[-1] / UNIT)


def _note(last: list[Instant], node: SimNode, channel: str, fact: Any, now: Instant) -> None:
    if isinstance(fact, LeaderElected):
        last.append(now)
