"""Spanning elections by simulation: one run of the real machines on a given graph, with failures on demand.  [MADM]

Time is in units of the longest hop, δ: `unit` delays take exactly one, `random` ones anything up to one, and messages
may overtake each other.  A failure at t comes after the deliveries of t, and what is on the link is lost; a node that
fails takes its links with it.  Neighbours are told of both at once, unless `silent`; then they find out by waiting.

The chapter's failure detector is ours to play: one hop after a failure or a declaration, a region in which no election
is running and somebody's leader is not there has its lowest such node told.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import isfinite
from typing import Any, Final, Literal, cast

from msgspec import Struct
from msgspec.msgpack import encode
from msgspec.structs import replace

from doyen.core.clock import Duration, Instant, seconds
from doyen.core.commands import Initiate
from doyen.core.config import need
from doyen.core.host import Host, Port
from doyen.core.ids import NodeId, node_id
from doyen.core.leadership import LeaderElected
from doyen.core.link import LinkChanged
from doyen.core.order import order
from doyen.election.spanning.config import SpanningConfig
from doyen.election.spanning.machine import Spanning
from doyen.election.spanning.messages import Ack, Eim, ElectionId, LeaderUnreachable, Mqfm, Phase
from doyen.errors import ConfigError, InvariantViolated
from doyen.sim.network import Delay, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.trace import Trace
from doyen_papers.score.graph import distances, regions
from doyen_papers.studies.frame import simulation
from doyen_papers.studies.spanning_counts import NAMES

Edge = tuple[str, str]
What = Literal["fail-link", "heal-link", "fail-node", "recover"]

CHANNEL: Final = "election"
UNIT: Final[Duration] = seconds(1)
KINDS: Final = ("eim", "ack", "agm", "mqfm", "ldm", "request")
#: What belongs to the requests: their answers, and what is asked after failures, returns and new links.
_OF_REQUEST: Final = frozenset({"request", "notyet", "enquire", "state", "reset"})
CALM_PULSES: Final = 4
HOPS_MAX: Final = 1_000_000
ROUNDS_MAX: Final = 200  # Waits for a declaration after the last failure until a run counts as never ending.


class Graph(Struct, frozen=True):
    """Named nodes, the links between them, and a quality each."""

    nodes: tuple[NodeId, ...]  # From the lowest name.
    edges: tuple[tuple[NodeId, NodeId], ...]
    quality: dict[NodeId, float]

    def neighbours(self) -> dict[NodeId, list[NodeId]]:
        found: dict[NodeId, list[NodeId]] = {node: [] for node in self.nodes}
        for a, b in self.edges:
            found[a].append(b)
            found[b].append(a)
        return found


def graph(edges: Iterable[Edge], quality: Mapping[str, float]) -> Graph:
    """Return a graph after checks; a node that only `quality` names has no links."""
    seen: dict[tuple[str, ...], Edge] = {}
    for a, b in edges:
        for name in (a, b):
            if name not in quality:
                raise ConfigError(f"edge {a}-{b}: node {name} has no quality: add a line for it")
        if a == b:
            raise ConfigError(f"edge {a}-{b}: a node is not its own neighbour")
        key = tuple(sorted((a, b)))
        if key in seen:
            raise ConfigError(f"edge {a}-{b}: is there twice")
        seen[key] = (a, b)
    for node, value in quality.items():
        if not isfinite(value):
            raise ConfigError(f"node {node}: quality {value} is not a finite number")
    if not quality:
        raise ConfigError("the graph has no nodes: nobody could lead")
    nodes = tuple(sorted((node_id(name) for name in quality), key=order))
    return Graph(nodes, tuple((NodeId(a), NodeId(b)) for a, b in seen.values()), {n: float(quality[n]) for n in nodes})


class Failure(Struct, frozen=True):
    """A failure or a return, and its time."""

    what: What
    who: tuple[NodeId, ...]  # A node, or the two ends of a link.
    at: float  # In units.


class SpanningSetting(Struct, frozen=True, kw_only=True):
    graph: Graph
    initiators: tuple[NodeId, ...]
    delay: Literal["unit", "random"] = "unit"
    failures: tuple[Failure, ...] = ()
    silent: bool = False  # Neighbours are not notified of failures.
    co_parent_hops: int = 3
    diameter_max: int = 0  # 0: N − 1, which no tree exceeds.
    pulse_units: float = 0.0  # 0: none.
    fifo: bool = False
    slowness: float = 1.0  # The longest hop, in units of δ: above 1 the machines' patience is too short.
    unaided: bool = False  # No failure detector: whatever is wrong, the machines find out by themselves.
    durable: bool = False  # The highest sequence that a node has seen survives its failure.
    unstable: bool = False  # [MADM §6.2.4] Every initiator fails one hop after its EIM, but the highest.
    unstable_max: int = 0  # How many of them do; 0: all.

    def __post_init__(self) -> None:
        known, edges = set(self.graph.nodes), {frozenset(edge) for edge in self.graph.edges}
        for node in self.initiators:
            need(node in known, "initiators", f"{node} is not a node of the graph")
        need(bool(self.initiators), "initiators", "must name at least one node")
        for failure in self.failures:
            who, shown = failure.who, f"{'-'.join(failure.who)}@{failure.at:g}"
            need(len(who) != 2 or frozenset(who) in edges, failure.what, f"{shown}: the graph has no such edge")
            need(len(who) != 1 or who[0] in known, failure.what, f"{shown}: the graph has no such node")
            in_time = 0 <= failure.at <= HOPS_MAX
            need(in_time, failure.what, f"{shown}: the time must be 0 or more, at most {HOPS_MAX}")
        pulse = self.pulse_units
        need(pulse == 0 or 4 <= pulse <= HOPS_MAX, "pulse", f"{pulse:g} must be from 4 to {HOPS_MAX} hops; 0: none")

    def config(self) -> SpanningConfig:
        more = {"pulse_interval": round(self.pulse_units * UNIT)} if self.pulse_units else {}
        return SpanningConfig(
            hop_delay=UNIT,
            diameter_max=self.diameter_max or max(len(self.graph.nodes) - 1, 1),
            co_parent_hops=self.co_parent_hops,
            **more,
        )


class Region(Struct, frozen=True):
    members: tuple[NodeId, ...]
    leader: NodeId | None  # None: they do not agree, or name one that is not there.


class Declaration(Struct, frozen=True):
    """The first word of a leader, and who was there to be counted."""

    at: float
    election: ElectionId
    conductor: NodeId
    leader: NodeId
    took_part: frozenset[NodeId]  # Got the EIM, were in the conductor's region, and have not failed since.


class Sent(Struct, frozen=True):
    at: float
    sender: NodeId
    receiver: NodeId
    message: Any


class Run(Struct, kw_only=True):
    regions: list[Region]
    messages: dict[str, int]
    kinds: dict[str, int]  # The same, by the message's own name.
    bits: dict[str, int]  # The longest of each kind, as encoded, without its envelope.
    declared_at: float | None
    settled_at: float | None  # With a pulse: since when all agree.
    terminated: bool
    declarations: list[Declaration]
    elections: dict[NodeId, ElectionId | None]  # By living node.
    named: dict[NodeId, NodeId | None]  # By living node: its leader.
    parents: dict[ElectionId, dict[NodeId, NodeId | None]]  # As each told its first parent.
    log: list[Sent]
    trace_hash: str


def simulate(
    setting: SpanningSetting,
    seed: int,
    *,
    trace: Trace | None = None,
    log: bool = False,
    prepare: Callable[["Experiment"], None] | None = None,
) -> Run:
    experiment = Experiment(setting, seed, trace=trace, log=log)
    if prepare is not None:
        prepare(experiment)
    return experiment.run()


class Experiment:
    """One run, and an account of it from outside."""

    def __init__(self, setting: SpanningSetting, seed: int, *, trace: Trace | None = None, log: bool = False) -> None:
        self.setting, self.config = setting, setting.config()
        self.adjacent = setting.graph.neighbours()
        hop = round(UNIT * setting.slowness)
        delay = Delay(mean=hop) if setting.delay == "unit" else Delay(model="uniform", mean=hop // 2, spread=hop // 2)
        network = NetworkConfig(delay=delay, fifo=setting.fifo)
        self.sim = sim = simulation(seed, len(setting.graph.nodes), network, trace)
        sim.filters.append(self._on_send)
        sim.watchers.append(self._on_fact)
        sim.network_changed()
        self.kinds: Counter[str] = Counter()
        self.bits: dict[str, int] = {}
        self.log: list[Sent] | None = [] if log else None
        self.joined: dict[ElectionId, set[NodeId]] = {}
        self.parents: dict[ElectionId, dict[NodeId, NodeId | None]] = {}
        self.declarations: dict[tuple[ElectionId, NodeId], Declaration] = {}
        self.cut: set[frozenset[NodeId]] = set()
        self.doomed: set[NodeId] = set()
        self.fallen_count = 0
        self.settled_at: Instant = 0
        self._looking_at: Instant = -1
        self.nodes = {name: sim.add(name, self._setup) for name in setting.graph.nodes}

    def run(self) -> Run:
        sim, setting = self.sim, self.setting
        for node in self.nodes.values():
            sim.start(node)
        for name in sorted(setting.initiators, key=order):
            sim.at(0, partial(sim.tell, self.nodes[name], Initiate(), channel=CHANNEL), f"{name} initiates")
        for failure in setting.failures:
            when = round(failure.at * UNIT)
            sim.at(when, partial(self._apply, failure), f"{failure.what} {'-'.join(failure.who)}")
        last = max((round(failure.at * UNIT) for failure in setting.failures), default=0)
        end = last + ROUNDS_MAX * self.config.declaration_wait
        if not setting.pulse_units:
            sim.run(until=end)
            return self._result()
        calm = 0  # With a pulse it never falls silent: until it has been settled for a few.
        while sim.now < end and calm < CALM_PULSES:
            sim.run(until=sim.now + self.config.pulse_interval)
            calm = calm + 1 if sim.now >= last and self._terminated() else 0
            if calm == 1:
                self.settled_at = sim.now
        return self._result()

    # What is there.

    def machine(self, name: NodeId) -> Spanning | None:
        host = self.nodes[name].host
        found = None if host is None else host.ports[CHANNEL].machine
        assert found is None or isinstance(found, Spanning)
        return found

    def alive(self, name: NodeId) -> bool:
        return self.nodes[name].host is not None

    def linked(self, name: NodeId) -> list[NodeId]:
        """Return the living neighbours of a node, over links that work."""
        return [
            other for other in self.adjacent[name] if self.alive(other) and frozenset((name, other)) not in self.cut
        ]

    def regions(self) -> list[list[NodeId]]:
        return cast(list[list[NodeId]], regions(self.living()))

    def region(self, name: NodeId) -> set[NodeId]:
        return cast(set[NodeId], set(distances(self.living(), name)))

    def living(self) -> dict[str, list[NodeId]]:
        return {name: self.linked(name) for name in self.nodes if self.alive(name)}

    # What happens.

    def _setup(self, node: SimNode, host: Host) -> None:
        def build(port: Port) -> Spanning:
            return Spanning(
                node.name,
                self.config,
                port,
                standing=self.setting.graph.quality[node.name],
                neighbours=self.linked(node.name) if node.incarnation > 1 else self.adjacent[node.name],
                incarnation=node.incarnation - 1,
                returning=node.incarnation > 1,
                restored=(node.restored(CHANNEL, Spanning.RECORD) or 0) if self.setting.durable else None,
            )

        host.add(CHANNEL, build)

    def _apply(self, failure: Failure) -> None:
        sim = self.sim
        if failure.what in ("fail-link", "heal-link"):
            a, b = failure.who
            name, up = f"link {'-'.join(sorted(failure.who))}", failure.what == "heal-link"
            if up:
                self.cut.discard(frozenset(failure.who))
                sim.heal(name)
            else:
                self.cut.add(frozenset(failure.who))
                sim.cut(name, [(self.nodes[a], self.nodes[b])])
            if self.alive(a) and self.alive(b):
                self._tell(a, b, up)
                self._tell(b, a, up)
        else:
            (who,) = failure.who
            node, others = self.nodes[who], self.linked(who)
            if failure.what == "recover" and not self.alive(who):
                sim.heal(f"node {who}")
                for other in others:
                    self._tell(other, who, True)
                sim.start(node)
            elif failure.what == "fail-node" and self.alive(who):
                sim.cut(f"node {who}", [(node, self.nodes[other]) for other in self.adjacent[who]])
                sim.crash(node, disk="kept" if self.setting.durable else "lost")
                for joined in self.joined.values():
                    joined.discard(who)  # Whatever it took part in, it will not remember.
                for key, found in self.declarations.items():
                    self.declarations[key] = replace(found, took_part=found.took_part - {who})
                for other in others:
                    self._tell(other, who, False)
        self._look_later()

    def _tell(self, name: NodeId, peer: NodeId, up: bool) -> None:
        if up or not self.setting.silent:
            self.sim.tell(self.nodes[name], LinkChanged(peer, up))

    # What is seen.

    def _on_send(self, sender: SimNode, channel: str, receiver: SimNode, message: Any) -> Duration:
        if receiver.name not in self.adjacent[sender.name]:
            raise InvariantViolated(f"{sender.name} speaks to {receiver.name}, which is not its neighbour: {message}")
        kind = NAMES[message.__class__]
        self.kinds[kind] += 1
        size = 8 * len(encode(message))
        if size > self.bits.get(kind, 0):
            self.bits[kind] = size
        if isinstance(message, Eim | Ack) or (isinstance(message, Mqfm) and message.up):
            self._on_joined(sender.name, receiver.name, message)
        if self.log is not None:
            self.log.append(Sent(self.sim.now / UNIT, sender.name, receiver.name, message))
        return 0

    def _on_joined(self, sender: NodeId, receiver: NodeId, message: Eim | Ack | Mqfm) -> None:
        election = message.election
        joined = self.joined.setdefault(election, set())
        joined.add(sender)
        parents = self.parents.setdefault(election, {})
        if election.initiator == sender:
            parents.setdefault(sender, None)
            if self._is_unstable() and sender not in self.doomed and sender != self.setting.graph.nodes[-1]:
                self.doomed.add(sender)
                self.sim.at(self.sim.now + UNIT, partial(self._fall, sender), f"{sender} is unstable")
        elif not isinstance(message, Eim):
            parents.setdefault(sender, receiver)

    def _is_unstable(self) -> bool:
        setting = self.setting
        return setting.unstable and (not setting.unstable_max or self.fallen_count < setting.unstable_max)

    def _fall(self, name: NodeId) -> None:
        """Let a node fail if it still conducts, and no lower one does."""
        self.doomed.discard(name)
        machine = self.machine(name)
        if machine is not None and machine.electing and machine.election and machine.election.initiator == name:
            self.fallen_count += 1
            self._apply(Failure("fail-node", (name,), 0.0))

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if isinstance(fact, LeaderElected):
            machine = self.machine(node.name)
            assert machine is not None
            election = machine.election
            if election is None or machine.leader is None:
                return  # It has moved on within the same step.
            key = (election, fact.term.leader)
            if key not in self.declarations:
                there = frozenset(self.region(node.name)) & (self.joined.get(election, set()) | {node.name})
                self.declarations[key] = Declaration(now / UNIT, election, node.name, fact.term.leader, there)
            self._look_later()

    # The failure detector.

    def _look_later(self) -> None:
        if self._looking_at <= self.sim.now and not self.setting.unaided:
            self._looking_at = self.sim.now + UNIT
            self.sim.at(self._looking_at, self._look, "failure detector")

    def _look(self) -> None:
        """Notify one node of each region that believes in a leader who is not there."""
        if self._looking_at == self.sim.now:
            self._looking_at = -1
        for members in self.regions():
            machines = [machine for machine in map(self.machine, members) if machine is not None]
            if all(machine.phase is Phase.IDLE for machine in machines):
                for machine in machines:
                    leader = machine.leader.node if machine.leader is not None else None
                    if leader not in members:
                        self.sim.tell(self.nodes[machine.me], LeaderUnreachable(leader))
                        break

    # The outcome.

    def _named(self, members: list[NodeId]) -> NodeId | None:
        named = {(machine.leader.node if machine.leader else None) for machine in map(self.machine, members) if machine}
        (leader,) = named if len(named) == 1 else {None}
        return leader if leader in members else None

    def _terminated(self) -> bool:
        quiet = all(m.phase is Phase.IDLE for m in map(self.machine, self.nodes) if m is not None)
        return quiet and all(self._named(members) is not None for members in self.regions())

    def _result(self) -> Run:
        regions = [Region(tuple(members), self._named(members)) for members in self.regions()]
        elections = {name: machine.election for name in self.nodes if (machine := self.machine(name)) is not None}
        last = [(elections[region.members[0]], region.leader) for region in regions]
        ends = [found.at for key, found in self.declarations.items() if key in last]  # None: it was so from the start.
        messages = {kind: self.kinds[kind] for kind in KINDS}
        messages["request"] = sum(self.kinds[kind] for kind in _OF_REQUEST)
        return Run(
            regions=regions,
            messages={**messages, "total": sum(messages.values())},
            kinds=dict(sorted(self.kinds.items())),
            bits=dict(sorted(self.bits.items())),
            declared_at=max(ends, default=None),
            settled_at=self.settled_at / UNIT if self.setting.pulse_units else None,
            terminated=self._terminated(),
            declarations=list(self.declarations.values()),
            elections=elections,
            named={m.me: m.leader.node if m.leader else None for m in map(self.machine, self.nodes) if m is not None},
            parents=self.parents,
            log=self.log or [],
            trace_hash=self.sim.trace.digest(),
        )


def faults_of(run: Run, quality: Mapping[NodeId, float]) -> list[str]:
    """[MADM Lemmas 6.1–6.5] What a finished run must show; empty if it does.

    Termination; agreement and uniqueness in each region; and that the leader is the best of those that took part in
    its election (in their present life) and are in its region.
    """
    found = [] if run.terminated else ["did not terminate"]
    for region in run.regions:
        if region.leader is None:
            found.append(f"region {', '.join(region.members)} does not agree on one of its own")
            continue
        elections = {run.elections[name] for name in region.members}
        if len(elections) != 1:
            found.append(f"region {', '.join(region.members)} ends in {len(elections)} elections")
            continue
        (election,) = elections
        took_part = frozenset[NodeId]().union(
            *(d.took_part for d in run.declarations if d.election == election and d.leader == region.leader)
        )
        counted = [name for name in region.members if name in took_part]
        best = min([*counted, region.leader], key=lambda name: (-quality[name], order(name)))
        if best != region.leader:
            found.append(f"{region.leader} leads {', '.join(region.members)}, but {best} took part and is better")
    return found


def lemmas(run: Run) -> dict[str, int]:
    """[MADM Lemmas 6.1–6.5] How often each is violated; the first two speak of runs in which nothing fails."""
    members = [region.members for region in run.regions]
    took_part = frozenset[NodeId]().union(*(declaration.took_part for declaration in run.declarations))
    named = run.named
    return {
        "6.1": sum(name not in took_part for name in named),
        "6.2": len({declaration.election.initiator for declaration in run.declarations}) - len(members),
        "6.3": sum(sum(named[name] == name for name in region) != 1 for region in members),
        "6.4": sum(len({named[name] for name in region}) - 1 for region in members),
        "6.5": int(not run.terminated),
    }
