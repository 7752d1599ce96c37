"""Arbitrated membership by simulation: crashes, cuts, partitions, joins and leaves, with every theorem watched.  [ARB]

Times are in units of T_l.  A run begins with a ring that has stood since ever; what is asked for happens at once, at a
random moment, in each of so many events; between events the ring comes to rest.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

from msgspec import Struct

from doyen.core.clock import Duration, format_duration, ms, seconds
from doyen.core.host import Host
from doyen.core.ids import NodeId
from doyen.election.by_key import ByKeyConfig, LeaderByKey
from doyen.errors import ConfigError
from doyen.membership.ring.config import ArbitrationConfig, Partition
from doyen.membership.ring.geometry import POINTS, Seat, seat
from doyen.membership.ring.machine import Arbitration
from doyen.membership.ring.neighbourhood import founding
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Loss, Network, NetworkConfig
from doyen.sim.node import Clock, SimNode
from doyen.sim.runs import run_many
from doyen.sim.streams import Streams
from doyen.sim.topology import Topology
from doyen.sim.trace import Trace
from doyen_papers.studies.central import CentralArbitrator
from doyen_papers.studies.ring_watch import THEOREMS, StudyWatch

SETTLE_MAX: Final = 60  # T_l between events, at most; as many again for every joiner.
LOSS_BORNE: Final = 0.01  # Up to here, three tries reach everybody who is in reach.
KEY: Final = "leader"
CHANNEL: Final = "ring"
ELECTION: Final = "leader"
Build = Callable[..., Arbitration]


class ArbitrationSetting(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    mode: Literal["paper", "practical"] = "practical"  #: As printed, or so that it can be used.
    arbiters: Literal["central", "pairwise"] = "pairwise"  #: One group for all, or one for each pair.
    nodes: int = 32  #: N.
    neighbours: int = 3  #: k, on each side.
    arbiter_count: int = 5  #: Central arbitrators, outside the ring.
    lease: Duration = seconds(1)  #: T_l.
    arbitration: Duration = ms(500)  #: T_a.
    events: int = 1  #: So often, with rest in between.
    crash: int = 0  #: Nodes that crash at once in each event.
    adjacent: bool = False  #: They are next to each other.
    crash_arbiters: int = 0  #: Central arbitrators that crash in each event.
    cut_link: bool = False  #: The link between two neighbours carries nothing any more.
    partition: str = ""  #: Sizes of the sides: 16/16.
    arcs: bool = False  #: Sides are arcs of the ring; else drawn at random.
    joins: int = 0  #: Nodes that join at once.
    leave: int = 0  #: Nodes that leave by command.
    loss: float = 0.0  #: Share of messages lost.
    drift: float = 0.0  #: Clocks run at 1 ± this.
    delay: Duration = 0  #: One way.
    seconds: float = 0.0  #: How long a run lasts; 0: until the ring is at rest.
    behaviour: Literal["default", "collapse", "majority", "split"] = "default"  #: Of a partition, in practical mode.
    leader: bool = False  #: Elect the owner of a key, too.
    rejoin: bool = True  #: Who was forced out comes back, in practical mode.
    equal_phases: bool = False  #: All leases begin at once.

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= 100_000:
            raise ConfigError(f"{self.nodes} must be from 1 to 100000", field="nodes")
        for name in ("events", "crash", "crash_arbiters", "joins", "leave", "arbiter_count"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{getattr(self, name)} must be 0 or more", field=name)
        if not self.events:
            raise ConfigError("must be 1 or more", field="events")
        for name, wanted in (("adjacent", "crash"), ("arcs", "partition")):
            if getattr(self, name) and not getattr(self, wanted):
                raise ConfigError(f"says how of --{wanted}: give that, too", field=name)
        if self.leave > self.nodes:
            raise ConfigError(f"{self.leave} is more than there are nodes", field="leave")
        if self.events * self.crash + self.leave > self.nodes:
            raise ConfigError(f"{self.crash} in {self.events} events is more than there are nodes", field="crash")
        if self.crash_arbiters and self.arbiters != "central":
            raise ConfigError("needs central arbiters: there are none to crash", field="crash_arbiters")
        if self.crash_arbiters * self.events > self.arbiter_count:
            raise ConfigError(f"{self.crash_arbiters} is more than there are", field="crash_arbiters")
        if self.arbiters == "central" and not self.arbiter_count:
            raise ConfigError("must be at least 1 with central arbiters", field="arbiter_count")
        if not 0 <= self.loss < 1:
            raise ConfigError(f"{self.loss} is not a probability below 1", field="loss")
        if not 0 <= self.seconds < 1e9:
            raise ConfigError(f"{self.seconds} must be 0 or more, and finite", field="seconds")
        if self.cut_link and self.nodes < 2:
            raise ConfigError("needs two nodes", field="cut_link")
        if self.partition:
            self.sides()
        if 2 * self.delay >= self.arbitration:
            raise ConfigError(
                f"{format_duration(self.arbitration)} must exceed the round trip, 2 · {format_duration(self.delay)} = "
                f"{format_duration(2 * self.delay)}: no vote would be in time",
                field="arbitration",
            )
        self.config()

    def sides(self) -> list[int]:
        try:
            sizes = [int(part) for part in self.partition.split("/")]
        except ValueError:
            sizes = []
        if len(sizes) < 2 or any(size < 1 for size in sizes) or sum(sizes) != self.nodes:
            raise ConfigError(
                f"{self.partition!r} must be sizes like 16/16 that add up to {self.nodes}", field="partition"
            )
        return sizes

    def config(self) -> ArbitrationConfig:
        common: dict[str, Any] = {
            "lease": self.lease,
            "arbitration": self.arbitration,
            "neighbours": self.neighbours,
            "arbiters": self.arbiters,
            "drift": self.drift,
            "random_phases": not self.equal_phases,
        }
        if self.mode == "paper":
            return ArbitrationConfig.paper(**common)
        common["rejoin"] = self.rejoin
        if self.behaviour == "default":
            return ArbitrationConfig.practical(self.nodes, **common)
        behaviour: Partition = self.behaviour
        return ArbitrationConfig(partition=behaviour, expected_size=self.nodes, **common)


class Run(Struct, kw_only=True):
    """What one run came to."""

    survivors: int
    forced: int
    by_event: list[int]
    members: int
    detections: list[float]  # Per monitor, in T_l.
    detections_all: list[float]  # Per crashed node: the last of its monitors.
    requests: int
    request_counts: list[int]  # Per node, or per central arbitrator.
    failures: int
    recoveries: list[float]
    joins: list[float]
    mutual_deaths: int
    violations: dict[str, int]
    lines: list[str]
    messages_per_node_second: float
    settled: bool
    reign_count: int
    trace_hash: str


class Ring:
    """One made-up ring, and what may be done to it."""

    def __init__(
        self,
        setting: ArbitrationSetting,
        seed: int,
        *,
        trace: Trace | None = None,
        build: Build = Arbitration,
        config: ArbitrationConfig | None = None,
        seats: list[Seat] | None = None,
        delay: Delay | None = None,
        elect: type[LeaderByKey] = LeaderByKey,
    ) -> None:
        self.setting, self.config = setting, config or setting.config()
        self._build, self._elect = build, elect
        streams = Streams(seed)
        self.rng = streams.of("world")
        self.network = Network(
            NetworkConfig(
                delay=delay or Delay(mean=setting.delay),
                loss=Loss(model="uncorrelated", prob=setting.loss) if setting.loss else Loss(),
                fifo=delay is not None and setting.mode == "paper",
            ),
            Topology(setting.nodes + (setting.arbiter_count if setting.arbiters == "central" else 0), None),
            streams,
        )
        self.sim = Simulation(self.network, streams, trace=trace)
        exact = not (setting.loss or setting.drift or setting.cut_link or setting.partition) and delay is None
        self.watch = StudyWatch(self.sim, self.config, CHANNEL, ELECTION, exact=exact, delay=setting.delay)
        self.watch.owners_promised = self.config.partition != "split"
        self.watch.votes_promised = setting.loss <= LOSS_BORNE if self.config.resends else not setting.loss
        self.seats = sorted(seats or [seat(NodeId(f"n{i:0{len(str(setting.nodes))}d}")) for i in range(setting.nodes)])
        self.founding = founding(self.seats, setting.neighbours)
        self.central = [
            seat(NodeId(f"arbiter{i}")) for i in range(setting.arbiter_count if setting.arbiters == "central" else 0)
        ]
        self.nodes = {s.node: self._add(s, founder=True) for s in self.seats}
        self.arbiters = [self.sim.add(s.node, self._setup_arbiter) for s in self.central]
        self.joiners: list[SimNode] = []
        for node in (*self.nodes.values(), *self.arbiters):
            self.sim.start(node)

    def _add(self, place: Seat, *, founder: bool) -> SimNode:
        clock = None
        if self.setting.drift:
            offset = int(self.rng.random() * 100 * self.config.lease)
            clock = Clock(offset, (2 * self.rng.random() - 1) * self.setting.drift)
        return self.sim.add(place.node, partial(self._setup, place, founder), clock=clock)

    def _setup(self, place: Seat, founder: bool, node: SimNode, host: Host) -> None:
        host.add(
            CHANNEL,
            lambda out: self._build(
                place,
                self.config,
                out,
                node.rng(CHANNEL),
                founding=self.founding if founder else None,
                contacts=[] if founder else [s.node for s in self.seats],
                central=self.central,
                view=False,
            ),
        )
        if self.setting.leader:
            host.add(ELECTION, lambda out: self._elect(place.node, ByKeyConfig(key=KEY, lease=self.config.lease), out))

    def _setup_arbiter(self, node: SimNode, host: Host) -> None:
        host.add(CHANNEL, lambda out: CentralArbitrator(self.config, out))

    # Time.

    def rest(self, least: int = 0, most: int = SETTLE_MAX) -> bool:
        """Runs until nothing is left to be done; at least and at most so many T_l."""
        lease = self.config.lease
        for passed in range(most * (1 + len(self.joiners))):
            if passed >= least and self.is_settled():
                return True
            self.run(lease)
        return self.is_settled()

    def is_settled(self) -> bool:
        joining = (self.watch.machine(node.name) for node in self.joiners)
        return self.watch.is_settled() and not any(j is not None and j.is_joining for j in joining)

    def run(self, duration: Duration) -> None:
        """In pieces, so that doors are looked at."""
        end = self.sim.now + duration
        while self.sim.now < end:
            self.sim.run(until=min(end, self.sim.now + self.config.lease // 4))
            if self.joiners:
                self.watch.check_doors()

    # Deeds.

    def members(self) -> list[Arbitration]:
        return self.watch.members()

    def machine(self, name: str) -> Arbitration:
        machine = self.watch.machine(name)
        assert machine is not None
        return machine

    def crash(self, node: SimNode) -> None:
        self.watch.note_crash(node)
        self.sim.crash(node)

    def crash_random(self, count: int, *, adjacent: bool = False) -> list[str]:
        living = sorted(machine.seat for machine in self.members())
        count = min(count, len(living))
        if adjacent:
            first = self.rng.randrange(len(living)) if living else 0
            chosen = [living[(first + i) % len(living)] for i in range(count)]
        else:
            chosen = self.rng.sample(living, count)
        nodes = [self.sim.by_name[s.node] for s in chosen]
        for node in nodes:
            self.watch.note_crash(node)  # All before the first: they crash at once.
        for node in nodes:
            self.sim.crash(node)
        dead = {s.name for s in chosen}
        for name in dead:
            self.watch.monitors[name] -= dead
        return [s.node for s in chosen]

    def cut_link(self) -> tuple[Seat, Seat]:
        one = self.rng.choice(self.seats)
        other = self.rng.choice(sorted(self.founding.neighbourhoods[one.name]))
        self.sim.partition("link", [self.nodes[one.node]], [self.nodes[other.node]])
        return one, other

    def divide(self, sizes: list[int], *, arcs: bool) -> list[list[Seat]]:
        order = list(self.seats)
        if arcs:
            turn = self.rng.randrange(len(order))
            order = order[turn:] + order[:turn]
        else:
            self.rng.shuffle(order)
        sides, start = [], 0
        for size in sizes:
            sides.append(order[start : start + size])
            start += size
        groups = [[self.nodes[s.node] for s in side] for side in sides]
        arbiters = list(self.arbiters)
        self.rng.shuffle(arbiters)
        for i, arbiter in enumerate(arbiters):
            groups[i % len(groups)].append(arbiter)
        self.sim.partition("partition", *groups)
        return sides

    def join(self, place: Seat | None = None) -> SimNode:
        place = place or Seat(self.rng.randrange(POINTS), NodeId(f"j{len(self.joiners):03d}"))
        node = self._add(place, founder=False)
        self.joiners.append(node)
        self.sim.start(node)
        return node

    def leave(self) -> None:
        living = sorted(machine.seat for machine in self.members())
        if living:
            self.sim.command(self.sim.by_name[self.rng.choice(living).node], CHANNEL, "leave")

    # What came of it.

    def forced(self) -> int:
        return sum(fact.detail != "by command" for _, fact in self.watch.departures)

    def stayed(self) -> int:
        """Members that were never forced out."""
        return sum(machine.seat.incarnation == 1 for machine in self.members())


def simulate(setting: ArbitrationSetting, seed: int, *, trace: Trace | None = None, build: Build = Arbitration) -> Run:
    ring = Ring(setting, seed, trace=trace, build=build)
    sim, lease = ring.sim, ring.config.lease
    ring.run(2 * lease)
    by_event: list[int] = []
    settled = True
    sent_before, from_at = sim.message_count, sim.now
    idle = not (setting.crash or setting.crash_arbiters or setting.joins or setting.leave)
    for event in range(setting.events):
        ring.run(int(ring.rng.random() * lease))
        if event == 0:
            _first_deeds(ring)
        for arbiter in [node for node in ring.arbiters if node.host is not None][: setting.crash_arbiters]:
            sim.crash(arbiter)
        if setting.crash:
            ring.crash_random(setting.crash, adjacent=setting.adjacent)
        acted = not idle or setting.cut_link or bool(setting.partition)
        settled = ring.rest(least=6 + (2 * lease + ring.config.arbitration) // lease if acted else 1)
        by_event.append(len(ring.members()) if setting.mode == "paper" else ring.stayed())
    if setting.seconds:
        ring.run(max(0, seconds(setting.seconds) - sim.now))
        settled = ring.is_settled()
    passed_s = (sim.now - from_at) / 1e9
    messages = (sim.message_count - sent_before) / max(passed_s, 1e-9) / max(len(ring.members()), 1)
    if settled and not setting.loss and not setting.partition and not setting.cut_link:
        ring.watch.check_neighbourhoods()
    return _result(ring, by_event, messages, settled)


def _first_deeds(ring: Ring) -> None:
    setting = ring.setting
    if setting.cut_link:
        ring.cut_link()
    if setting.partition:
        ring.divide(setting.sides(), arcs=setting.arcs)
    for _ in range(setting.leave):
        ring.leave()
    for _ in range(setting.joins):
        ring.join()


def _result(ring: Ring, by_event: list[int], messages: float, settled: bool) -> Run:
    watch, lease = ring.watch, ring.config.lease
    per_monitor, last = [], []
    for name, crashed in watch.crashed_at.items():
        times = [
            (watch.suspected[m, name] - crashed) / lease for m in watch.monitors[name] if (m, name) in watch.suspected
        ]
        times = [time for time in times if time >= 0]
        per_monitor += times
        if times:
            last.append(max(times))
    counted = [s.name for s in ring.central] or [s.name for s in ring.seats]
    return Run(
        survivors=ring.stayed(),
        forced=ring.forced(),
        by_event=by_event,
        members=len(ring.members()),
        detections=per_monitor,
        detections_all=last,
        requests=watch.requests.total(),
        request_counts=[watch.requests[name] for name in counted],
        failures=len(watch.crashed_at),
        recoveries=[(at - watch.crashed_at[name]) / lease for at, name in watch.recoveries if name in watch.crashed_at],
        joins=[fact.took / lease for fact in watch.joins],
        mutual_deaths=watch.violations["recent"],
        violations={theorem: watch.violations[theorem] for theorem in THEOREMS},
        lines=watch.lines,
        messages_per_node_second=messages,
        settled=settled,
        reign_count=len(watch.reigns),
        trace_hash=ring.sim.trace.digest(),
    )


class Spread(Struct, frozen=True):
    mean: float | None
    min: float | None
    max: float | None


class Latency(Struct, frozen=True):
    mean: float | None
    max: float | None


class Detection(Struct, frozen=True):
    """In T_l."""

    per_monitor: Spread
    all_monitors: Spread


class RequestLoad(Struct, frozen=True):
    """Arbitration requests, the dead and oneself counted; per node, or per central arbitrator."""

    total: float  #: Per run.
    per_failure: float | None
    per_node_mean: float
    per_node_max: float
    share_below_10: float


class Summary(Struct, frozen=True, kw_only=True):
    setting: ArbitrationSetting
    runs: int
    seed: int
    survivors: Spread
    forced_departures: Spread
    survivors_by_event: list[float]
    members_at_end: Spread
    detection: Detection
    requests: RequestLoad
    recovery_start: Latency
    join_latency: Latency
    mutual_deaths: int
    violations: dict[str, int]
    violation_lines: list[str]
    messages_per_node_second: float
    settled_share: float
    trace_hash: str


def study(
    setting: ArbitrationSetting, runs: int, seed: int, *, jobs: int = 1, progress: Callable[[int], None] | None = None
) -> Summary:
    found = run_many(partial(simulate, setting), runs, seed, jobs=jobs, progress=progress)
    return summarise(setting, found, seed)


def summarise(setting: ArbitrationSetting, found: list[Run], seed: int) -> Summary:
    counts = [count for run in found for count in run.request_counts]
    failures = sum(run.failures for run in found)
    events = max(len(run.by_event) for run in found)
    return Summary(
        setting=setting,
        runs=len(found),
        seed=seed,
        survivors=_spread([run.survivors for run in found]),
        forced_departures=_spread([run.forced for run in found]),
        survivors_by_event=[sum(run.by_event[i] for run in found) / len(found) for i in range(events)],
        members_at_end=_spread([run.members for run in found]),
        detection=Detection(
            _spread([t for run in found for t in run.detections]),
            _spread([t for run in found for t in run.detections_all]),
        ),
        requests=RequestLoad(
            total=sum(run.requests for run in found) / len(found),
            per_failure=sum(run.requests for run in found) / failures if failures else None,
            per_node_mean=sum(counts) / max(len(counts), 1),
            per_node_max=max(counts, default=0),
            share_below_10=sum(count < 10 for count in counts) / max(len(counts), 1),
        ),
        recovery_start=_latency([t for run in found for t in run.recoveries]),
        join_latency=_latency([t for run in found for t in run.joins]),
        mutual_deaths=sum(run.mutual_deaths for run in found),
        violations={theorem: sum(run.violations[theorem] for run in found) for theorem in THEOREMS},
        violation_lines=[line for run in found for line in run.lines][:20],
        messages_per_node_second=sum(run.messages_per_node_second for run in found) / len(found),
        settled_share=sum(run.settled for run in found) / len(found),
        trace_hash=found[0].trace_hash,
    )


def _spread(values: list[Any]) -> Spread:
    return Spread(sum(values) / len(values), min(values), max(values)) if values else Spread(None, None, None)


def _latency(values: list[float]) -> Latency:
    return Latency(sum(values) / len(values), max(values)) if values else Latency(None, None)
