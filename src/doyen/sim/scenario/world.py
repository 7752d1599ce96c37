"""The nodes of a scenario on the one world: their ranks, clocks, places and starts."""

from collections.abc import Sequence
from functools import partial
from math import cos, dist, pi, sin
from typing import Any

from doyen.core.clock import Duration
from doyen.core.host import Port
from doyen.core.ids import NodeId
from doyen.core.rank import RANKS, Standing, Vitals
from doyen.election.announce import Announce
from doyen.election.announce.sup_al import SuppressThenAnnounce
from doyen.election.announce.wakeup import RankedPlace
from doyen.election.pole.config import PoleConfig
from doyen.membership.ring.config import ArbitrationConfig
from doyen.sim.network import Network
from doyen.sim.node import Clock, SimNode
from doyen.sim.scenario.schema import Scenario
from doyen.sim.streams import Stream, Streams
from doyen.sim.topology import build
from doyen.sim.trace import Trace
from doyen.sim.world import ELECTION, Tamper, WatchedSimulation, World


class ScenarioWorld:
    """One run's world and what the scenario says about its nodes.  Built, not yet started."""

    def __init__(
        self, scenario: Scenario, seed: int, *, trace: Trace | None = None, tamper: Tamper | None = None
    ) -> None:
        self.scenario, self._tamper = scenario, tamper
        group, run = scenario.group, scenario.run
        self.streams = Streams(seed)
        topology = build(scenario.topology, group.nodes, self.streams.of("topology"))
        self.network = Network(scenario.network, topology, self.streams)
        self.sim = WatchedSimulation(
            self.network,
            self.streams,
            trace=trace,
            disk_delay=run.disk_delay,
            datagram_max=run.datagram_max,
            wire=run.wire,
        )
        self.own_clocks = bool(scenario.clocks.offset_max or scenario.clocks.drift_max or scenario.churn.steps_clocks())
        self.world = World(
            self.sim,
            scenario.config(),
            standing_of=self._standing,
            clock_of=self._clock,
            incarnation_of=self._incarnation,
            bounded_clocks=self._clocks_are_bounded(),
            timely=self._is_timely(),
            sound_memory=not scenario.churn.corrupts(),
            tamper=self._made,
        )
        self._incarnations: dict[int, int] = {}  # By node: of its present or last start.
        for index in range(group.nodes):
            self.world.add(group.name_of(index))

    def start(self) -> None:
        """All together, or at random within the start's spread."""
        spread, rng = self.scenario.group.start_spread, self.streams.of("start")
        for node in list(self.sim.nodes):
            if spread:
                self.sim.at(int(rng.random() * spread), partial(self._start, node), f"{node.name} starts")
            else:
                self.sim.start(node)

    def _start(self, node: SimNode) -> None:
        if node.host is None:  # Else churn was there first.
            self.sim.start(node)

    # What churn asks for.

    def acting(self) -> list[SimNode]:
        return self.world.acting()

    def leave(self, node: SimNode) -> None:
        self.world.leave(node)

    def resign(self, node: SimNode, to: NodeId | None) -> bool:
        return self.world.resign(node, to)

    def stand(self, node: SimNode) -> None:
        self.world.stand(node)

    def set_score(self, node: SimNode, score: float) -> None:
        self.world.set_score(node, score)

    def step_wall_clock(self, node: SimNode, by: Duration) -> None:
        self.world.wall_offsets[node.index] = self.world.wall_offsets.get(node.index, 0) + by

    def corrupt(self, node: SimNode, rng: Stream) -> bool:
        return self.world.corrupt(node, rng)

    def join(self, name: str | None, neighbours: Sequence[SimNode]) -> SimNode:
        """A new node, linked to those given; where nodes have places it stands near the first of them."""
        topology, index = self.network.topology, len(self.sim.nodes)
        if not topology.complete:
            self._settle(neighbours)
        number = index
        while name is None or name in self.sim.by_name:
            name, number = f"n{number}", number + 1
        node = self.world.add(name)
        self.sim.start(node)
        return node

    def _settle(self, neighbours: Sequence[SimNode]) -> None:
        topology, config = self.network.topology, self.scenario.topology
        place = None
        if topology.places and neighbours:
            rng = self.streams.of("place", topology.size)
            x, y = topology.places[neighbours[0].index]
            angle, away = 2.0 * pi * rng.random(), config.reach_m * (0.1 + 0.8 * rng.random())
            place = (x + away * cos(angle), y + away * sin(angle))
        index = topology.grow(place)
        linked = {node.index for node in neighbours}
        if place is not None and config.shape in ("geometric", "clusters"):
            linked |= {i for i in range(index) if dist(place, topology.places[i]) <= config.reach_m}
        for other in sorted(linked):
            topology.link(index, other)

    # What differs from node to node.

    def _clock(self, index: int) -> Clock | None:
        if not self.own_clocks:
            return None
        clocks, rng = self.scenario.clocks, self.streams.of("clock", index)
        offset, drift = 2.0 * rng.random() - 1.0, 2.0 * rng.random() - 1.0
        least = clocks.offset_max if self.scenario.node else 0  # An agent's clock counts from its machine's start.
        return Clock(least + int(offset * clocks.offset_max), drift * clocks.drift_max)

    def _clocks_are_bounded(self) -> bool:
        """Whether clocks keep to the drift that the stack states; steps are beyond any."""
        if not self.own_clocks or self.scenario.churn.steps_clocks():
            return not self.own_clocks
        config = self.scenario.config()
        tables = [config.table(kind.table) for kind in (config.election_kind(), config.membership_kind()) if kind]
        bounds = [table.drift_max for table in tables if isinstance(table, PoleConfig)]
        bounds += [table.drift for table in tables if isinstance(table, ArbitrationConfig)]
        return self.scenario.clocks.drift_max <= min(bounds, default=0.0)

    def _is_timely(self) -> bool:
        """Whether round trips stay below what a ring's arbitration states, and nobody is slow or held up."""
        config, network = self.scenario.config(), self.scenario.network
        kind = config.membership_kind()
        ring = None if kind is None else config.table(kind.table)
        if not isinstance(ring, ArbitrationConfig):
            return True
        delay = network.delay
        longest = delay.mean + delay.spread + delay.link_spread + (network.reorder_by if network.reorder_prob else 0)
        bounded = delay.model in ("constant", "uniform") and 2 * longest < ring.arbitration
        return bounded and not self.scenario.churn.deeds() & {"slow", "clog"}

    def _incarnation(self, node: SimNode) -> int:
        """As an agent's: the instant of its start in microseconds, and always greater than the one before."""
        found = max(self._incarnations.get(node.index, 0) + 1, self.sim.now // 1000)
        self._incarnations[node.index] = found
        return found

    def _standing(self, index: int) -> Standing | None:
        """By the rank that the scenario asks for; None for observers."""
        group = self.scenario.group
        if group.nodes - group.observer_count <= index < group.nodes:
            return None
        return 0 if group.rank == "wake-up" else RANKS[group.rank](self._vitals(index))

    def _vitals(self, index: int) -> Vitals:
        """What the node would know of itself, from the network as it is."""
        group, network, topology = self.scenario.group, self.network, self.network.topology
        if group.rank == "load":
            return Vitals(load=self.streams.of("load", index).random() * group.load_max)
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

    def _made(self, node: SimNode, channel: str, port: Port, machine: Any) -> Any:
        """What a real node has not: a place among the others, and the chapter's broken protocol."""
        if channel == ELECTION and isinstance(machine, Announce):
            if self.scenario.group.protocol == "sup-al-receipt":
                return SuppressThenAnnounce(node.name, machine.config, port, node.rng(channel), form="receipt")
            if machine.config.rank_map != "none":
                machine.place, machine.common_seed = self._place(node), self.streams.base("common")
        return machine if self._tamper is None else self._tamper(node, channel, port, machine)

    def _place(self, node: SimNode) -> RankedPlace | None:
        """Where it stands among those of the start, if wake-ups depend on it."""
        mine = self.world.claim(node)
        if mine is None:
            return None
        count = self.scenario.group.nodes
        claims = [self.world.claim(other) for other in self.sim.nodes[:count]]
        better = sum(1 for claim in claims if claim is not None and claim > mine)
        return RankedPlace(min(better, count - 1), count)
