"""Any schedule: whatever the network and the world do, after quiet time everybody names the best that is there."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doyen.core import Host, NodeId, ms, seconds
from doyen.core.commands import LeaveGroup
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.machine import Announce
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Loss, Network, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.streams import Streams
from doyen.sim.topology import Topology

QUIET_S = 25
actions = st.tuples(
    st.floats(0.1, 12.0),
    st.sampled_from(["crash", "start", "pause", "resume", "leave", "cut", "heal", "slow", "score"]),
    st.integers(0, 6),
)


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "size": draw(st.integers(1, 7)),
        "seed": draw(st.integers(0, 2**32)),
        "config": AnnounceConfig(
            announce_interval=seconds(1),
            listen_timeout=draw(st.sampled_from([seconds(2.5), seconds(3), seconds(4)])),
            suppress_interval=draw(st.sampled_from([0, ms(300), seconds(1)])),
            leader_is=draw(st.sampled_from(["best", "earliest"])),
            leader_count=draw(st.integers(1, 3)),
            query_timeout=draw(st.sampled_from([0, ms(400)])),
            timer=draw(st.sampled_from(["uniform", "exponential"])),
            ageing_after=draw(st.sampled_from([seconds(1.5), seconds(100)])),
            group_size=7,
        ),
        "loss": draw(st.sampled_from([0.0, 0.2, 0.5])),
        "jitter": draw(st.sampled_from([0, ms(90)])),
        "duplicates": draw(st.sampled_from([0.0, 0.3])),
        "actions": draw(st.lists(actions, max_size=12)),
    }


def network_config(world: dict[str, Any]) -> NetworkConfig:
    delay = Delay(model="uniform" if world["jitter"] else "constant", mean=ms(100), spread=world["jitter"])
    return NetworkConfig(
        delay=delay, loss=Loss(model="uncorrelated", prob=world["loss"]), duplicate_prob=world["duplicates"]
    )


def machine(node: SimNode) -> Announce:
    assert node.host is not None
    found = node.host.ports["election"].machine
    assert isinstance(found, Announce)
    return found


class Watch:
    """What must hold at every fact."""

    def __init__(self) -> None:
        self.terms: dict[tuple[int, int], int] = {}  # By node and life: the greatest number seen.
        self.reigns: dict[tuple[int, int], int | None] = {}  # By node and life: the reign it was told to be its own.
        self.looked = 0

    def __call__(self, node: SimNode, channel: str, fact: Any, now: int) -> None:
        self.looked += 1
        if node.host is None:
            return
        life, mine = (node.index, node.incarnation), machine(node)
        number = mine.term_number
        assert number >= self.terms.get(life, 0), "a term went back"
        self.terms[life] = number
        if fact.term.leader == node.name:
            held = self.reigns.get(life)
            if isinstance(fact, LeaderElected):
                assert held is None or fact.term.number > held, "elected twice under one term"
                self.reigns[life] = fact.term.number
            elif isinstance(fact, LeaderLost):
                assert held == fact.term.number, "lost what it did not hold"
                self.reigns[life] = None
        assert mine.contradiction() is None


def act(sim: Simulation, what: str, node: SimNode, left: set[int]) -> None:
    match what:
        case "crash":
            sim.crash(node)
        case "start" if node.host is None:
            left.discard(node.index)
            sim.start(node)
        case "pause":
            sim.pause(node)
        case "resume":
            sim.resume(node)
        case "leave" if node.state == "up":
            left.add(node.index)
            sim.tell(node, LeaveGroup(), channel="election")
        case "cut":
            sim.partition("cut", [node], [other for other in sim.nodes if other is not node])
        case "heal":
            sim.heal("cut")
        case "slow":
            sim.slow_down(node, ms(50))
        case _:
            pass


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(worlds())
def test_after_quiet_time_everybody_names_the_best_that_is_there(world: dict[str, Any]) -> None:
    streams = Streams(world["seed"])
    network = Network(network_config(world), Topology(world["size"], None), streams)
    sim = Simulation(network, streams, wire=True)
    watch, left = Watch(), set[int]()
    sim.watchers.append(watch)

    def setup(node: SimNode, host: Host) -> None:
        host.add("election", lambda out: Announce(node.name, world["config"], out, node.rng("election")))

    for i in range(world["size"]):
        sim.start(sim.add(NodeId(f"n{i}"), setup))
    for when, what, target in world["actions"]:
        node = sim.nodes[target % world["size"]]
        sim.at(seconds(when), lambda what=what, node=node: act(sim, what, node, left), what)  # type: ignore[misc]
    sim.run(until=seconds(13))
    # Quiet: no loss, no cut, nobody paused or slow.
    sim.network.config = NetworkConfig(delay=Delay(mean=ms(100)))
    sim.heal("cut")
    for node in sim.nodes:
        sim.resume(node)
        sim.slow_down(node, 0)
    sim.run(until=seconds(13 + QUIET_S))
    present = [machine(node) for node in sim.up() if node.index not in left]
    if not present:
        return
    named = {mine.leaders for mine in present}
    assert len(named) == 1, f"they name {named}"
    leaders = named.pop()
    assert len(leaders) == min(world["config"].leader_count, len(present))
    assert {mine.me for mine in present if mine.is_leader} == set(leaders)
    if world["config"].leader_is == "best":
        assert leaders == tuple(sorted((mine.me for mine in present), reverse=True)[: len(leaders)])
    assert watch.looked > 0
