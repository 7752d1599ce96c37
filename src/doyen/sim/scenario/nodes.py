"""The world of a scenario: how its nodes differ in rank, clock and incarnation, and which bounds its run keeps."""

from typing import Any

from doyen.core.host import Port
from doyen.core.rank import RANKS, Standing, Vitals
from doyen.election.announce.machine import Announce
from doyen.election.announce.sup_al import SuppressThenAnnounce
from doyen.election.announce.wakeup import RankedPlace
from doyen.election.directory.config import DirectoryConfig
from doyen.election.engine.config import EngineConfig
from doyen.election.pole.config import PoleConfig
from doyen.membership.ring.config import ArbitrationConfig
from doyen.sim.engine import Simulation
from doyen.sim.network import Network
from doyen.sim.node import Clock, SimNode
from doyen.sim.scenario.schema import Scenario
from doyen.sim.streams import Streams
from doyen.sim.topology import build
from doyen.sim.trace import Trace
from doyen.sim.world import ELECTION, Tamper, World, ring_of


def world_of(scenario: Scenario, seed: int, *, trace: Trace | None = None, tamper: Tamper | None = None) -> World:
    """Build the world of one run, with its nodes; none has started."""
    group, run = scenario.group, scenario.run
    streams = Streams(seed)
    network = Network(scenario.network, build(scenario.topology, group.nodes, streams.of("topology")), streams)
    nodes = _Nodes(scenario, network, streams, tamper)
    world = nodes.world = World(
        Simulation(
            network, streams, trace=trace, disk_delay=run.disk_delay, datagram_max=run.datagram_max, wire=run.wire
        ),
        scenario.config(),
        standing_of=nodes.standing,
        clock_of=nodes.clock,
        incarnation_of=nodes.incarnation,
        bounded_clocks=_clocks_are_bounded(scenario),
        timely=_is_timely(scenario),
        sound_memory=not scenario.churn.corrupts(),
        seed_count=group.seed_count,
        tamper=nodes.finish,
    )
    for index in range(group.nodes):
        world.add(group.name_of(index))
    return world


def _has_own_clocks(scenario: Scenario) -> bool:
    return bool(scenario.clocks.offset_max or scenario.clocks.drift_max or scenario.churn.steps_clocks())


def _clocks_are_bounded(scenario: Scenario) -> bool:
    """Return whether clocks keep to the drift that the stack states; steps are beyond any bound."""
    if not _has_own_clocks(scenario) or scenario.churn.steps_clocks():
        return not _has_own_clocks(scenario)
    config = scenario.config()
    tables = [config.table(kind.table) for kind in (config.election_kind(), config.membership_kind()) if kind]
    bounds = [table.drift_max for table in tables if isinstance(table, PoleConfig | DirectoryConfig | EngineConfig)]
    bounds += [table.drift for table in tables if isinstance(table, ArbitrationConfig)]
    return scenario.clocks.drift_max <= min(bounds, default=0.0)


def _is_timely(scenario: Scenario) -> bool:
    """Return whether round trips stay below what a ring's arbitration states, and nobody is slow or held up."""
    ring, network = ring_of(scenario.config()), scenario.network
    if ring is None:
        return True
    delay = network.delay
    longest = delay.mean + delay.spread + delay.link_spread + (network.reorder_by if network.reorder_prob else 0)
    bounded = delay.model in ("constant", "uniform") and 2 * longest < ring.arbitration
    return bounded and not scenario.churn.deeds() & {"slow", "clog"}


class _Nodes:
    """The differences from node to node."""

    world: World

    def __init__(self, scenario: Scenario, network: Network, streams: Streams, tamper: Tamper | None) -> None:
        self._scenario, self._network, self._streams, self._tamper = scenario, network, streams, tamper
        self._incarnations: dict[int, int] = {}  # By node: of its present or last start.

    def clock(self, index: int) -> Clock | None:
        if not _has_own_clocks(self._scenario):
            return None
        clocks, rng = self._scenario.clocks, self._streams.of("clock", index)
        offset, drift = 2.0 * rng.random() - 1.0, 2.0 * rng.random() - 1.0
        least = clocks.offset_max if self._scenario.node else 0  # An agent's clock counts from its machine's start.
        return Clock(least + int(offset * clocks.offset_max), drift * clocks.drift_max)

    def incarnation(self, node: SimNode) -> int:
        """Number a start as an agent does: by its instant in microseconds, and above the one before."""
        found = max(self._incarnations.get(node.index, 0) + 1, node.sim.now // 1000)
        self._incarnations[node.index] = found
        return found

    def standing(self, index: int) -> Standing | None:
        """Return what a node is worth by the rank that the scenario asks for; None for observers."""
        group = self._scenario.group
        if group.nodes - group.observer_count <= index < group.nodes:
            return None
        return 0 if group.rank == "wake-up" else RANKS[group.rank](self._vitals(index))

    def _vitals(self, index: int) -> Vitals:
        """Return what the node would know of itself, from the network as it is."""
        group, network, topology = self._scenario.group, self._network, self._network.topology
        if group.rank == "load":
            return Vitals(load=self._streams.of("load", index).random() * group.load_max)
        if group.rank == "neighbours":
            return Vitals(neighbour_count=len(topology.neighbours(index)) if index < topology.size else topology.size)
        delay, loss = 0, 0.0
        for other in range(topology.size) if group.rank in ("delay", "loss") else ():
            path = topology.path(index, other) if other != index else []
            heard = 1.0 if path is not None else 0.0
            for a, b in path or ():
                delay += network.link_delay(a, b)
                heard *= 1.0 - network.link_loss(a, b)
            loss += 1.0 - heard
        return Vitals(delay_sum_s=delay / 1e9, loss_sum=loss)

    def finish(self, node: SimNode, channel: str, port: Port, machine: Any) -> Any:
        """Give a machine what a real node has not: a place among the others, or the broken protocol instead."""
        if channel == ELECTION and isinstance(machine, Announce):
            if self._scenario.group.protocol == "sup-al-receipt":
                return SuppressThenAnnounce(node.name, machine.config, port, node.rng(channel), form="receipt")
            if machine.config.rank_map != "none":
                machine.place, machine.common_seed = self._place(node), self._streams.base("common")
        return machine if self._tamper is None else self._tamper(node, channel, port, machine)

    def _place(self, node: SimNode) -> RankedPlace | None:
        """Return where a node stands among those of the start, if wake-ups depend on it."""
        mine = self.world.claim(node)
        if mine is None:
            return None
        count = self._scenario.group.nodes
        claims = [self.world.claim(other) for other in node.sim.nodes[:count]]
        better = sum(1 for claim in claims if claim is not None and claim > mine)
        return RankedPlace(min(better, count - 1), count)
