"""Readable conversations: what nodes told and what the world did, line by line, against a golden file.

`REWRITE=1 pytest tests/transcripts` writes the files anew; commit a changed one only if you understand the change.
"""

import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from doyen.core import Host, NodeId, ms, seconds
from doyen.core.commands import LeaveGroup
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.machine import Announce
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Network, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.streams import Streams
from doyen.sim.topology import Topology
from doyen.sim.trace import Trace

HERE = Path(__file__).parent
CONFIG = AnnounceConfig(
    announce_interval=seconds(1), listen_timeout=seconds(3), suppress_interval=ms(500), group_size=4
)
EARLIEST = AnnounceConfig(
    announce_interval=seconds(1),
    listen_timeout=seconds(3),
    suppress_interval=ms(500),
    group_size=4,
    leader_is="earliest",
)


class Stage:
    """Four processes, ten milliseconds apart, and what happens to them."""

    def __init__(self, config: AnnounceConfig = CONFIG) -> None:
        self.lines = io.StringIO()
        streams = Streams(4)
        network = Network(NetworkConfig(delay=Delay(mean=ms(10))), Topology(4, None), streams)
        self.sim = Simulation(network, streams, trace=Trace(self.lines), wire=True)

        def setup(node: SimNode, host: Host) -> None:
            host.add("election", lambda out: Announce(node.name, config, out, node.rng("election")))

        self.nodes = {name: self.sim.add(NodeId(name), setup) for name in ("ant", "bee", "cat", "dog")}

    def start(self, *names: str) -> None:
        for name in names or self.nodes:
            self.sim.start(self.nodes[name])

    def at(self, second: float, what: str, act: Callable[[], object]) -> None:
        self.sim.at(seconds(second), act, what)

    def play(self, until: float) -> list[str]:
        self.sim.run(until=seconds(until))
        lines = self.lines.getvalue().splitlines()
        return [line for line in lines if line.split()[1] in ("fact", "world", "multicast")]


def split_brain_heals() -> list[str]:
    """Two sides elect a leader each, at equal terms; when they meet again, rank decides and the term is lifted."""
    stage = Stage()
    stage.start()
    nodes = stage.nodes
    left, right = [nodes["ant"], nodes["bee"]], [nodes["cat"], nodes["dog"]]
    stage.at(2.5, "cut ant, bee from cat, dog", lambda: stage.sim.partition("split", left, right))
    stage.at(7.25, "heal", lambda: stage.sim.heal("split"))
    return stage.play(10)


def leader_killed() -> list[str]:
    """Silence for three intervals, then a new draw; the best survivor takes over."""
    stage = Stage()
    stage.start()
    stage.at(2.7, "kill dog", lambda: stage.sim.crash(stage.nodes["dog"]))
    return stage.play(8)


def leader_leaves_in_order() -> list[str]:
    """A Bye spares the others the wait."""
    stage = Stage()
    stage.start()
    stage.at(2.7, "dog leaves", lambda: stage.sim.tell(stage.nodes["dog"], LeaveGroup(), channel="election"))
    return stage.play(5)


def paused_leader_wakes_up_believing() -> list[str]:
    """A stopped process resumes as leader for as long as it takes to hear a better one; here it is the best itself."""
    stage = Stage()
    stage.start()
    stage.at(2.7, "pause dog", lambda: stage.sim.pause(stage.nodes["dog"]))
    stage.at(8.2, "resume dog", lambda: stage.sim.resume(stage.nodes["dog"]))
    return stage.play(10)


def late_joiner_in_le_m_does_not_usurp() -> list[str]:
    """Whoever woke first leads; who joins later has woken later, whatever it draws."""
    stage = Stage(EARLIEST)
    stage.start("ant", "bee", "cat")
    stage.at(2.4, "dog joins", lambda: stage.start("dog"))
    return stage.play(5)


SCENES = [
    split_brain_heals,
    leader_killed,
    leader_leaves_in_order,
    paused_leader_wakes_up_believing,
    late_joiner_in_le_m_does_not_usurp,
]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_the_conversation_is_as_recorded(scene: Callable[[], list[str]]) -> None:
    golden = HERE / f"{scene.__name__}.txt"
    told = f"# {scene.__doc__}\n" + "\n".join(scene()) + "\n"
    if os.environ.get("REWRITE"):
        golden.write_text(told)
    assert told == golden.read_text()
