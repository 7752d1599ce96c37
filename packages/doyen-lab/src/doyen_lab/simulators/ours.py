"""The workloads on doyen's simulator: trace hash and fault table on, as always."""

from typing import Any

from doyen.core.clock import FOREVER, Duration, Instant
from doyen.core.host import Host
from doyen.core.leadership import LeaderElected
from doyen.election.announce.machine import Announce
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Loss, Network, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.streams import Streams
from doyen.sim.topology import Topology
from doyen_lab.simulators.ping import MemberSilent, Pinger
from doyen_lab.simulators.workloads import Detected, Detection, Elected, Election, names


def elect(work: Election, seed: int) -> Elected:
    sim = _simulation(work.nodes, work.delay, work.loss, seed)
    members = names(work.nodes)
    winner, config = members[-1], work.config
    convinced: set[int] = set()
    outcome = (0, 0)

    def setup(node: SimNode, host: Host) -> None:
        host.add("election", lambda port: Announce(node.name, config, port, node.rng("election")))

    def on_fact(node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        nonlocal outcome
        if fact.__class__ is LeaderElected and fact.term.leader == winner and node.index not in convinced:
            convinced.add(node.index)
            if len(convinced) == work.nodes:
                outcome = (sim.sent_at, sim.message_count)
                sim.stopped = work.duration is None

    sim.watchers.append(on_fact)
    for name in members:
        sim.start(sim.add(name, setup))
    sim.run(until=FOREVER if work.duration is None else work.duration)
    sim.trace.digest()
    return Elected(outcome[0] / 1e9, outcome[1], sim.delivery_count)


def detect(work: Detection, seed: int) -> Detected:
    sim = _simulation(work.nodes, work.delay, work.loss, seed)
    members, config, silent = names(work.nodes), work.config, 0

    def setup(node: SimNode, host: Host) -> None:
        host.add("ping", lambda port: Pinger(members, node.index, config, port, node.rng("ping")))

    def on_fact(node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        nonlocal silent
        silent += fact.__class__ is MemberSilent

    sim.watchers.append(on_fact)
    for name in members:
        sim.start(sim.add(name, setup))
    sim.run(until=work.duration)
    sim.trace.digest()
    return Detected(work.nodes * work.periods, silent, sim.delivery_count)


def _simulation(nodes: int, delay: Duration, loss: float, seed: int) -> Simulation:
    streams = Streams(seed)
    config = NetworkConfig(delay=Delay(mean=delay), loss=Loss(model="uncorrelated", prob=loss))
    return Simulation(Network(config, Topology(nodes, None), streams), streams)
