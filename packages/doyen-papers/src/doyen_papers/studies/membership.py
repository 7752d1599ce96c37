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
from msgspec.structs import replace

from doyen.core.clock import Duration, Instant, ms, seconds
from doyen.core.config import Config, Count, Doc, Share, need
from doyen.core.effects import Out
from doyen.core.host import Host
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.view import MembershipView, Status, ViewChanged
from doyen.sim.engine import Traffic
from doyen.sim.network import Delay, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.streams import Streams
from doyen.sim.trace import Trace
from doyen_papers.studies.frame import simulation
from doyen_papers.studies.ground import Ground, build_ground, radio
from doyen_papers.studies.memstats import spread
from doyen_papers.studies.underlay import (
    CONFIGS,
    Handicap,
    HandicapOut,
    MemberConfig,
    Protocol,
    acquaint,
    handicaps,
    member,
)
from doyen_papers.studies.underlay import MEMBERSHIP as CHANNEL

Preset = Literal["auto", "paper", "lan", "wan"]

Nodes: TypeAlias = Annotated[int, Meta(ge=1, le=100_000)]
SAMPLE_EVERY: Final = ms(200)
STEP: Final = ms(500)
LIVES: Final = 1 << 20  # Incarnations between two starts of a node.


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

    def config(self) -> MemberConfig:
        kind = CONFIGS[self.protocol]
        preset = ("lan" if self.topology == "complete" else "paper") if self.preset == "auto" else self.preset
        made: MemberConfig = (
            kind.paper() if preset == "paper" else (kind.lan if preset == "lan" else kind.wan)(self.nodes)
        )
        return made


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


Build = Callable[["Group", SimNode, Out], Any]


class Group:
    """A group on the simulator, and what a bystander sees of it; tests torment it further."""

    def __init__(
        self,
        count: int,
        build: Build,
        *,
        seed: int,
        network: NetworkConfig = NetworkConfig(delay=Delay(mean=ms(1))),  # noqa: B008  (frozen)
        topology: Ground = "complete",
        acquainted: bool = True,  # Everybody knows everybody from the start.
        trace: Trace | None = None,
        wire: bool = False,
    ) -> None:
        places = build_ground(topology, count, Streams(seed).of("ground"))
        self.ground = places.copy()  # All are up there.
        self.sim = simulation(seed, places, network, trace, wire=wire)
        self.sim.watchers.append(self._on_fact)
        self.build = build
        self.false_positives: list[tuple[Instant, NodeId, NodeId]] = []  # (when, holder, live member).
        self.failed_at: dict[NodeId, dict[NodeId, Instant]] = {}  # Of the crashed: when each holder knew.
        self.crashed_at: dict[NodeId, Instant] = {}
        self.absent: list[set[NodeId]] = []  # By node: whom it holds for failed or gone.
        width = max(3, len(str(count - 1)))
        names = [NodeId(f"n{i:0{width}d}") for i in range(count)]
        self.known = acquaint(names, first_incarnation(1)) if acquainted else None
        for name in names:
            self.add(name)

    def add(self, name: NodeId) -> SimNode:
        self.absent.append(set())
        return self.sim.add(name, self._set_up)

    def _set_up(self, node: SimNode, host: Host) -> None:
        host.add(CHANNEL, partial(self.build, self, node))

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
        return node.ports[CHANNEL].machine

    def view(self, node: SimNode) -> MembershipView:
        view: MembershipView = self.machine(node).view
        return view

    def agreed(self, nodes: Sequence[SimNode] | None = None) -> bool:
        """Return whether all of these nodes hold exactly each other for alive."""
        nodes = self.live() if nodes is None else nodes
        names = {node.name for node in nodes}
        return all(
            {m.node for m in self.view(node).members.values() if m.status is Status.ALIVE} == names for node in nodes
        )

    def missing_counts(self) -> Counter[NodeId]:
        """Count the live views that each live member is missing from; members that are in all views are left out."""
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


def first_incarnation(start: int) -> Incarnation:
    """Return the incarnation of a node's start: no refutation reaches from one start to the next."""
    return Incarnation(start * LIVES)


def builder(config: MemberConfig, *, seeds: Sequence[Address] = ()) -> Build:
    """Return what builds the machines of the protocol that the configuration belongs to."""

    def build(group: Group, node: SimNode, out: Out) -> Any:
        incarnation = first_incarnation(node.incarnation)
        return member(config, node, out, incarnation=incarnation, known=group.known, seeds=seeds, ground=group.ground)

    return build


def handicapped(setting: MembershipSetting, build: Build) -> Build:
    """Return what builds the same machines, where the lowest hashes lose more."""

    def build_handicapped(group: Group, node: SimNode, out: Out) -> Any:
        worse = handicaps([other.name for other in group.sim.nodes], setting.drop)
        return build(group, node, HandicapOut(out, node, worse, setting.handicap_form, setting.protocol))

    return build_handicapped


def simulate(setting: MembershipSetting, seed: int, *, trace: Trace | None = None) -> Summary:
    """One run."""
    network = radio(setting.drop)
    if setting.topology == "complete":  # Where all are linked directly, a hop takes 1 ms.
        network = replace(network, delay=Delay(mean=ms(1)))
    build = builder(setting.config())
    group = Group(
        setting.nodes,
        handicapped(setting, build) if setting.handicap else build,
        seed=seed,
        network=network,
        topology=setting.topology,
        trace=trace,
    )
    group.start()
    group.run(seconds(setting.warm_up))
    return _Watch(group, setting, seed).run()


class _Watch:
    """The measured part of a run."""

    def __init__(self, group: Group, setting: MembershipSetting, seed: int) -> None:
        self.group, self.setting, self.seed = group, setting, seed
        self.histogram: Counter[int] = Counter()  # By number of views that a member was missing from: how often.

    def run(self) -> Summary:
        group, setting = self.group, self.setting
        before = self._spent()
        group.false_positives.clear()
        begun, length = group.sim.now, seconds(setting.seconds)
        rng = group.sim.streams.of("crash")
        order = list(group.sim.nodes)
        rng.shuffle(order)
        crash_at = begun + length // 5
        for node in order[: setting.crash]:
            group.sim.at(crash_at, partial(group.crash, node), f"{node.name} crashes")
        while group.sim.now < begun + length:
            group.sim.run(until=min(group.sim.now + SAMPLE_EVERY, begun + length))
            self._sample()
        spent = [
            (after - early) / setting.nodes / setting.seconds
            for early, after in zip(before, self._spent(), strict=True)
        ]
        detection, undetected = self._detection()
        false_positives = len(group.false_positives)
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
            missing=Missing(*spread(self.histogram)),
            trace_hash=group.sim.trace.digest(),
        )

    def _spent(self) -> tuple[int, int, int]:
        traffic = self.group.sim.traffic.get(CHANNEL, Traffic())
        return traffic.messages, traffic.bytes, traffic.hop_bytes

    def _sample(self) -> None:
        counts = self.group.missing_counts()
        self.histogram.update(counts.values())
        self.histogram[0] += len(self.group.live()) - len(counts)

    def _detection(self) -> tuple[Detection | None, int]:
        if not self.group.crashed_at:
            return None, 0
        live = {node.name for node in self.group.live()}
        firsts, medians, lasts, undetected = [], [], [], 0
        for name, crashed_at in self.group.crashed_at.items():
            times = [at - crashed_at for holder, at in self.group.failed_at[name].items() if holder in live]
            undetected += len(live) - len(times)
            if times:
                firsts.append(min(times) / 1e9)
                medians.append(median(times) / 1e9)
                lasts.append(max(times) / 1e9)
        if not firsts:
            return Detection(None, None, None), undetected
        return Detection(mean(firsts), mean(medians), mean(lasts)), undetected
