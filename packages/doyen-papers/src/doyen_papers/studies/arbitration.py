"""Arbitrated membership by simulation: crashes, cuts, partitions, joins and leaves, with every theorem watched.  [ARB]

Times are in units of T_l.  A run begins with a ring that has always stood; what is asked for happens at once, at a
random moment, in each event; between events the ring comes to rest.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from doyen.core.clock import Duration, format_duration, ms, seconds
from doyen.core.commands import LeaveGroup
from doyen.core.config import Config, Count, Doc, Positive, Share, need
from doyen.core.host import Host
from doyen.core.ids import NodeId
from doyen.election.by_key.config import ByKeyConfig
from doyen.election.by_key.machine import LeaderByKey
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import POINTS, Seat, seat
from doyen.membership.ring.machine import Arbitration
from doyen.membership.ring.neighbourhood import founding
from doyen.sim.network import Delay, Loss, NetworkConfig
from doyen.sim.node import Clock, SimNode
from doyen.sim.runs import run_many
from doyen.sim.trace import Trace
from doyen_papers.studies.central import CentralArbitrator
from doyen_papers.studies.frame import simulation
from doyen_papers.studies.ring_watch import THEOREMS, StudyWatch

SETTLE_MAX: Final = 60  # T_l between events, at most; as many again for every joiner.
LOSS_BORNE: Final = 0.01  # Up to here, three tries reach everybody who is in reach.
KEY: Final = "leader"
CHANNEL: Final = "ring"
ELECTION: Final = "leader"
Build = Callable[..., Arbitration]


Behaviour = Literal["default", "collapse", "majority", "split"]


class ArbitrationSetting(Config, frozen=True, kw_only=True):
    mode: Annotated[Literal["paper", "practical"], Doc("As printed, or so that it can be used.")] = "practical"
    arbiters: Annotated[Literal["central", "pairwise"], Doc("One group for all, or one for each pair.")] = "pairwise"
    nodes: Annotated[int, Meta(ge=1, le=100_000), Doc("N.")] = 32
    neighbours: Annotated[int, Doc("k, on each side.")] = 3
    arbiter_count: Annotated[Count, Doc("Central arbitrators, outside the ring.")] = 5
    lease: Annotated[Duration, Doc("T_l.")] = seconds(1)
    arbitration: Annotated[Duration, Doc("T_a.")] = ms(500)
    events: Annotated[Positive, Doc("How often, with rest in between.")] = 1
    crash: Annotated[Count, Doc("Nodes that crash at once in each event.")] = 0
    adjacent: Annotated[bool, Doc("They are next to each other.")] = False
    crash_arbiters: Annotated[Count, Doc("Central arbitrators that crash in each event.")] = 0
    cut_link: Annotated[bool, Doc("The link between two neighbours carries nothing any more.")] = False
    partition: Annotated[str, Doc("Sizes of the sides: 16/16.")] = ""
    arcs: Annotated[bool, Doc("Sides are arcs of the ring; else drawn at random.")] = False
    joins: Annotated[Count, Doc("Nodes that join at once.")] = 0
    leave: Annotated[Count, Doc("Nodes that leave by command.")] = 0
    loss: Annotated[Share, Doc("Share of messages lost.")] = 0.0
    drift: Annotated[float, Doc("Clocks run at 1 ± this.")] = 0.0
    delay: Annotated[Duration, Doc("One way.")] = 0
    seconds: Annotated[float, Meta(ge=0, lt=1e9), Doc("How long a run lasts; 0: until the ring is at rest.")] = 0.0
    behaviour: Annotated[Behaviour, Doc("What a partition does, in practical mode.")] = "default"
    leader: Annotated[bool, Doc("Elect the owner of a key, too.")] = False
    rejoin: Annotated[bool, Doc("Who was forced out comes back, in practical mode.")] = True
    equal_phases: Annotated[bool, Doc("All leases begin at once.")] = False

    def check(self) -> None:
        need(not self.adjacent or self.crash > 0, "adjacent", "says how of --crash: give that, too")
        need(not self.arcs or bool(self.partition), "arcs", "says how of --partition: give that, too")
        need(self.leave <= self.nodes, "leave", f"{self.leave} is more than there are nodes")
        enough = self.events * self.crash + self.leave <= self.nodes
        need(enough, "crash", f"{self.crash} in {self.events} events is more than there are nodes")
        central, dying = self.arbiters == "central", self.crash_arbiters
        need(central or not dying, "crash_arbiters", "needs central arbiters: there are none to crash")
        need(dying * self.events <= self.arbiter_count, "crash_arbiters", f"{dying} is more than there are")
        need(not central or self.arbiter_count > 0, "arbiter_count", "must be at least 1 with central arbiters")
        need(not self.cut_link or self.nodes > 1, "cut_link", "needs two nodes")
        if self.partition:
            self.sides()
        waited, trip = format_duration(self.arbitration), format_duration(self.delay)
        need(
            2 * self.delay < self.arbitration,
            "arbitration",
            f"{waited} must exceed the round trip, 2 · {trip} = {format_duration(2 * self.delay)}: no vote would be in "
            "time",
        )
        self.config()

    def sides(self) -> list[int]:
        try:
            sizes = [int(part) for part in self.partition.split("/")]
        except ValueError:
            sizes = []
        adds_up = len(sizes) >= 2 and all(size >= 1 for size in sizes) and sum(sizes) == self.nodes
        need(adds_up, "partition", f"{self.partition!r} must be sizes like 16/16 that add up to {self.nodes}")
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
        if self.behaviour == "default":
            return ArbitrationConfig.practical(self.nodes, rejoin=self.rejoin, **common)
        return ArbitrationConfig(partition=self.behaviour, expected_size=self.nodes, rejoin=self.rejoin, **common)


class Run(Struct, kw_only=True):
    """The outcome of one run."""

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
    trace_hash: str


class Ring:
    """One simulated ring, and what may be done to it."""

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
        network = NetworkConfig(
            delay=delay or Delay(mean=setting.delay),
            loss=Loss(model="uncorrelated", prob=setting.loss) if setting.loss else Loss(),
            fifo=delay is not None and setting.mode == "paper",
        )
        arbiters = setting.arbiter_count if setting.arbiters == "central" else 0
        self.sim = simulation(seed, setting.nodes + arbiters, network, trace)
        self.rng = self.sim.streams.of("world")
        exact = not (setting.loss or setting.drift or setting.cut_link or setting.partition) and delay is None
        self.watch = StudyWatch(self.sim, self.config, CHANNEL, ELECTION, exact=exact, delay=setting.delay)
        self.watch.owners_promised = self.config.partition != "split"
        self.watch.votes_promised = setting.loss <= LOSS_BORNE if self.config.resends else not setting.loss
        self.seats = sorted(seats or [seat(NodeId(f"n{i:0{len(str(setting.nodes))}d}")) for i in range(setting.nodes)])
        self.founding = founding(self.seats, setting.neighbours)
        self.central = [seat(NodeId(f"arbiter{i}")) for i in range(arbiters)]
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
        """Run until nothing is left to be done, but at least `least` and at most `most` T_l (for each joiner)."""
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
        """Run in pieces, to check between them that nobody serves two joiners at once."""
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
            self.sim.tell(self.sim.by_name[self.rng.choice(living).node], LeaveGroup(), channel=CHANNEL)

    # What came of it.

    def forced(self) -> int:
        return sum(fact.detail != "by command" for _, fact in self.watch.departures)

    def stayed(self) -> int:
        """Return how many members were never forced out."""
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
        suspected = [watch.suspected[m, name] for m in sorted(watch.monitors[name]) if (m, name) in watch.suspected]
        times = [(at - crashed) / lease for at in suspected if at >= crashed]
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
    """Times from a crash to a suspicion, in T_l."""

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
