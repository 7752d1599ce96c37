"""Elections by score among enemies: one seed gives one run of everything that can go wrong.  [POLE]

Messages are lost, doubled and overtaken; the group is cut in two, or one way only; processes stand still longer than
a lease, crash, and return with their durable file or without it (a majority always keeps theirs); clocks drift within
the bound, wall clocks jump; disks are slow; scores change, are missing at times, and leaders resign.  Then the faults
end: one leader must be known to all within `PoleConfig.settle_max`.  On the way:

    overlap             two leaders act at one true instant, for so many seconds in all
    leaders per epoch   more than one acts in an epoch
    epochs back         a process promises less than before, or an acting leader's epoch is not above all earlier ones
    grants              a voter grants one epoch to two, over all its lives
    selections          an election ends without a quorum that proposed in that very epoch, or later than T after it
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from doyen.core.clock import Duration, Instant, ms, seconds
from doyen.core.host import Host, Port
from doyen.core.ids import NodeId, Term
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.election.pole import EpochPromised, Pole, PoleConfig, Promise, QuorumProposed, Selected, Status
from doyen.election.pole.messages import HeartbeatAck, Propose, Standing
from doyen.errors import ConfigError
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Loss, Network, NetworkConfig
from doyen.sim.node import Clock, SimNode
from doyen.sim.runs import run_many
from doyen.sim.streams import Stream, Streams
from doyen.sim.topology import Topology
from doyen.sim.trace import Trace

CHANNEL: Final = "election"
FAULTS_UNTIL: Final[Duration] = seconds(12)
LOOK_EVERY: Final[Duration] = ms(50)
CONFIG: Final = PoleConfig(
    election_timeout=ms(100),
    retry_max=seconds(1),
    score_timeout=ms(500),
    lease=ms(500),
    heartbeat_interval=ms(100),
    drift_max=0.01,
    resign_interval=ms(400),
    resign_rounds=2,
    cool_down=seconds(2),
)
#: Every fault that a run may have, so that one that never fired shows as 0.
FAULTS: Final = (
    *("loss", "duplicate", "reorder", "partition", "one-way cut", "pause", "crash", "file lost", "restart"),
    *("drift", "wall clock step", "slow disk", "resign", "blackout"),
)


class Plan(Struct, frozen=True, kw_only=True):
    """What one seed makes of a run."""

    seed: int
    node_count: int
    loss: float
    duplicate: float
    reorder: float
    disk_delay: Duration
    partition_count: int
    pause_count: int
    crash_count: int
    wall_step_count: int
    resign_count: int
    blackout_count: int


def plan(seed: int, node_count: int) -> Plan:
    rng = Streams(seed).of("plan")
    return Plan(
        seed=seed,
        node_count=node_count,
        loss=rng.choice((0.0, 0.02, 0.1, 0.3)),
        duplicate=rng.choice((0.0, 0.1)),
        reorder=rng.choice((0.0, 0.0, 0.2)),
        disk_delay=rng.choice((0, ms(2), ms(30), ms(150))),
        partition_count=rng.randint(0, 4),
        pause_count=rng.randint(0, 4),
        crash_count=rng.randint(0, 5),
        wall_step_count=rng.randint(0, 3),
        resign_count=rng.randint(0, 2),
        blackout_count=rng.choice((0, 0, 1)),
    )


class Outcome(Struct, frozen=True, kw_only=True):
    plan: Plan
    complaints: tuple[str, ...]
    leaders_per_epoch_max: int
    overlap_s: float
    epochs_back: int
    unfinished: bool
    settled_s: float | None  # After the faults ended, as far as it is looked at: every 50 ms.
    reigns: int
    faults: dict[str, int]
    trace_hash: str


class Summary(Struct, frozen=True, kw_only=True):
    nodes: int
    runs: int
    seed: int
    leaders_per_epoch_max: int
    overlap: float
    epochs_back: int
    unfinished: int
    settled_max: float
    settle_bound: float
    reigns: int
    complaints: list[str]
    faults: dict[str, int]


def study(nodes: int, *, runs: int, seed: int, jobs: int = 0, progress: Callable[[int], None] | None = None) -> Summary:
    if not 1 <= nodes <= 15:
        raise ConfigError(f"{nodes} is out of range: give 1 to 15", field="nodes")
    results = run_many(partial(run, node_count=nodes), runs, seed, jobs=jobs, progress=progress)
    faults = Counter(dict.fromkeys(FAULTS, 0))
    for result in results:
        faults.update(result.faults)
    return Summary(
        nodes=nodes,
        runs=runs,
        seed=seed,
        leaders_per_epoch_max=max(result.leaders_per_epoch_max for result in results),
        overlap=sum(result.overlap_s for result in results),
        epochs_back=sum(result.epochs_back for result in results),
        unfinished=sum(result.unfinished for result in results),
        settled_max=max((result.settled_s for result in results if result.settled_s is not None), default=0.0),
        settle_bound=CONFIG.settle_max / 1e9,
        reigns=sum(result.reigns for result in results),
        complaints=[describe(result) for result in results if result.complaints][:10],
        faults=dict(faults),
    )


Build = Callable[["Ordeal", SimNode, Port], Pole]


def honest(ordeal: "Ordeal", node: SimNode, port: Port) -> Pole:
    return Pole(node.name, CONFIG, port, node.rng(CHANNEL), **ordeal.arguments(node))


def run(seed: int, *, node_count: int = 5, build: Build = honest, trace: Trace | None = None) -> Outcome:
    """One run; `build` makes the machine, or a deliberately broken one."""
    return Ordeal(plan(seed, node_count), build, trace).run()


class Ordeal:
    def __init__(self, plan: Plan, build: Build, trace: Trace | None) -> None:
        self.plan, self.build = plan, build
        streams = Streams(plan.seed)
        self.rng: Stream = streams.of("world")
        network = NetworkConfig(
            delay=Delay(model="uniform", mean=ms(10), spread=ms(9)),
            loss=Loss(model="uncorrelated", prob=plan.loss),
            duplicate_prob=plan.duplicate,
            reorder_prob=plan.reorder,
            reorder_by=ms(800),
        )
        self.sim = sim = Simulation(
            Network(network, Topology(plan.node_count, None), streams),
            streams,
            trace=trace,
            disk_delay=plan.disk_delay,
            wire=plan.seed % 4 == 0,
        )
        self.watch = Watch(self)
        sim.watchers.append(self.watch.on_fact)
        sim.send_watchers.append(self.watch.on_send)
        sim.filters.append(self.watch.on_delivery)
        sim.network_changed()
        self.deeds: Counter[str] = Counter()
        self.walls: dict[NodeId, Duration] = {}  # By how much each wall clock is off; honest machines never read it.
        self.losers: set[NodeId] = set()  # Lost their file: a minority at most.
        self.newcomers: set[NodeId] = set()
        self.cuts: list[str] = []
        self.calm = False
        self.nodes = []
        for i in range(plan.node_count):
            drift = CONFIG.drift_max * self.rng.choice((-1.0, 0.0, 1.0, 2.0 * self.rng.random() - 1.0))
            self.deeds["drift"] += drift != 0
            clock = Clock(int(self.rng.random() * seconds(1000)), drift)
            self.nodes.append(sim.add(NodeId(f"p{i + 1}"), self._setup, clock=clock))
        self.newcomers.update(self.names)

    @property
    def names(self) -> list[NodeId]:
        return [node.name for node in self.nodes]

    def arguments(self, node: SimNode) -> dict[str, Any]:
        """What a machine is made of, beside its name, its configuration and its chance."""
        scores = node.rng("score")

        def score(epoch: int, gone: NodeId | None) -> Standing | None:
            drawn = scores.random()
            return None if drawn < 0.05 and not self.calm else (float(int(drawn * 20)),)

        return {
            "voters": self.names,
            "score": score,
            "restored": node.restored(CHANNEL, Promise),
            "newcomer": node.name in self.newcomers,
        }

    def run(self) -> Outcome:
        sim, rng, plan = self.sim, self.rng, self.plan
        for node in self.nodes:
            sim.start(node)
        for _ in range(plan.partition_count):
            sim.at(self._within(FAULTS_UNTIL), self._cut, "cut")
        for _ in range(plan.pause_count):
            sim.at(self._within(FAULTS_UNTIL), self._pause, "pause")
        for _ in range(plan.crash_count):
            sim.at(self._within(FAULTS_UNTIL), self._crash, "crash")
        for _ in range(plan.blackout_count):
            sim.at(self._within(FAULTS_UNTIL), self._black_out, "blackout")
        for _ in range(plan.wall_step_count):
            sim.at(self._within(FAULTS_UNTIL), partial(self._step_wall, rng.choice(self.nodes)), "wall clock")
        for _ in range(plan.resign_count):
            sim.at(self._within(FAULTS_UNTIL), self._resign, "resign")
        sim.run(until=FAULTS_UNTIL)
        self._make_peace()
        settled: Duration | None = None
        while sim.now < FAULTS_UNTIL + CONFIG.settle_max:
            sim.run(until=sim.now + LOOK_EVERY)
            if not self._settled():
                settled = None
            elif settled is None:
                settled = sim.now - FAULTS_UNTIL
            elif sim.now - FAULTS_UNTIL > settled + seconds(1):
                break
        if settled is None:
            self.watch.complain(f"no leader known to all: {self._who()}")
        return self._outcome(settled)

    def _outcome(self, settled: Duration | None) -> Outcome:
        watch, network = self.watch, self.sim.network.faults
        watch.end(self.sim.now)
        faults = {name: network[name] for name in ("loss", "duplicate", "reorder")} | dict(self.deeds)
        faults["slow disk"] = int(self.plan.disk_delay > 0)
        return Outcome(
            plan=self.plan,
            complaints=tuple(watch.complaints),
            leaders_per_epoch_max=max((len(leaders) for leaders in watch.acted.values()), default=0),
            overlap_s=watch.overlap / 1e9,
            epochs_back=watch.epochs_back,
            unfinished=settled is None,
            settled_s=None if settled is None else settled / 1e9,
            reigns=len(watch.acted),
            faults=faults,
            trace_hash=self.sim.trace.digest(),
        )

    # Deeds.

    def _cut(self) -> None:
        """In two, both ways or one way only; or somebody in particular is not heard, or does not hear."""
        rng, name = self.rng, f"cut {self.sim.now}"
        self.cuts.append(name)
        leading = self._leading()
        size = rng.randint(1, max(1, len(self.nodes) - 1))
        side = leading if leading and rng.random() < 0.4 else rng.sample(self.nodes, size)
        rest = [node for node in self.nodes if node not in side]
        if rng.random() < 0.5:
            self.deeds["partition"] += 1
            self.sim.partition(name, side, rest)
        else:
            self.deeds["one-way cut"] += 1
            self.sim.block(name, [(a, b) for a in side for b in rest])
        self._later(ms(200) + self._within(seconds(4)), partial(self.sim.heal, name), "heal")

    def _pause(self) -> None:
        leading = self._leading()
        node = self.rng.choice(leading if leading and self.rng.random() < 0.6 else self.nodes)
        if node.state == "up":
            self.deeds["pause"] += 1
            self.sim.pause(node)
            self.watch.on_pause(node.name)
            self._later(ms(50) + self._within(3 * CONFIG.lease), partial(self._resume, node), "resume")

    def _resume(self, node: SimNode) -> None:
        if node.state == "paused":
            self.sim.resume(node)
            self.watch.on_resume(node.name)

    def _leading(self) -> list[SimNode]:
        return [node for node in self.nodes if node.name in self.watch.acting]

    def _crash(self) -> None:
        self._crash_node(self.rng.choice(self.nodes), seconds(3))

    def _black_out(self) -> None:
        """The leader is cut off, and everybody else is started anew at once."""
        leading = self._leading()
        rest = [node for node in self.nodes if node not in leading]
        if leading and rest:
            self.deeds["blackout"] += 1
            name = f"blackout {self.sim.now}"
            self.cuts.append(name)
            self.sim.partition(name, leading, rest)
            self._later(ms(100) + self._within(seconds(2)), partial(self.sim.heal, name), "heal")
            for node in rest:
                self._crash_node(node, ms(30))

    def _crash_node(self, node: SimNode, down_max: Duration) -> None:
        rng = self.rng
        if node.host is None:
            return
        self.deeds["crash"] += 1
        loses = rng.random() < 0.3 and (node.name in self.losers or len(self.losers) < (len(self.nodes) - 1) // 2)
        if loses:
            self.losers.add(node.name)
            self.deeds["file lost"] += 1
        if node.disk:  # Else it has not spoken yet: what would tell of its first record waits for it.
            self.newcomers.discard(node.name)
        self.watch.on_down(node.name)
        self.sim.crash(node, disk="lost" if loses else "kept", writes=rng.choice(("lost", "done")))
        self._later(ms(20) + self._within(down_max), partial(self._restart, node), "restart")

    def _restart(self, node: SimNode) -> None:
        if node.host is None:
            self.deeds["restart"] += 1
            self.sim.start(node)

    def _step_wall(self, node: SimNode) -> None:
        self.deeds["wall clock step"] += 1
        self.walls[node.name] = self.walls.get(node.name, 0) + self.rng.choice((-1, 1)) * self._within(seconds(5))

    def _resign(self) -> None:
        for node in self.nodes:
            if node.name in self.watch.acting and node.state == "up":
                self.deeds["resign"] += 1
                others = [name for name in self.names if name != node.name]
                to = self.rng.choice([None, *others])
                self.sim.command(node, CHANNEL, "resign", to=to)
                return

    def _make_peace(self) -> None:
        sim, self.calm = self.sim, True
        sim.network.config = sim.network.config.without_faults()
        for name in self.cuts:
            sim.heal(name)
        sim.network_changed()
        for node in self.nodes:
            self._resume(node)
            self._restart(node)

    # What is true.

    def machine(self, node: SimNode) -> Pole | None:
        found: Any = None if node.host is None else node.host.ports[CHANNEL].machine
        assert found is None or isinstance(found, Pole)
        return found

    def _settled(self) -> bool:
        machines = [self.machine(node) for node in self.nodes]
        terms = {None if machine is None else machine.term for machine in machines}
        leading = [machine.me for machine in machines if machine is not None and machine.status is Status.LEADING]
        return len(terms) == 1 and len(leading) == 1 and next(iter(terms)) is not None

    def _who(self) -> str:
        machines = [self.machine(node) for node in self.nodes]
        return ", ".join(f"{m.me} {m.status.value} {m.epoch} {m.chosen}" for m in machines if m is not None)

    def _setup(self, node: SimNode, host: Host) -> None:
        host.add(CHANNEL, lambda port: self.build(self, node, port))

    def _within(self, span: Duration) -> Duration:
        return int(self.rng.random() * span)

    def _later(self, after: Duration, act: Callable[[], Any], what: str) -> None:
        self.sim.at(self.sim.now + after, act, what)


class Watch:
    """What an all-seeing eye notes, in true time."""

    def __init__(self, ordeal: Ordeal) -> None:
        self._ordeal = ordeal
        self.complaints: list[str] = []
        self.acting: dict[NodeId, Term] = {}
        self._still: set[NodeId] = set()  # Paused: whatever they believe, they do nothing.
        self.acted: dict[int, set[NodeId]] = {}  # By epoch.
        self._greatest = 0
        self.overlap: Duration = 0
        self._two_since: Instant | None = None
        self.epochs_back = 0
        self._promised: dict[NodeId, int] = {}
        self._proposed: set[tuple[NodeId, int]] = set()
        self._granted: dict[tuple[NodeId, int], NodeId] = {}
        self._quorum_at: dict[NodeId, tuple[int, Instant]] = {}
        self._woke_at: dict[NodeId, Instant] = {}  # After its last pause, by its own clock.

    def complain(self, what: str) -> None:
        self.complaints.append(f"{self._ordeal.sim.now / 1e9:.3f} s: {what}")

    def on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        match fact:
            case LeaderElected(term) if term.leader == node.name:
                self._on_acts(node.name, term, now)
            case LeaderLost(term) if term.leader == node.name:
                self.acting.pop(node.name, None)
            case EpochPromised(epoch):
                if epoch <= self._promised.get(node.name, 0):
                    self.epochs_back += 1
                    self.complain(f"{node.name} goes back from epoch {self._promised[node.name]} to {epoch}")
                self._promised[node.name] = epoch
            case QuorumProposed(epoch, at):
                self._quorum_at[node.name] = (epoch, at)
            case Selected():
                self._on_selected(node.name, fact)
        self._count(now)

    def _on_acts(self, name: NodeId, term: Term, now: Instant) -> None:
        self.acting[name] = term
        leaders = self.acted.setdefault(term.number, set())
        leaders.add(name)
        if len(leaders) > 1:
            self.complain(f"epoch {term.number} has two leaders: {', '.join(sorted(leaders))}")
        if term.number <= self._greatest:
            self.epochs_back += 1
            self.complain(f"{name} acts in epoch {term.number} after {self._greatest}")
        self._greatest = max(self._greatest, term.number)

    def _on_selected(self, name: NodeId, fact: Selected) -> None:
        quorum = len(self._ordeal.nodes) // 2 + 1
        true = [node for node in fact.proposers if (node, fact.epoch) in self._proposed or node == name]
        if len(true) < quorum:
            self.complain(f"{name} selects {fact.leader} in epoch {fact.epoch}; only {len(true)} proposed in it")
        epoch, at = self._quorum_at.get(name, (0, 0))
        since = max(at, self._woke_at.get(name, at) - CONFIG.election_timeout)  # A timer that ran out in its sleep.
        if epoch == fact.epoch and fact.at > since + CONFIG.election_timeout + 2 and name not in self._still:
            self.complain(f"{name} selects {(fact.at - at) / 1e6:.0f} ms after its quorum")

    def on_send(self, node: SimNode, channel: str, message: Any, now: Instant) -> None:
        if isinstance(message, Propose):
            self._proposed.add((node.name, message.epoch))

    def on_delivery(self, sender: SimNode, channel: str, receiver: SimNode, message: Any) -> Duration:
        if isinstance(message, HeartbeatAck) and message.granted:
            to = self._granted.setdefault((sender.name, message.epoch), receiver.name)
            if to != receiver.name:
                self.complain(f"{sender.name} grants epoch {message.epoch} to {to} and to {receiver.name}")
        return 0

    def on_pause(self, name: NodeId) -> None:
        self._still.add(name)
        self._quorum_at.pop(name, None)
        self._count(self._ordeal.sim.now)

    def on_resume(self, name: NodeId) -> None:
        """Called once it has worked off what had piled up: timers first seen now are late, but seen.  What it did then
        may be told later, when its disk is done."""
        self._still.discard(name)
        self._woke_at[name] = self._ordeal.sim.by_name[name].now()
        self._count(self._ordeal.sim.now)

    def on_down(self, name: NodeId) -> None:
        self.acting.pop(name, None)
        self._still.discard(name)
        self._quorum_at.pop(name, None)
        self._count(self._ordeal.sim.now)

    def end(self, now: Instant) -> None:
        self.acting.clear()
        self._count(now)

    def _count(self, now: Instant) -> None:
        several = len([name for name in self.acting if name not in self._still]) > 1
        if several and self._two_since is None:
            self._two_since = now
            self.complain(f"{' and '.join(sorted(self.acting))} act at once")
        elif not several and self._two_since is not None:
            self.overlap += now - self._two_since
            self._two_since = None


def describe(outcome: Outcome) -> str:
    """One line with every option, and one that replays it."""
    options = " ".join(f"{name}={value}" for name, value in asdict(outcome.plan).items())
    said = "; ".join(outcome.complaints[:3])
    replay = f"python -m doyen_papers.studies.pole_chaos {outcome.plan.seed} {outcome.plan.node_count}"
    return f"{options}: {said}\nreplay: {replay}"


if __name__ == "__main__":
    import sys

    print(describe(run(int(sys.argv[1]), node_count=int(sys.argv[2]), trace=Trace(sys.stdout))))
