"""The spanning election beside its comparators: on one graph, from one initiator.  [MADM §6.2.4, §6.3]

Best case: nothing fails.  Worst case: every conductor fails one hop after it began, but the highest of all; for the
comparators a failure detector then tells the lowest of each region at once, which ours has to find out by waiting, so
in the worst case compare messages, not times.

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
from doyen.core.link import LinkChanged
from doyen.core.order import order
from doyen.election.spanning.comparators import FloodMax, Vkt
from doyen.errors import InvariantViolated
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Network, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.streams import Streams
from doyen.sim.topology import Topology
from doyen_papers.score.graph import regions
from doyen_papers.studies.spanning import CHANNEL, UNIT, Graph, Setting, simulate

Algorithm = Literal["spanning", "flooding", "vkt"]
_MACHINES: Final[dict[str, Callable[..., FloodMax | Vkt]]] = {"flooding": FloodMax, "vkt": Vkt}


class Cost(Struct, frozen=True):
    messages: int
    declared_at: float | None
    told_at: float


def compare(
    algorithm: Algorithm, found: Graph, initiator: NodeId, seed: int, *, random: bool = False, unstable: bool = False
) -> Cost:
    if algorithm == "spanning":
        setting = Setting(graph=found, initiators=(initiator,), delay="random" if random else "unit", unstable=unstable)
        last: list[Instant] = []
        run = simulate(setting, seed, prepare=lambda e: e.sim.watchers.append(partial(_note, last)))
        return Cost(run.messages["total"], run.declared_at, last[-1] / UNIT)
    return _Comparison(algorithm, found, seed, random=random, unstable=unstable).run(initiator)


def _note(last: list[Instant], node: SimNode, channel: str, fact: Any, now: Instant) -> None:
    if isinstance(fact, LeaderElected):
        last.append(now)


class _Comparison:
    def __init__(self, algorithm: Algorithm, found: Graph, seed: int, *, random: bool, unstable: bool) -> None:
        delay = Delay(model="uniform", mean=UNIT // 2, spread=UNIT // 2) if random else Delay(mean=UNIT)
        streams = Streams(seed)
        self.sim = Simulation(Network(NetworkConfig(delay=delay), Topology(len(found.nodes), None), streams), streams)
        self.algorithm, self.graph, self.unstable, self.seed = algorithm, found, unstable, seed
        self.adjacent = found.neighbours()
        self.told: list[Instant] = []
        self.named: dict[NodeId, NodeId] = {}
        self.conducting: set[NodeId] = set()
        self.round_no = 0
        self.sim.watchers.append(self._watch)
        self.nodes = {name: self.sim.add(name, self._setup) for name in found.nodes}

    def run(self, initiator: NodeId) -> Cost:
        for node in self.nodes.values():
            self.sim.start(node)
        self.sim.at(0, partial(self._conduct, initiator), "initiate")
        self.sim.run()
        self._check()
        declared_at = None if self.algorithm == "flooding" else self.told[0] / UNIT
        return Cost(self.sim.message_count, declared_at, self.told[-1] / UNIT)

    def _setup(self, node: SimNode, host: Host) -> None:
        standing, neighbours = self.graph.quality[node.name], self.adjacent[node.name]
        build = _MACHINES[self.algorithm]
        host.add(CHANNEL, lambda out: build(node.name, out, standing=standing, neighbours=neighbours))

    def _watch(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        self.named[node.name] = fact.term.leader
        self.told.append(now)

    # Conductors that fail.

    def _conduct(self, name: NodeId) -> None:
        self.round_no += 1
        self.conducting.add(name)
        self.sim.command(self.nodes[name], CHANNEL, "initiate", round_no=self.round_no)
        if self.unstable and name != self.graph.nodes[-1]:
            self.sim.at(self.sim.now + UNIT, partial(self._fall, name), f"{name} is unstable")

    def _fall(self, name: NodeId) -> None:
        node = self.nodes[name]
        assert node.host is not None
        if node.host.ports[CHANNEL].machine.done:  # type: ignore[attr-defined]
            return
        self.sim.cut(f"node {name}", [(node, self.nodes[other]) for other in self.adjacent[name]])
        self.sim.crash(node)
        self.conducting.discard(name)
        self.named.pop(name, None)
        for other in self.adjacent[name]:
            self.sim.tell(self.nodes[other], LinkChanged(name, False))
        self.sim.at(self.sim.now + UNIT, self._look, "failure detector")

    def _look(self) -> None:
        for members in self._regions():
            if not self.conducting & set(members):
                self._conduct(NodeId(members[0]))

    def _regions(self) -> list[list[str]]:
        alive = {name for name, node in self.nodes.items() if node.host is not None}
        return regions({name: [other for other in self.adjacent[name] if other in alive] for name in alive})

    def _check(self) -> None:
        for members in self._regions():
            best = min(members, key=lambda name: (-self.graph.quality[NodeId(name)], order(name)))
            named = {self.named.get(NodeId(name)) for name in members}
            if named != {best}:
                raise InvariantViolated(
                    f"{self.algorithm} elected {named} in {', '.join(members)}, the best is {best} (seed {self.seed})"
                )
