"""Churn-tolerant elections by simulation: one election over weak views, watched from outside.  [CTOL §VI]

    completion        from initiation until the last live node holds the eventual leader; tentative counts
    completion_final  until the last live node holds it finally
    unicasts          QUERY, RESPONSE and NOTIFYLEADER, those to oneself included
    multicasts        LEADERs; the fan-out of one to each member, its acks and resends count in bytes only
    bytes             of the election, summed over the hops travelled, until everybody has the
                      leader finally and has acknowledged it, or 20 s later
    bytes_end_to_end  each packet once
    leader_changes    LEADERs from another leader than the one before; the first counts
    hash_rank         of the leader among live nodes, 0 is the lowest
    unhealthy_rank    0 is the most unhealthy by suspicions summed over all live views, ties by hash
    preference        whether the leader is outside the y most unhealthy so counted
    p                 share of those y that a RESPONSE does not list (preferred, hybrid)
    agreement         whether all live nodes end with one live leader of one term

The network is that of the paper: hop by hop, a delay in (0, 50] ms and loss on each.  Views are complete where nothing
is dropped; else a membership protocol runs underneath on the same network, or a trace of one is told.  The LEADER is
fanned out to each member and repeated until acknowledged.  While one election is measured no rival is begun, unless
its initiator crashes or there are several: views err all the time, and each error would begin another.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from doyen.core.clock import FOREVER, Duration, Instant, ms, seconds
from doyen.core.commands import Initiate
from doyen.core.config import Config, Doc, Positive, Share, need
from doyen.core.effects import Out
from doyen.core.host import Host
from doyen.core.ids import Incarnation, NodeId
from doyen.core.leadership import LeaderElected
from doyen.core.view import MembershipView
from doyen.election.churn.config import CTolerantConfig, Exclusion
from doyen.election.churn.initiator import Role
from doyen.election.churn.local import Local
from doyen.election.churn.machine import CTolerant
from doyen.election.churn.messages import LeaderHeld, NotifyLeader, Query, Record, Response
from doyen.election.churn.standpoint import hash_rank
from doyen.errors import ConfigError
from doyen.membership.missing import MissingConfig, MissingEstimator
from doyen.membership.reliable import ReliableMulticast
from doyen.sim.engine import Traffic
from doyen.sim.node import SimNode
from doyen.sim.runs import Figure, figure, run_many, undisturbed
from doyen.sim.streams import Streams
from doyen.sim.trace import Trace, combined_hash
from doyen_papers.studies.frame import simulation
from doyen_papers.studies.ground import Ground, build_ground, radio
from doyen_papers.studies.memtrace import MemTrace, Player, Recorder, Stage, read
from doyen_papers.studies.printed import PrintedCTolerant
from doyen_papers.studies.underlay import (
    CONFIGS,
    MEMBERSHIP,
    Gossip,
    Handicap,
    HandicapOut,
    MemberConfig,
    Protocol,
    acquaint,
    handicaps,
    member,
)
from doyen_papers.studies.views import ToldViews

Variant = Literal["base", "optimistic", "preferred", "hybrid", "local"]

CHANNEL: Final = "election"
FIRST: Final = Incarnation(1)
HORIZON: Final[Duration] = seconds(240)  # An election that takes longer has failed.
STEP: Final[Duration] = ms(100)
ACKS_WITHIN: Final[Duration] = seconds(20)  # The last acks may never come where much is lost.
NEVER_IN_A_RUN: Final[Duration] = seconds(10**7)

#: [CTOL Table I] c by topology, size and drop rate.
TABLE_I: Final[dict[tuple[str, int, float], int]] = {
    ("grid", 49, 0.05): 4,
    ("cluster", 49, 0.05): 4,
    ("random", 49, 0.05): 4,
    ("random", 49, 0.1): 7,
    ("random", 49, 0.15): 10,
    ("random", 49, 0.2): 13,
    ("random", 32, 0.05): 2,
    ("random", 64, 0.05): 5,
    ("random", 128, 0.05): 9,
    ("random", 256, 0.05): 17,
}

#: What the machine's fields are called here.
NAMED_HERE: Final = {
    "candidate_count": "candidates",
    "unhealthy_count": "unhealthy",
    "notify_retry_max": "notify_retries",
    "response_timeout": "timeout_s",
}


Nodes: TypeAlias = Annotated[int, Meta(ge=1, le=10_000)]
Minute: TypeAlias = Annotated[float, Meta(gt=0, lt=60)]
Hour: TypeAlias = Annotated[float, Meta(ge=0, le=3600)]


class ChurnSetting(Config, frozen=True, kw_only=True):
    """One cell of the evaluation."""

    variant: Annotated[Variant, Doc("local: each node takes the lowest hash of its own view.")] = "hybrid"
    topology: Annotated[Ground, Doc("Who is linked: within 4 m on a grid, at random, in crowds; or all.")] = "random"
    nodes: Annotated[Nodes, Doc("N.")] = 49
    drop: Annotated[Share, Doc("Loss per hop; 0: no loss, and complete views.")] = 0.05
    missing_max: Annotated[str, Doc("c: a number, `auto` (estimated), or `table`: Table I, else auto.")] = "table"
    failure_max: Annotated[int, Doc("f.")] = 0
    candidates: Annotated[int, Doc("x.")] = 5
    unhealthy: Annotated[int, Doc("y.")] = 5
    timeout_s: Annotated[Minute, Doc("TIMEOUT.")] = 0.5
    exclusion: Annotated[Exclusion, Doc("union: all on any unhealthy list; top: the y greatest sums.")] = "union"
    initiators: Annotated[Positive, Doc("How many begin at once.")] = 1
    crash_initiator: Annotated[bool, Doc("The (first) initiator dies right after its first NOTIFYLEADER.")] = False
    membership: Annotated[Protocol, Doc("What makes the views, where something is dropped.")] = "medley"
    trace: Annotated[str, Doc("Views from this membership trace; its nodes, places and drop replace those given.")] = ""
    handicap: Annotated[bool, Doc("The five lowest hashes lose more ACKs: 3.5·drop … 1.5·drop per hop.")] = False
    handicap_form: Annotated[Handicap, Doc("What they lose more of; `traffic`: all messages, both ways.")] = "acks"
    gossip: Annotated[
        Gossip, Doc("What carries the membership's news: all messages; acks alone; private: nothing says who failed.")
    ] = "all"
    evenly: Annotated[bool, Doc("LEADER is repeated every TIMEOUT; if not, after twelve times ever more slowly.")] = (
        False
    )
    confirmed: Annotated[bool, Doc("A tentative leader is confirmed; if not, as printed, it stands as it is.")] = True
    warmup_s: Annotated[Hour, Doc("How long membership runs before the election begins.")] = 60.0
    notify_retries: Annotated[int, Doc("NOTIFYLEADERs repeated before everybody is asked anew; 0: as printed.")] = 3

    def check(self) -> None:
        need(self.initiators <= self.nodes, "initiators", f"must be 1 to nodes ({self.nodes})")
        text = self.missing_max
        need(
            text in ("auto", "table") or (text.isascii() and text.isdigit()),
            "missing_max",
            f"{text!r} is neither a number, auto nor table",
        )
        need(not self.handicap or 3.5 * self.drop < 1, "handicap", "multiplies drop by 3.5: that is too much loss")
        try:
            self.config()
        except ConfigError as error:
            named = NAMED_HERE.get(error.field or "", error.field)
            raise ConfigError(error.complaint, field=named) from None

    def bound(self) -> int | Literal["auto"]:
        """Return c, as given or from Table I."""
        if self.missing_max == "table":
            return TABLE_I.get((self.topology, self.nodes, self.drop), "auto")
        return "auto" if self.missing_max == "auto" else int(self.missing_max)

    def config(self) -> CTolerantConfig:
        timeout = seconds(self.timeout_s)
        alone = self.initiators == 1 and not self.crash_initiator
        return CTolerantConfig(
            variant="base" if self.variant == "local" else self.variant,
            missing_max=self.bound(),
            failure_max=self.failure_max,
            candidate_count=self.candidates,
            unhealthy_count=self.unhealthy,
            exclusion=self.exclusion,
            response_timeout=timeout,
            notify_retry_max=self.notify_retries,
            resend_interval=timeout,  # Decision 44.
            final_timeout=NEVER_IN_A_RUN if alone else 20 * timeout,
            begin_spread=NEVER_IN_A_RUN if alone else timeout,
            ask_interval=FOREVER,
            bootstrap_after=FOREVER,
        )


class Run(Struct, kw_only=True):
    """One election's figures."""

    completion: float | None = None
    completion_final: float | None = None
    unicasts: float | None = None
    multicasts: float | None = None
    bytes: float | None = None
    bytes_end_to_end: float | None = None
    leader_changes: float | None = None
    hash_rank: float | None = None
    unhealthy_rank: float | None = None
    preference: float | None = None
    p: float | None = None
    attempts: float | None = None
    missing_max: int = 0
    agreed: bool = False
    trace_hash: str = ""


#: What a run measures.
FIGURES: Final = tuple(name for name in Run.__struct_fields__ if name not in ("missing_max", "agreed", "trace_hash"))


class Summary(Struct, frozen=True, kw_only=True):
    setting: ChurnSetting
    runs: int
    seed: int
    figures: dict[str, Figure | None]
    missing_max: Figure | None  # c as it was used.
    agreement: float
    trace_hash: str


def study(
    setting: ChurnSetting, *, runs: int, seed: int, jobs: int = 0, progress: Callable[[int], None] | None = None
) -> Summary:
    """Hold many elections of one setting, each with its own seed, places, views and initiator."""
    if setting.trace:
        header = read(setting.trace).header  # Complaints before anything runs.
        setting = replace(setting, nodes=len(header.nodes), drop=header.drop, membership=header.membership)
    results = run_many(partial(simulate, setting), runs, seed, jobs=jobs, progress=progress)
    return Summary(
        setting=setting,
        runs=runs,
        seed=seed,
        figures={name: figure([getattr(result, name) for result in results]) for name in FIGURES},
        missing_max=figure([result.missing_max for result in results]),
        agreement=sum(result.agreed for result in results) / runs,
        trace_hash=combined_hash([result.trace_hash for result in results]),
    )


@lru_cache(maxsize=4)
def _stage_of(path: str) -> Stage:
    """Read once by each process: all runs over a trace have its places."""
    return Stage(read(path))


def simulate(setting: ChurnSetting, seed: int, *, trace: Trace | None = None, stage: Stage | None = None) -> Run:
    """Hold one election; `stage` replaces the setting's trace."""
    with undisturbed():
        return Experiment(setting, seed, trace, stage).run()


def record(setting: ChurnSetting, seed: int, *, duration_s: float) -> MemTrace:
    """Record a trace of the setting's membership that begins after its warm-up: one for each run (decision 110)."""
    need(0 < duration_s <= 1e7, "seconds", f"{duration_s:g} must be positive, and at most 10,000,000")
    with undisturbed():
        return _recorded(Experiment(setting, seed, None, holds_elections=False), seconds(duration_s), seed)


def _recorded(experiment: "Experiment", duration: Duration, seed: int) -> MemTrace:
    sim, setting = experiment.sim, experiment.setting
    experiment.begin()
    recorder = Recorder(sim, setting.membership, setting.drop, seed)
    recorder.snapshot({node.index: experiment.view(node) for node in sim.nodes})
    sim.run(until=sim.now + duration)
    return recorder.trace()


class Experiment:
    def __init__(
        self,
        setting: ChurnSetting,
        seed: int,
        trace: Trace | None,
        stage: Stage | None = None,
        *,
        holds_elections: bool = True,
    ) -> None:
        self.setting, self.holds_elections = setting, holds_elections
        self.stage = _stage_of(setting.trace) if stage is None and setting.trace else stage
        header = None if self.stage is None else self.stage.trace.header
        self.drop = setting.drop if header is None else header.drop
        if self.stage is None:
            topology = build_ground(setting.topology, setting.nodes, Streams(seed).of("ground"))
        else:
            topology = self.stage.ground.copy()
        self.ground = topology.copy() if self.stage is None else self.stage.ground  # All are up there.
        self.sim = simulation(seed, topology, radio(self.drop), trace)
        self.streams = self.sim.streams
        self.views = ToldViews(self.sim)
        self.live = self.stage is None and self.drop > 0
        self.config = setting.config()
        width = len(str(topology.size - 1))
        called = [f"n{i:0{width}d}" for i in range(topology.size)] if header is None else header.nodes
        names = [NodeId(name) for name in called]
        self.known = acquaint(names, FIRST) if self.live else None
        self.membership: MemberConfig = CONFIGS[setting.membership].paper()
        self.worse = handicaps(names, self.drop) if setting.handicap else None
        self.nodes = [self.sim.add(name, self._setup) for name in names]
        self.ranked = sorted(self.nodes, key=lambda node: (hash_rank(node.name), node.name))
        self.began: Instant = FOREVER
        self.unicasts = 0
        self.leaders: list[NodeId] = []  # Who told that it leads, in order.
        self.held: dict[NodeId, Record] = {}
        self.held_since: dict[NodeId, Instant] = {}  # That leader, without a break.
        self.final_since: dict[NodeId, Instant] = {}
        self.attempts: set[tuple[Any, int]] = set()
        self.excluded_by: list[set[NodeId]] = []
        self.initiators: list[SimNode] = []
        self.doomed: SimNode | None = None
        self.settled_at: Instant | None = None  # Everybody holds the leader finally;
        self.unacked: set[NodeId] = set()  # these have not said so since.

    # The script.

    def begin(self) -> None:
        """Start all nodes, and give each a view."""
        setting = self.setting
        for node in self.nodes:
            self.sim.start(node)
        if not setting.crash_initiator:
            self.sim.network.topology.share_routes(self.ground)
        if self.stage is not None:
            offset = int(self.streams.of("offset").random() * ms(self.stage.trace.header.duration_ms))
            Player(self.stage.script(offset), self.sim, self.views).start()
        elif not self.live:
            self.views.complete(self.nodes)
        else:
            phase = int(self.streams.of("phase").random() * seconds(2))
            self.sim.run(until=seconds(setting.warmup_s) + phase)

    def run(self) -> Run:
        self.begin()
        setting = self.setting
        if setting.variant == "local":
            return self._local()
        self.sim.watchers.append(self._on_fact)
        self.sim.send_watchers.append(self._on_send)
        self.began = self.sim.now
        traffic = self.sim.traffic.get(CHANNEL)
        assert traffic is None or traffic.messages == 0, "somebody spoke before the election began"
        initiators = self.streams.of("initiators").sample(self.nodes, setting.initiators)
        self.doomed = initiators[0] if setting.crash_initiator else None
        top = self._sickest(self._suspicions())
        bound = self._machine(initiators[0]).point.missing_max()
        self.initiators = initiators
        for node in initiators:
            self.sim.tell(node, Initiate(), channel=CHANNEL)
        while not self._done() and self.sim.now < self.began + HORIZON:
            self.sim.run(until=self.sim.now + STEP)
        result = self._measured(top)
        result.missing_max = bound
        result.trace_hash = self.sim.trace.digest()
        return result

    def _done(self) -> bool:
        up = list(self.sim.up())
        first = self.held.get(up[0].name)
        if first is None or not first.final or any(self.held.get(node.name) != first for node in up):
            return False
        leader = self.sim.by_name[first.leader]
        if leader.host is None or (not self.setting.confirmed and self._is_counting()):
            return False
        if self.settled_at is None:
            self.settled_at, self.unacked = self.sim.now, {node.name for node in up}
        # A node that was held for failed since gets the leader anew and owes an ack anew: that is another election.
        self.unacked &= self._machine(leader).multicast.waiting
        return not self.unacked or self.sim.now >= self.settled_at + ACKS_WITHIN

    def _is_counting(self) -> bool:
        """Return whether an initiator still has answers to wait for: another leader may follow."""
        live = (node for node in self.initiators if node.host is not None)
        return any(self._machine(node).initiator.role is not Role.IDLE for node in live)

    def _measured(self, top: set[NodeId]) -> Run:
        result = Run(unicasts=self.unicasts, multicasts=len(self.leaders), attempts=len(self.attempts))
        traffic = self.sim.traffic.get(CHANNEL) or Traffic()  # None: too few are known to ask anybody.
        result.bytes, result.bytes_end_to_end = traffic.hop_bytes, traffic.bytes
        changes = sum(1 for a, b in zip([None, *self.leaders], self.leaders, strict=False) if a != b)
        result.leader_changes = changes
        if self.excluded_by and top:
            result.p = sum(len(top - out) for out in self.excluded_by) / (len(top) * len(self.excluded_by))
        up = [node.name for node in self.sim.up()]
        records = {self.held.get(name) for name in up}
        last = records.pop() if len(records) == 1 else None
        if last is None or not last.final or last.leader not in up:
            return result
        result.agreed = True
        result.completion = (max(self.held_since[name] for name in up) - self.began) / 1e9
        result.completion_final = (max(self.final_since[name] for name in up) - self.began) / 1e9
        self._rank(result, last.leader)
        return result

    def _rank(self, result: Run, leader: NodeId) -> None:
        up = [node for node in self.ranked if node.host is not None]
        result.hash_rank = [node.name for node in up].index(leader)
        sums = self._suspicions()
        result.unhealthy_rank = list(sums).index(leader)
        result.preference = float(leader not in self._sickest(sums))

    def _local(self) -> Run:
        named = [self.held_local(node) for node in self.nodes]
        common = max(set(named), key=lambda name: (named.count(name), name))
        result = Run(agreed=len(set(named)) == 1, trace_hash=self.sim.trace.digest())
        result.completion = result.completion_final = 0.0
        result.unicasts = result.multicasts = result.bytes = result.bytes_end_to_end = 0.0
        result.leader_changes = len(set(named))
        self._rank(result, common)
        return result

    def held_local(self, node: SimNode) -> NodeId:
        machine: Any = node.ports[CHANNEL].machine
        return machine.leader or node.name

    # What is seen.

    def _on_send(self, node: SimNode, channel: str, message: Any, now: Instant) -> None:
        if channel != CHANNEL:
            return
        match message:
            case Query():
                self.unicasts += 1
                self.attempts.add((message.election, message.attempt))
            case Response():
                self.unicasts += 1
                if self.config.preferred and message.better is None:
                    self.excluded_by.append({name for name, _ in message.excluded})
            case NotifyLeader():
                self.unicasts += 1
                if node is self.doomed:
                    self.doomed = None
                    self.sim.at(now, partial(self.sim.crash, node), "the initiator dies")

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if channel != CHANNEL or isinstance(fact, LeaderElected) or not isinstance(fact, LeaderHeld):
            return
        record, before = fact.record, self.held.get(node.name)
        self.held[node.name] = record
        if before is None or before.leader != record.leader:
            self.held_since[node.name] = now
        if record.final:
            self.final_since[node.name] = now
        if record.leader == node.name:
            self.leaders.append(node.name)

    # Views.

    def view(self, node: SimNode) -> MembershipView:
        if not self.live:
            return self.views.view(node.name)
        machine: Any = node.ports[MEMBERSHIP].machine
        view: MembershipView = machine.view
        return view

    def _suspicions(self) -> dict[NodeId, int]:
        """Return the suspicions of each live node, summed over live views; the most unhealthy first, ties by hash."""
        up = [node for node in self.ranked if node.host is not None]
        sums = dict.fromkeys((node.name for node in up), 0)
        for node in up:
            for seen in self.view(node).members.values():
                if seen.suspicion_count and seen.node in sums:
                    sums[seen.node] += seen.suspicion_count
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def _sickest(self, sums: dict[NodeId, int]) -> set[NodeId]:
        """Return the y most unhealthy of the whole system; a node that was never suspected is not among them."""
        top = list(sums.items())[: self.setting.unhealthy]
        return {name for name, count in top if count >= 1}

    def _machine(self, node: SimNode) -> CTolerant:
        machine = node.ports[CHANNEL].machine
        assert isinstance(machine, CTolerant)
        return machine

    def _member(self, node: SimNode, out: Out) -> Any:
        setting = self.setting
        if self.worse is not None:
            out = HandicapOut(out, node, self.worse, setting.handicap_form, setting.membership)
        more: dict[str, Any] = {"known": self.known, "ground": self.ground, "gossip": setting.gossip}
        return member(self.membership, node, out, incarnation=FIRST, **more)

    def _setup(self, node: SimNode, host: Host) -> None:
        if self.known is not None:
            host.add(MEMBERSHIP, partial(self._member, node))
            if self.config.missing_max == "auto" and self.setting.variant != "local":
                host.add(
                    "missing", lambda port: MissingEstimator(node.name, MissingConfig(), port, node.rng("missing"))
                )
        if not self.holds_elections:
            return
        if self.setting.variant == "local":
            host.add(CHANNEL, lambda port: Local(node.name, port))
        else:
            host.add(CHANNEL, partial(self._elector, node))

    def _elector(self, node: SimNode, port: Out) -> CTolerant:
        kind = CTolerant if self.setting.confirmed else PrintedCTolerant
        made = kind(node.name, node.incarnation, self.config, port, node.rng(CHANNEL), durable=False)
        if self.setting.evenly and isinstance(made.multicast, ReliableMulticast):
            made.multicast.even_rounds = HORIZON // self.config.resend_interval
        return made
