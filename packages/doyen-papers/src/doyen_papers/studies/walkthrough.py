"""The papers' worked examples, played by the real machines: every step as the paper prints it.  [CTOL Fig. 1, 2]"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from doyen.core.clock import FOREVER, Duration, Instant, ms, seconds
from doyen.core.commands import Initiate
from doyen.core.config import load
from doyen.core.host import Host
from doyen.core.ids import NodeId
from doyen.election.churn.config import CTolerantConfig, Variant
from doyen.election.churn.machine import CTolerant
from doyen.election.churn.messages import (
    Decided,
    LeaderHeld,
    NotifyLeader,
    Query,
    Response,
    ResponseCounted,
)
from doyen.errors import ConfigError
from doyen.sim.network import Delay, NetworkConfig
from doyen.sim.node import SimNode
from doyen_papers.studies.frame import simulation
from doyen_papers.studies.views import ToldViews

CHANNEL: Final = "election"
HOP: Final[Duration] = ms(10)


class Example(Struct, frozen=True, kw_only=True):
    """One of the paper's snapshots.  Nodes are called by their hash."""

    variant: Variant  #: of the election
    node_count: int
    missing_max: int
    initiator: int
    asked: tuple[int, ...]
    arrivals: tuple[int, ...]  #: In which order responses come in.
    candidate_count: int = 5
    unhealthy_count: int = 5
    counts: tuple[tuple[int, ...], ...] = ()  #: By row: how often each suspected each.


_FILE: Final = Path(__file__).with_suffix(".toml")
EXAMPLES: Final = {
    name: load(Example, data, f"{_FILE}: {name}")
    for name, data in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()
}


class Step(Struct, frozen=True, kw_only=True, rename={"sender": "from"}):
    """The initiator's state after one more response; candidates without the excluded, as the paper shows them."""

    sender: int
    excluded: dict[str, int]
    candidates: list[int]
    leaders: list[int]


class Walk(Struct, frozen=True, kw_only=True):
    steps: list[Step]
    notified: list[int]
    unicasts: int
    multicasts: int
    leader: int
    agreed: bool  # Whether every node ended with that leader.


def walk(name: str, *, late: Mapping[int, Duration] = MappingProxyType({})) -> Walk:
    """Play an example; `late` holds back the LEADERs of these nodes."""
    if name not in EXAMPLES:
        raise ConfigError(f"{name!r} is not an example: one of {', '.join(EXAMPLES)}")
    return _Walk(EXAMPLES[name], late).run()


class _Scripted(Random):
    """A random stream that draws the nodes that the paper asks."""

    def __init__(self, asked: tuple[int, ...]) -> None:
        super().__init__(0)
        self.asked = asked

    def sample(self, population: Any, k: int, *, counts: Any = None) -> list[Any]:
        asked = [NodeId(str(i)) for i in self.asked]
        assert k == len(asked) and set(asked) <= set(population)
        return asked


class _Walk:
    def __init__(self, example: Example, late: Mapping[int, Duration]) -> None:
        self.example, self.late = example, late
        self.sim = simulation(1, example.node_count, NetworkConfig(delay=Delay(mean=HOP)))
        self.sim.filters.append(self._hold_back)
        self.sim.network_changed()
        self.sim.watchers.append(self._on_fact)
        self.sim.send_watchers.append(self._on_send)
        self.config = CTolerantConfig(
            variant=example.variant,
            missing_max=example.missing_max,
            candidate_count=example.candidate_count,
            unhealthy_count=example.unhealthy_count,
            ask_interval=FOREVER,
            bootstrap_after=FOREVER,
        )
        self.steps: list[Step] = []
        self.notified: list[int] = []
        self.unicasts = self.multicasts = 0
        self.nodes = [self.sim.add(NodeId(str(i)), self._setup) for i in range(example.node_count)]

    def run(self) -> Walk:
        for node in self.nodes:
            self.sim.start(node)
        rows = zip(self.nodes, self.example.counts, strict=False)
        counts = {node.name: {o.name: n for o, n in zip(self.nodes, row, strict=True)} for node, row in rows}
        ToldViews(self.sim).complete(self.nodes, counts)
        self.sim.tell(self.nodes[self.example.initiator], Initiate(), channel=CHANNEL)
        self.sim.run(until=seconds(5))
        machines: list[Any] = [node.ports[CHANNEL].machine for node in self.nodes]
        return Walk(
            steps=self.steps,
            notified=self.notified,
            unicasts=self.unicasts,
            multicasts=self.multicasts,
            leader=self.notified[-1],
            agreed={machine.leader for machine in machines} == {NodeId(str(self.notified[-1]))},
        )

    def _setup(self, node: SimNode, host: Host) -> None:
        host.add(
            CHANNEL,
            lambda port: CTolerant(
                node.name, node.incarnation, self.config, port, _Scripted(self.example.asked), rank=int
            ),
        )

    def _hold_back(self, sender: SimNode, channel: str, receiver: SimNode, message: Any) -> Duration:
        """Delay responses, so that they arrive in the paper's order, one after the other."""
        if isinstance(message, Response):
            return self.example.arrivals.index(sender.index) * 3 * HOP
        if not isinstance(message, Query | NotifyLeader):
            return self.late.get(sender.index, 0)
        return 0

    def _on_send(self, node: SimNode, channel: str, message: Any, now: Instant) -> None:
        self.unicasts += isinstance(message, Query | Response | NotifyLeader)

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        match fact:
            case ResponseCounted():
                excluded = {str(who): count for who, count in fact.excluded}
                self.steps.append(
                    Step(
                        sender=int(fact.sender),
                        excluded=excluded,
                        candidates=[int(c) for c in fact.candidates if c not in excluded],
                        leaders=[int(leader) for leader in fact.leaders],
                    )
                )
            case Decided():
                self.notified.append(int(fact.leader))
            case LeaderHeld() if fact.record.leader == node.name:
                self.multicasts += 1
