"""Weak membership by simulation: the real machines, watched from outside.  [CTOL]

What is measured, after a warm-up in which everybody knows everybody from the start:

    detection         from a crash until the first, the median and the last of the live nodes hold it for failed;
                      over several crashed nodes the mean of each
    false_positives   a live node held for failed by a live node; each holder counts, and each time
    messages, bytes   sent per node and second; a datagram counts once, however many hops it travels
    missing           in how many live views a live member is missing ("failed" is missing, "suspected" is not):
                      sampled every 200 ms over all members; the c of [CTOL Table I] is a high percentile of it
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from statistics import mean, median
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from doyen.core.clock import Duration, Instant, ms, seconds
from doyen.core.config import Config, Count, Doc, Share, need
from doyen.core.host import Host, Port
from doyen.core.ids import Address, NodeId
from doyen.core.view import Member, MembershipView, Status, ViewChanged
from doyen.membership.heartbeat import Heartbeat, HeartbeatConfig
from doyen.membership.medley import Distance, Medley, MedleyConfig
from doyen.membership.swim import Acquaintances, Swim, SwimConfig, payload_max
from doyen.sim.engine import Simulation, Traffic
from doyen.sim.network import Delay, Loss, Network, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.streams import Streams
from doyen.sim.topology import TopologyConfig, build
from doyen.sim.trace import Trace
from doyen_papers.studies.ground import Ground, build_ground
from doyen_papers.studies.underlay import Handicap, HandicapOut, handicaps

Protocol = Literal["swim", "medley", "heartbeat"]
Preset = Literal["auto", "paper", "lan", "wan"]

CHANNEL: Final = "membership"
Nodes: TypeAlias = Annotated[int, Meta(ge=1, le=100_000)]
GROUP: Final = "sim"
SAMPLE_EVERY: Final = ms(200)
STEP: Final = ms(500)
FAR: Final = 64.0  # Hops to a member that cannot be reached just now.
LIVES: Final = 1 << 20  # Incarnations between two lives of a node.


class MembershipSetting(Config, frozen=True, kw_only=True):
    """One cell."""

    protocol: Annotated[Protocol, Doc("Whose machines run.")] = "swim"
    preset: Annotated[Preset, Doc("Their timers; auto: as published on radio topologies, else lan.")] = "auto"
    topology: Annotated[Ground, Doc("Who is linked: within 4 m on a grid, at random, in crowds; or all.")] = "grid"
    nodes: Annotated[Nodes, Doc("N.")] = 49
    drop: Annotated[Share, Doc("Chance that a message is lost, on each hop.")] = 0.05
    seconds: Annotated[float, Meta(gt=0, le=1e7), Doc("How long it is watched.")] = 300.0
    crash: Annotated[Count, Doc("How many nodes crash, a fifth into the time.")] = 1
    warm_up: Annotated[float, Meta(ge=0, le=1e7), Doc("Seconds that run before.")] = 60.0
    handicap: Annotated[bool, Doc("The five lowest hashes lose more ACKs: 3.5·drop … 1.5·drop per hop.")] = False
    handicap_form: Annotated[Handicap, Doc("What they lose more of; `traffic`: all messages, both ways.")] = "acks"

    def check(self) -> None:
        need(not self.handicap or 3.5 * self.drop < 1, "handicap", "multiplies drop by 3.5: that is too much loss")
        need(self.crash < self.nodes, "crash", f"{self.crash} must leave somebody alive")


class Detection(Struct, frozen=True):
    """Seconds; None where nobody noticed."""

    first: float | None
    median: float | None
    last: float | None


class Missing(Struct, frozen=True):
    mean: float
    p99: float
    max: float


class Summary(Struct, frozen=True, kw_only=True):
    setting: MembershipSetting
    seed: int
    detection: Detection | None  # None: nobody crashed.
    undetected: int  # Pairs of a live node and a crashed one that it did not notice.
    false_positives: int
    false_positives_per_node_hour: float
    messages_per_node_second: float
    bytes_per_node_second: float
    hop_bytes_per_node_second: float
    missing: Missing
    trace_hash: str


Build = Callable[["World", SimNode, Port], Any]


class World:
    """A group on the simulator, and what a bystander sees of it; tests torment it further."""

    def __init__(
        self,
        count: int,
        build_machine: Build,
        *,
        seed: int,
        network: NetworkConfig = NetworkConfig(delay=Delay(mean=ms(1))),  # noqa: B008  (frozen)
        topology: TopologyConfig | Ground = TopologyConfig(),  # noqa: B008
        acquainted: bool = True,  # Everybody knows everybody from the start.
        trace: Trace | None = None,
        wire: bool = False,
    ) -> None:
        self.streams = Streams(seed)
        if isinstance(topology, TopologyConfig):
            graph = build(topology, count, self.streams.of("topology"))
        else:
            graph = build_ground(topology, count, self.streams.of("ground"))
        self.sim = Simulation(Network(network, graph, self.streams), self.streams, trace=trace, wire=wire)
        self.sim.watchers.append(self._on_fact)
        self.build_machine = build_machine
        self.false_positives: list[tuple[Instant, NodeId, NodeId]] = []  # (when, holder, live member).
        self.failed_at: dict[NodeId, dict[NodeId, Instant]] = {}  # Of the crashed: when each holder knew.
        self.crashed_at: dict[NodeId, Instant] = {}
        self.absent: list[set[NodeId]] = []  # By node: whom it holds for failed or gone.
        width = max(3, len(str(count - 1)))
        names = [NodeId(f"n{i:0{width}d}") for i in range(count)]
        self.known = self.acquaint(names) if acquainted else None
        for name in names:
            self.add(name)

    def acquaint(self, names: Sequence[NodeId]) -> Acquaintances:
        return Acquaintances(
            Member(node=name, incarnation=first_incarnation(1), address=Address(name, 0)) for name in names
        )

    def add(self, name: NodeId) -> SimNode:
        self.absent.append(set())
        return self.sim.add(name, self._set_up)

    def _set_up(self, node: SimNode, host: Host) -> None:
        host.add(CHANNEL, partial(self.build_machine, self, node))

    # What happens.

    def start(self, *nodes: SimNode) -> None:
        for node in nodes or self.sim.nodes:
            self.sim.start(node)
            self.crashed_at.pop(node.name, None)
            self.absent[node.index] = set()

    def crash(self, node: SimNode) -> None:
        self.sim.crash(node)
        self.crashed_at[node.name] = self.sim.now
        self.failed_at[node.name] = {
            other.name: self.sim.now for other in self.live() if node.name in self.absent[other.index]
        }

    def run(self, duration: Duration) -> None:
        self.sim.run(until=self.sim.now + duration)

    def run_until(self, holds: Callable[[], bool], within: Duration, step: Duration = STEP) -> bool:
        end = self.sim.now + within
        while not holds():
            if self.sim.now >= end:
                return False
            self.run(step)
        return True

    # What is seen.

    def live(self) -> list[SimNode]:
        return [node for node in self.sim.nodes if node.host is not None]

    def machine(self, node: SimNode) -> Any:
        assert node.host is not None
        return node.host.ports[CHANNEL].machine

    def view(self, node: SimNode) -> MembershipView:
        view: MembershipView = self.machine(node).view
        return view

    def distance_from(self, node: SimNode) -> Distance:
        """In hops, by the routes of the simulated network as they are now; 1 where all are linked."""
        topology, by_name = self.sim.network.topology, self.sim.by_name

        def distance(other: NodeId) -> float:
            if topology.complete or other not in by_name:
                return 1.0
            path = topology.path(node.index, by_name[other].index)
            return float(len(path)) if path else FAR

        return distance

    def agreed(self, nodes: Sequence[SimNode] | None = None) -> bool:
        """All of them hold exactly each other for alive."""
        nodes = self.live() if nodes is None else nodes
        names = {node.name for node in nodes}
        return all({m.node for m in self.view(node).members.values() if _alive(m)} == names for node in nodes)

    def missing_counts(self) -> Counter[NodeId]:
        """In how many live views each live member is missing, where it is in any."""
        counts: Counter[NodeId] = Counter()
        for node in self.live():
            counts.update(self.absent[node.index])
        return Counter({name: count for name, count in counts.items() if name not in self.crashed_at})

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if fact.__class__ is not ViewChanged or channel != CHANNEL:
            return
        members, absent = fact.view.members, self.absent[node.index]
        for name in fact.changed:
            member = members.get(name)
            if member is not None and member.present:
                absent.discard(name)
            elif name not in absent and member is not None:
                absent.add(name)
                if name in self.crashed_at:
                    self.failed_at[name].setdefault(node.name, now)
                elif member.status is Status.FAILED and node.host is not None:
                    self.false_positives.append((now, node.name, name))


def _alive(member: Member) -> bool:
    return member.status is Status.ALIVE


def first_incarnation(life: int) -> Any:
    """Lives are far apart, so that refutations of one never reach the next."""
    return life * LIVES


def swim_builder(config: SwimConfig, *, seeds: Sequence[Address] = ()) -> Build:
    def build_swim(world: World, node: SimNode, out: Port) -> Swim:
        return Swim(
            node.name,
            config,
            out,
            node.rng(CHANNEL),
            incarnation=first_incarnation(node.incarnation),
            address=Address(node.name, 0),
            seeds=seeds,
            known=world.known,
            payload_max=payload_max(GROUP, node.name, CHANNEL),
        )

    return build_swim


def heartbeat_builder(config: HeartbeatConfig, *, seeds: Sequence[Address] = ()) -> Build:
    def build_heartbeat(world: World, node: SimNode, out: Port) -> Heartbeat:
        return Heartbeat(
            node.name,
            config,
            out,
            node.rng(CHANNEL),
            incarnation=first_incarnation(node.incarnation),
            address=Address(node.name, 0),
            seeds=seeds,
            known=world.known,
            payload_max=payload_max(GROUP, node.name, CHANNEL),
        )

    return build_heartbeat


def medley_builder(config: MedleyConfig, *, seeds: Sequence[Address] = ()) -> Build:
    def build_medley(world: World, node: SimNode, out: Port) -> Medley:
        return Medley(
            node.name,
            config,
            out,
            node.rng(CHANNEL),
            distance=world.distance_from(node),
            incarnation=first_incarnation(node.incarnation),
            address=Address(node.name, 0),
            seeds=seeds,
            known=world.known,
            payload_max=payload_max(GROUP, node.name, CHANNEL),
        )

    return build_medley


BUILDERS: Final[dict[str, tuple[Any, Callable[..., Build]]]] = {
    "swim": (SwimConfig, swim_builder),
    "medley": (MedleyConfig, medley_builder),
    "heartbeat": (HeartbeatConfig, heartbeat_builder),
}


def builder(setting: MembershipSetting) -> Build:
    preset = setting.preset
    if preset == "auto":
        preset = "lan" if setting.topology == "complete" else "paper"
    kind, make = BUILDERS[setting.protocol]
    plain = make(_preset(kind, preset, setting.nodes))
    if not setting.handicap:
        return plain
    every = setting.handicap_form == "traffic" or setting.protocol == "heartbeat"  # Heartbeats have no acks.

    def build_handicapped(world: World, node: SimNode, out: Port) -> Any:
        worse = handicaps([other.name for other in world.sim.nodes], setting.drop)
        return plain(world, node, HandicapOut(out, node, worse, setting.handicap_form, every))  # type: ignore[arg-type]

    return build_handicapped


def _preset(kind: Any, preset: str, count: int) -> Any:
    match preset:
        case "lan":
            return kind.lan(count)
        case "wan":
            return kind.wan(count)
    return kind.paper()


def simulate(setting: MembershipSetting, seed: int, *, trace: Trace | None = None) -> Summary:
    """One run."""
    radio = setting.topology != "complete"
    # [CTOL] Per-hop delay uniform in (0, 50] ms; where all are linked directly, 1 ms.
    delay = Delay(model="uniform", mean=ms(25), spread=ms(25)) if radio else Delay(mean=ms(1))
    loss = Loss(model="uncorrelated" if setting.drop else "none", prob=setting.drop)
    world = World(
        setting.nodes,
        builder(setting),
        seed=seed,
        network=NetworkConfig(delay=delay, loss=loss),
        topology=setting.topology,
        trace=trace,
    )
    world.start()
    world.run(seconds(setting.warm_up))
    return _Watch(world, setting, seed).run()


class _Watch:
    """The measured part of a run."""

    def __init__(self, world: World, setting: MembershipSetting, seed: int) -> None:
        self.world, self.setting, self.seed = world, setting, seed
        self.histogram: Counter[int] = Counter()  # In so many views missing → how often.

    def run(self) -> Summary:
        world, setting = self.world, self.setting
        before = self._spent()
        world.false_positives.clear()
        begun, length = world.sim.now, seconds(setting.seconds)
        rng = world.streams.of("crash")
        order = list(world.sim.nodes)
        rng.shuffle(order)
        crash_at = begun + length // 5
        for node in order[: setting.crash]:
            world.sim.at(crash_at, partial(world.crash, node), f"{node.name} crashes")
        while world.sim.now < begun + length:
            world.sim.run(until=min(world.sim.now + SAMPLE_EVERY, begun + length))
            self._sample()
        spent = [
            (after - early) / setting.nodes / setting.seconds
            for early, after in zip(before, self._spent(), strict=True)
        ]
        detection, undetected = self._detection()
        false_positives = len(world.false_positives)
        return Summary(
            setting=setting,
            seed=self.seed,
            detection=detection,
            undetected=undetected,
            false_positives=false_positives,
            false_positives_per_node_hour=false_positives / (setting.nodes * setting.seconds / 3600),
            messages_per_node_second=spent[0],
            bytes_per_node_second=spent[1],
            hop_bytes_per_node_second=spent[2],
            missing=self._missing(),
            trace_hash=world.sim.trace.digest(),
        )

    def _spent(self) -> tuple[int, int, int]:
        traffic = self.world.sim.traffic.get(CHANNEL, Traffic())
        return traffic.messages, traffic.bytes, traffic.hop_bytes

    def _sample(self) -> None:
        counts = self.world.missing_counts()
        self.histogram.update(counts.values())
        self.histogram[0] += len(self.world.live()) - len(counts)

    def _missing(self) -> Missing:
        total = sum(self.histogram.values())
        if not total:
            return Missing(0.0, 0.0, 0.0)
        rest = total
        p99 = 0
        for count in sorted(self.histogram):
            rest -= self.histogram[count]
            p99 = count
            if rest <= total * 0.01:
                break
        average = sum(count * times for count, times in self.histogram.items()) / total
        return Missing(average, float(p99), float(max(count for count, times in self.histogram.items() if times)))

    def _detection(self) -> tuple[Detection | None, int]:
        if not self.world.crashed_at:
            return None, 0
        live = {node.name for node in self.world.live()}
        firsts, medians, lasts, undetected = [], [], [], 0
        for name, crashed_at in self.world.crashed_at.items():
            times = [at - crashed_at for holder, at in self.world.failed_at[name].items() if holder in live]
            undetected += len(live) - len(times)
            if times:
                firsts.append(min(times) / 1e9)
                medians.append(median(times) / 1e9)
                lasts.append(max(times) / 1e9)
        if not firsts:
            return Detection(None, None, None), undetected
        return Detection(mean(firsts), mean(medians), mean(lasts)), undetected
