"""What is on its way when a link fails is lost, also if the link heals before it would have arrived."""

from typing import Any, ClassVar

import pytest
from msgspec import Struct

from doyen.core.clock import Instant, ms
from doyen.core.commands import Command
from doyen.core.effects import Out
from doyen.core.host import Host
from doyen.core.ids import NodeId
from doyen.core.machine import Hears, hears
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Network, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.streams import Streams
from doyen.sim.topology import Topology
from doyen_papers.papers.madm.chapter import SEVEN, SEVEN_QUALITY
from doyen_papers.studies.spanning import Failure, SpanningSetting, graph, simulate


class Word(Struct, frozen=True, array_like=True, tag=True):
    number: int


class Say(Command, frozen=True):
    number: int


class Speaker:
    MESSAGES: ClassVar[Any] = Word

    def __init__(self, out: Out) -> None:
        self.out, self.heard = out, list[int]()

    def start(self, now: Instant) -> None: ...

    def on_timer(self, timer: Any, now: Instant) -> None: ...

    def on_message(self, sender: NodeId, message: Word, now: Instant) -> None:
        self.heard.append(message.number)

    def say(self, command: Say, now: Instant) -> None:
        self.out.multicast(Word(command.number))

    HEARS: ClassVar[Hears] = hears(Say, say)


def setup(node: SimNode, host: Host) -> None:
    host.add("talk", Speaker)


@pytest.mark.parametrize("how", ["cut", "partition"])
@pytest.mark.parametrize("plain", [True, False])
def test_a_multicast_loses_only_whom_the_failure_was_between(plain: bool, how: str) -> None:
    delay = Delay(mean=ms(10)) if plain else Delay(model="uniform", mean=ms(10), spread=1)
    streams = Streams(1)
    sim = Simulation(Network(NetworkConfig(delay=delay), Topology(3, None), streams), streams)
    nodes = [sim.add(NodeId(f"n{i}"), setup) for i in range(3)]
    for node in nodes:
        sim.start(node)

    def heard() -> list[list[int]]:
        return [node.host.ports["talk"].machine.heard for node in nodes if node.host]  # type: ignore[attr-defined]

    sim.tell(nodes[0], Say(1), channel="talk")
    sim.run(until=ms(3))
    if how == "cut":
        sim.cut("c", [(nodes[0], nodes[1])])
    else:
        sim.partition("c", [nodes[0], nodes[2]], [nodes[1]])
    sim.run(until=ms(6))
    sim.heal("c")
    sim.tell(nodes[0], Say(2), channel="talk")
    sim.run(until=ms(40))
    assert heard() == [[], [2], [1, 2]]
    assert sim.network.faults["cut in flight"] == 1


def test_a_link_that_fails_and_heals_within_one_hop_loses_the_message() -> None:
    """Node 4 hears of the election from nobody else."""
    found = graph(SEVEN, SEVEN_QUALITY)
    link = (NodeId("3"), NodeId("4"))
    failures = (Failure("fail-link", link, 1.2), Failure("heal-link", link, 1.8))
    run = simulate(SpanningSetting(graph=found, initiators=(NodeId("2"),), failures=failures), 1, log=True)
    first = [sent for sent in run.log if "4" in (sent.sender, sent.receiver) and sent.at < 2]
    assert [(type(sent.message).__name__, sent.at) for sent in first] == [("Eim", 1), ("State", 1.8), ("State", 1.8)]
    assert all(sent.at != 2 for sent in run.log if sent.sender == "4")  # It would have answered at 2.
    assert [region.leader for region in run.regions] == ["3"]
