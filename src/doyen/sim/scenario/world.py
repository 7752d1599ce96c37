"""The nodes of a scenario on the simulator: their ranks, clocks and machines, and who names whom."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from math import cos, dist, pi, sin
from random import Random
from typing import Any, Final, TypeAlias

from doyen.core.clock import Instant
from doyen.core.host import Host, Port
from doyen.core.ids import NodeId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.machine import Machine
from doyen.core.rank import RANKS, Claim, Standing, Vitals
from doyen.election.announce import Announce
from doyen.election.baselines import SuppressThenAnnounce
from doyen.election.wakeup import Place
from doyen.sim.engine import Simulation
from doyen.sim.network import Network
from doyen.sim.node import Clock, SimNode
from doyen.sim.scenario.schema import Scenario
from doyen.sim.streams import Streams
from doyen.sim.topology import build
from doyen.sim.trace import Trace

CHANNEL: Final = "election"

MachineType: TypeAlias = type[Announce]  # A scenario runs this; tests give it mutants.
Hearing: TypeAlias = Callable[[SimNode, NodeId, Any], None]


class CountingSimulation(Simulation):
    """Counts what is written to disks."""

    record_count = 0

    def write(self, node: SimNode, port: Port, data: bytes) -> None:
        self.record_count += 1
        super().write(node, port, data)


class Overheard:
    """A machine, and somebody who hears what it hears."""

    def __init__(self, machine: Machine, hear: Callable[[NodeId, Any], None]) -> None:
        self._machine, self._hear = machine, hear

    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
        self._hear(sender, message)
        self._machine.on_message(sender, message, now)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)


class ScenarioWorld:
    """One run's nodes.  Built, not yet started."""

    def __init__(
        self, scenario: Scenario, seed: int, *, trace: Trace | None = None, machine: MachineType = Announce
    ) -> None:
        self.scenario, self.machine_type = scenario, machine
        group, run = scenario.group, scenario.run
        self.config = group.machine_config()
        self.streams = Streams(seed)
        topology = build(scenario.topology, group.nodes, self.streams.of("topology"))
        self.network = Network(scenario.network, topology, self.streams)
        self.counting = CountingSimulation(
            self.network,
            self.streams,
            trace=trace,
            disk_delay=run.disk_delay,
            datagram_max=run.datagram_max,
            wire=run.wire,
        )
        self.sim: Simulation = self.counting
        self.own_clocks = bool(scenario.clocks.offset_max or scenario.clocks.drift_max or scenario.churn.steps_clocks())
        self.terms_are_kept = group.durable_terms and not scenario.churn.loses_disks()
        self.hearings: list[Hearing] = []  # Told of every message that a machine hears.
        self.standings: list[Standing | None] = []  # By node; None may not lead.
        self.names: list[tuple[NodeId, ...]] = []  # By node: the leaders it names,
        self.named_at: list[Instant] = []  # and since when.
        self.began_to_lead = 0
        self._leading: dict[int, int] = {}  # Nodes that act as leaders, and the incarnation that does.
        for index in range(group.nodes):
            eligible = index < group.nodes - group.observer_count
            self._add(group.name_of(index), self._standing(index) if eligible else None)
        self.sim.watchers.append(self._on_fact)

    # Nodes.

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

    def join(self, name: str | None, neighbours: Sequence[SimNode]) -> SimNode:
        """A new node, linked to those given; where nodes have places it stands near the first of them."""
        topology, index = self.network.topology, len(self.sim.nodes)
        if not topology.complete:
            self._settle(neighbours)
        number = index
        while name is None or name in self.sim.by_name:
            name, number = f"n{number}", number + 1
        node = self._add(name, self._standing(index))
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

    def leave(self, node: SimNode) -> None:
        """It says goodbye, as far as it can, and ends."""
        if node.state in ("up", "slow"):
            host = node.host
            if host is not None and hasattr(host.ports[CHANNEL].machine, "leave"):
                host.command(CHANNEL, "leave", node.now())
        self.sim.crash(node)

    def _add(self, name: str, standing: Standing | None) -> SimNode:
        index = len(self.sim.nodes)
        self.standings.append(standing)
        self.names.append(())
        self.named_at.append(0)
        return self.sim.add(NodeId(name), self._setup, clock=self._clock(index) if self.own_clocks else None)

    def _clock(self, index: int) -> Clock:
        clocks, rng = self.scenario.clocks, self.streams.of("clock", index)
        offset, drift = 2.0 * rng.random() - 1.0, 2.0 * rng.random() - 1.0
        return Clock(int(offset * clocks.offset_max), drift * clocks.drift_max)

    def _setup(self, node: SimNode, host: Host) -> None:
        host.add(CHANNEL, lambda port: self._build(node, port, node.rng(CHANNEL)))
        self._leading.pop(node.index, None)
        self.names[node.index], self.named_at[node.index] = (), self.sim.now

    def _build(self, node: SimNode, port: Port, rng: Random) -> Machine:
        machine: Machine
        if self.scenario.group.protocol == "sup-al-receipt":
            machine = SuppressThenAnnounce(node.name, self.config, port, rng, form="receipt")
        else:
            machine = self.machine_type(
                node.name,
                self.config,
                port,
                rng,
                standing=self.standings[node.index],
                place=self._place(node),
                common_seed=self.streams.base("common"),
                restored=self.durable_term(node) if self.scenario.group.durable_terms else None,
            )
        if self.hearings:
            return Overheard(machine, lambda sender, message: self._hear(node, sender, message))  # type: ignore[return-value]
        return machine

    def _hear(self, node: SimNode, sender: NodeId, message: Any) -> None:
        for hear in self.hearings:
            hear(node, sender, message)

    # Ranks.

    def _standing(self, index: int) -> Standing:
        rank = self.scenario.group.rank
        return 0 if rank == "wake-up" else RANKS[rank](self._vitals(index))

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

    def _place(self, node: SimNode) -> Place | None:
        """Where it stands among those of the start, if wake-ups depend on it."""
        mine = self.claim(node)
        if self.config.rank_map == "none" or mine is None:
            return None
        count = self.scenario.group.nodes
        better = sum(1 for other in self.sim.nodes[:count] if (claim := self.claim(other)) is not None and claim > mine)
        return Place(min(better, count - 1), count)

    def durable_term(self, node: SimNode) -> int:
        """What a node that starts now finds on its disk."""
        return node.restored(CHANNEL, int) or 0

    def is_holding(self, node: SimNode) -> bool:
        """Whether a record of its is on its way, or it was not told yet that it arrived: what it has to tell waits."""
        assert node.host is not None
        port = node.host.ports[CHANNEL]
        return port.emit == port._emit_urgent

    def claim(self, node: SimNode) -> Claim | None:
        standing = self.standings[node.index]
        return None if standing is None else (standing, node.name)

    # Who leads, as seen from outside.

    def machine(self, node: SimNode) -> Any:
        assert node.host is not None
        machine = node.host.ports[CHANNEL].machine
        return machine._machine if isinstance(machine, Overheard) else machine

    def named_by(self, node: SimNode) -> tuple[NodeId, ...]:
        machine = self.machine(node)
        if isinstance(machine, Announce):
            return machine.leaders
        return () if machine.leader is None else (machine.leader,)

    def acting(self) -> list[SimNode]:
        """Nodes that act as leaders, best first."""
        found = [self.sim.nodes[i] for i in self._leading if self.sim.nodes[i].host is not None]
        return sorted(found, key=lambda node: (self.standings[node.index] or 0, node.name), reverse=True)

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if node.host is None or channel != CHANNEL:
            return
        if fact.__class__ in (LeaderElected, LeaderLost) and fact.term.leader == node.name:
            if fact.__class__ is LeaderLost:
                self._leading.pop(node.index, None)
            elif node.index not in self._leading:
                self._leading[node.index] = node.incarnation
                self.began_to_lead += 1
        named = self.named_by(node)
        if named != self.names[node.index]:
            self.names[node.index], self.named_at[node.index] = named, self.sim.now

    def regions(self) -> list[list[SimNode]]:
        """The nodes that are up, by whom they reach and are reached by: one member of a region stands for it."""
        up, network = list(self.sim.up()), self.network
        if network.topology.complete and network.unbroken:
            return [up] if up else []
        regions: list[list[SimNode]] = []
        for node in up:
            for region in regions:
                if network.reaches(node.index, region[0].index) and network.reaches(region[0].index, node.index):
                    region.append(node)
                    break
            else:
                regions.append([node])
        return regions

    def disagreement(self, region: list[SimNode]) -> str | None:
        """Why a region does not agree on its best members, or None."""
        named = Counter(self.named_by(node) for node in region)
        if len(named) > 1:
            acting = ", ".join(node.name for node in region if node.index in self._leading) or "nobody"
            whom = ", ".join(f"{'/'.join(leaders) or 'nobody'} by {count}" for leaders, count in named.most_common(4))
            return f"{len(region)} nodes name {len(named)} different leaders ({whom}); {acting} acts"
        leaders = next(iter(named))
        eligible = [node for node in region if self.standings[node.index] is not None]
        count = min(self.config.leader_count, len(eligible))
        if len(leaders) != count:
            return f"{len(leaders)} leaders are named where {count} should be"
        for name in leaders:
            if not any(node.name == name for node in region):
                return f"all name {name}, which is not among them"
            if self.sim.by_name[name].index not in self._leading:
                return f"all name {name}, which does not act as leader"
        if self.config.leader_is == "best" and self.scenario.group.protocol == "announce":
            claims = sorted((self.claim(node) or (0, node.name) for node in eligible), reverse=True)
            best = tuple(name for _, name in claims[:count])
            if leaders != best:
                return f"all name {'/'.join(leaders)}, but the best are {'/'.join(best)}"
        extra = [node.name for node in region if node.index in self._leading and node.name not in leaders]
        if extra:
            return f"{', '.join(extra)} act as leaders though nobody names them"
        return None
