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

from doyen.core.clock import Duration, Instant
from doyen.core.host import Host
from doyen.core.ids import NodeId
from doyen.core.leadership import LeaderElected
from doyen.core.order import order
from doyen.errors import InvariantViolated
from doyen.sim.node import SimNode
from doyen_papers.studies.comparators import BeginRound, FloodMax, Vkt
from doyen_papers.studies.spanning import CHANNEL, UNIT, Experiment, Failure, Graph, SpanningSetting, simulate

Algorithm = Literal["spanning", "flooding", "vkt"]
_MACHINES: Final[dict[str, Callable[..., FloodMax | Vkt]]] = {"flooding": FloodMax, "vkt": Vkt}


class Cost(Struct, frozen=True):
    messages: int
    declared_at: float | None
    told_at: float


def compare(
    algorithm: Algorithm, found: Graph, initiator: NodeId, seed: int, *, random: bool = False, unstable: bool = False
) -> Cost:
    delay: Literal["unit", "random"] = "random" if random else "unit"
    setting = SpanningSetting(graph=found, initiators=(initiator,), delay=delay, unstable=unstable)
    if algorithm != "spanning":
        return _Comparison(algorithm, setting, seed).compare(initiator)
    last: list[Instant] = []
    run = simulate(setting, seed, prepare=lambda e: e.sim.watchers.append(partial(_note, last)))
    return Cost(run.messages["total"], run.declared_at, last[-1] / UNIT)


def _note(last: list[Instant], node: SimNode, channel: str, fact: Any, now: Instant) -> None:
    if isinstance(fact, LeaderElected):
        last.append(now)


class _Comparison(Experiment):
    """A comparator on the same graph, with the same failures; its conductors are begun from outside."""

    def __init__(self, algorithm: Algorithm, setting: SpanningSetting, seed: int) -> None:
        self.algorithm, self.seed = algorithm, seed
        self.told: list[Instant] = []
        self.named: dict[NodeId, NodeId] = {}
        self.conducting: set[NodeId] = set()
        self.round_no = 0
        super().__init__(setting, seed)

    def compare(self, initiator: NodeId) -> Cost:
        for node in self.nodes.values():
            self.sim.start(node)
        self.sim.at(0, partial(self._conduct, initiator), "initiate")
        self.sim.run()
        self._check()
        declared_at = None if self.algorithm == "flooding" else self.told[0] / UNIT
        return Cost(self.sim.message_count, declared_at, self.told[-1] / UNIT)

    def _setup(self, node: SimNode, host: Host) -> None:
        standing, neighbours = self.setting.graph.quality[node.name], self.adjacent[node.name]
        build = _MACHINES[self.algorithm]
        host.add(CHANNEL, lambda out: build(node.name, out, standing=standing, neighbours=neighbours))

    def _on_send(self, sender: SimNode, channel: str, receiver: SimNode, message: Any) -> Duration:
        return 0  # The simulation counts messages, whatever they are.

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        self.named[node.name] = fact.term.leader
        self.told.append(now)

    # Conductors that fail.

    def _conduct(self, name: NodeId) -> None:
        self.round_no += 1
        self.conducting.add(name)
        self.sim.tell(self.nodes[name], BeginRound(self.round_no), channel=CHANNEL)
        if self.setting.unstable and name != self.setting.graph.nodes[-1]:
            self.sim.at(self.sim.now + UNIT, partial(self._fall, name), f"{name} is unstable")

    def _fall(self, name: NodeId) -> None:
        machine: Any = self.nodes[name].ports[CHANNEL].machine
        if not machine.done:
            self.conducting.discard(name)
            self.named.pop(name, None)
            self._apply(Failure("fail-node", (name,), 0.0))

    def _look(self) -> None:
        """Let the lowest node of each region conduct in which nobody does."""
        for members in self.regions():
            if not self.conducting & set(members):
                self._conduct(members[0])

    def _check(self) -> None:
        quality = self.setting.graph.quality
        for members in self.regions():
            best = min(members, key=lambda name: (-quality[name], order(name)))
            named = {self.named.get(name) for name in members}
            if named != {best}:
                raise InvariantViolated(
                    f"{self.algorithm} elected {named} in {', '.join(members)}, the best is {best} (seed {self.seed})"
                )
