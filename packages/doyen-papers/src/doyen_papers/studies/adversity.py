"""Churn-tolerant elections among enemies: one seed gives one run of everything that can go wrong.  [CTOL]

Messages are lost, doubled and overtaken; initiators rise together and die after their first NOTIFYLEADER; the lowest
node is dead and still listed; members are suspected everywhere, and removed by some or by all while they live; crashed
nodes return, with and without their disk.  Then the faults end and views come true: all live nodes must hold one live
leader, finally and by one record.  On the way:

    a node's term never goes back, across restarts that keep the disk too
    an answer counts only in the attempt that it was given to: views of before are no witnesses
    base, optimistic   whoever lived through an attempt and was missing from at most c of the views that it could be
                       asked from is not passed over  (Theorem 1)
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Struct

from doyen.core.clock import Duration, Instant, ms, seconds
from doyen.core.host import Host
from doyen.core.ids import NodeId
from doyen.core.view import Member, Status
from doyen.election.ctolerant.config import CTolerantConfig, Variant
from doyen.election.ctolerant.machine import CTolerant
from doyen.election.ctolerant.messages import (
    AttemptBegan,
    Decided,
    LeaderHeld,
    Memory,
    NotifyLeader,
    Response,
    ResponseCounted,
)
from doyen.election.ctolerant.standpoint import hash_rank
from doyen.errors import InvariantViolated
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Loss, Network, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.streams import Stream, Streams
from doyen.sim.topology import Topology
from doyen_papers.studies.views import ToldViews

CHANNEL: Final = "election"
VARIANTS: Final[tuple[Variant, ...]] = ("base", "optimistic", "preferred", "hybrid")
FAULTS_UNTIL: Final[Duration] = seconds(16)
TRUE_WITHIN: Final[Duration] = seconds(3)
AGREE_WITHIN: Final[Duration] = seconds(90)


class Plan(Struct, frozen=True, kw_only=True):
    """What one seed makes of a run."""

    seed: int
    variant: Variant
    node_count: int
    missing_max: int
    failure_max: int
    initiator_count: int
    crash_initiator: bool
    dead_lowest: bool
    crash_count: int
    removal_count: int
    suspicion_count: int
    loss: float
    reorder: float
    duplicate: float


def plan(seed: int, variant: Variant | None = None) -> Plan:
    rng = Streams(seed).of("plan")
    drawn: Variant = rng.choice(VARIANTS)
    node_count = rng.randint(3, 9)
    missing_max = rng.randint(0, min(3, node_count - 2))
    return Plan(
        seed=seed,
        variant=variant or drawn,
        node_count=node_count,
        missing_max=missing_max,
        failure_max=rng.randint(0, min(1, node_count - 2 - missing_max)),
        initiator_count=rng.choice((1, 1, 2, 3)),
        crash_initiator=rng.random() < 0.4,
        dead_lowest=rng.random() < 0.4,
        crash_count=rng.choice((0, 0, 1, 2)),
        removal_count=rng.randint(0, 6),
        suspicion_count=rng.choice((0, node_count, 4 * node_count)),
        loss=rng.choice((0.0, 0.05, 0.2)),
        reorder=rng.choice((0.0, 0.3, 0.6)),
        duplicate=rng.choice((0.0, 0.1)),
    )


class Outcome(Struct, frozen=True, kw_only=True):
    plan: Plan
    complaint: str | None  # What went wrong.
    faults: dict[str, int]
    trace_hash: str


def run(seed: int, *, variant: Variant | None = None, build: Callable[..., CTolerant] = CTolerant) -> Outcome:
    """One run; `build` makes the machine, or a deliberately broken one."""
    ordeal = _Ordeal(plan(seed, variant), build)
    try:
        complaint = ordeal.run()
    except InvariantViolated as error:
        complaint = str(error)
    return Outcome(
        plan=ordeal.plan,
        complaint=complaint,
        faults=dict(ordeal.sim.network.faults) | ordeal.deeds,
        trace_hash=ordeal.sim.trace.digest(),
    )


class _Ordeal:
    def __init__(self, plan: Plan, build: Callable[..., CTolerant]) -> None:
        self.plan, self.build = plan, build
        self.config = CTolerantConfig(
            variant=plan.variant,
            missing_max=plan.missing_max,
            failure_max=plan.failure_max,
            candidate_count=2,
            unhealthy_count=2,
            bootstrap_after=seconds(20),
        )
        streams = Streams(plan.seed)
        self.rng: Stream = streams.of("world")
        network = NetworkConfig(
            delay=Delay(model="uniform", mean=ms(25), spread=ms(24)),
            loss=Loss(model="uncorrelated", prob=plan.loss),
            reorder_prob=plan.reorder,
            reorder_by=seconds(4),
            duplicate_prob=plan.duplicate,
        )
        self.sim = Simulation(Network(network, Topology(plan.node_count, None), streams), streams)
        self.views = ToldViews(self.sim)
        self.deeds: dict[str, int] = {}
        self.began: dict[tuple[Any, int], Instant] = {}  # By election and attempt.
        self.current: dict[NodeId, tuple[Any, int]] = {}  # By initiator: its election and attempt.
        self.answered: set[tuple[NodeId, Any, int]] = set()
        self.alive_since: dict[NodeId, Instant] = {}
        self.lacked_until: dict[tuple[NodeId, NodeId], Instant] = {}  # (node, member): when its view last lacked it.
        self.numbers: dict[NodeId, int] = {}  # By node: the term it went by last.
        self.sim.watchers.append(self._on_fact)
        self.sim.send_watchers.append(self._on_send)
        self.doomed: SimNode | None = None  # An initiator that dies after its first NOTIFYLEADER.
        self.nodes = [self.sim.add(NodeId(f"n{i}"), self._setup) for i in range(plan.node_count)]

    def run(self) -> str | None:
        plan, rng = self.plan, self.rng
        ranked = sorted(self.nodes, key=lambda node: self.order(node.name))
        dead = ranked[0] if plan.dead_lowest else None
        for node in self.nodes:
            self._start(node, first=True)
        self.views.complete(self.nodes)
        if dead is not None:
            self._crash(dead, at=ms(500))
        able = [node for node in self.nodes if node is not dead]
        initiators = rng.sample(able, min(plan.initiator_count, len(able)))
        for node in initiators:
            self._at(seconds(1) + self._within(ms(300)), partial(self._initiate, node), "initiate")
        self.doomed = initiators[0] if plan.crash_initiator else None
        for node in rng.sample(able, min(plan.crash_count, len(able))):
            self._crash(node, at=seconds(1) + self._within(seconds(8)))
        for _ in range(plan.removal_count):
            self._remove_falsely()
        for _ in range(plan.suspicion_count):
            self._suspect()
        self.sim.run(until=FAULTS_UNTIL)
        self.sim.network.config = self.sim.network.config.without_faults()
        self.sim.network_changed()
        for node in self.sim.up():
            self._at(FAULTS_UNTIL + self._within(TRUE_WITHIN), partial(self._tell_truth, node), "truth")
        self.sim.run(until=FAULTS_UNTIL + TRUE_WITHIN + AGREE_WITHIN)
        return self._disagreement()

    # Deeds.

    def _initiate(self, node: SimNode) -> None:
        self.sim.command(node, CHANNEL, "initiate")

    def _crash(self, node: SimNode, at: Instant) -> None:
        """Its death is learnt after a while by each; it may return."""
        self._at(at, lambda: self._die(node), f"{node.name} dies")

    def _die(self, node: SimNode) -> None:
        needed = self.plan.missing_max + self.plan.failure_max + 1  # Fewer could not elect safely.
        if node.host is None or sum(1 for _ in self.sim.up()) <= max(2, needed):
            return
        self._count("crash")
        self.sim.crash(node, disk=self.rng.choice(("kept", "lost")))
        if not node.disk:
            self.numbers.pop(node.name, None)
        self.alive_since.pop(node.name, None)
        for other in self.nodes:
            if other is not node:
                lag = ms(100) + self._within(seconds(4))
                self._at(self.sim.now + lag, partial(self._learn, other, node), "learn")
        if self.rng.random() < 0.6:
            self._at(self.sim.now + ms(200) + self._within(seconds(6)), lambda: self._return(node), "return")

    def _return(self, node: SimNode) -> None:
        if node.host is None:
            self._count("rejoin")
            self._start(node)
            self.views.tell_again(node)
            for other in self.nodes:
                if other is not node:
                    lag = self._within(seconds(3))
                    self._at(self.sim.now + lag, partial(self._learn, other, node), "learn")

    def _learn(self, other: SimNode, node: SimNode) -> None:
        """What is true of the node now, as far as anybody may know."""
        self._put(other, node.name, Status.ALIVE if node.host is not None else Status.FAILED)

    def _remove_falsely(self) -> None:
        """A living member is missing from some views, or from all, for a while."""
        rng, member = self.rng, self.rng.choice(self.nodes)
        others = [node for node in self.nodes if node is not member]
        everybody = rng.random() < 0.15
        count = len(others) if everybody else rng.randint(1, max(1, self.plan.missing_max))
        begin, absent = self._within(seconds(8)), rng.random() < 0.5
        for other in rng.sample(others, min(count, len(others))):
            end = begin + ms(200) + self._within(seconds(6))
            self._at(begin, partial(self._forget, other, member.name, absent), "forget")
            self._at(end, partial(self._learn, other, member), "remember")

    def _suspect(self) -> None:
        other, member = self.rng.choice(self.nodes), self.rng.choice(self.nodes)
        if other is not member:
            begin = self._within(seconds(8))
            self._at(begin, lambda: self._put(other, member.name, Status.SUSPECTED, suspect=1), "suspect")
            self._at(begin + self._within(seconds(6)), lambda: self._clear(other, member.name), "clear")

    def _clear(self, other: SimNode, member: NodeId) -> None:
        view = self.views.view(other.name)
        if member in view and view[member].status is Status.SUSPECTED:
            self._put(other, member, Status.ALIVE)

    def _forget(self, other: SimNode, member: NodeId, absent: bool) -> None:
        self._count("false removal")
        if absent:
            self.lacked_until[other.name, member] = self.sim.now
            self.views.drop(other, [member])
        else:
            self._put(other, member, Status.FAILED)

    def _put(self, other: SimNode, member: NodeId, status: Status, suspect: int = 0) -> None:
        view = self.views.view(other.name)
        before = view.members.get(member)
        present = status in (Status.ALIVE, Status.SUSPECTED)
        if suspect and (before is None or not before.present):
            return
        if not self.views.knows(other.name, member) or not present:
            self.lacked_until[other.name, member] = self.sim.now  # Until now at least.
        count = (0 if before is None else before.suspicion_count) + suspect
        self.views.set(other, [Member(node=member, status=status, suspicion_count=count)])

    def _tell_truth(self, node: SimNode) -> None:
        for other in self.nodes:
            if other is not node:
                self._learn(node, other)

    # What is seen.

    def _on_send(self, node: SimNode, channel: str, message: Any, now: Instant) -> None:
        if isinstance(message, Response):
            self.answered.add((node.name, message.election, message.attempt))
        if isinstance(message, NotifyLeader) and node is self.doomed:
            self.doomed = None
            self._at(now + self._within(ms(60)), lambda: self._die(node), "initiator dies")
            self._count("initiator crash")

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        match fact:
            case LeaderHeld():
                number = fact.record.election.number
                if number < self.numbers.get(node.name, 0):
                    raise InvariantViolated(f"{node.name} went back from term {self.numbers[node.name]} to {number}")
                self.numbers[node.name] = number
            case AttemptBegan():
                self.began[fact.election, fact.attempt] = now
                self.current[node.name] = (fact.election, fact.attempt)
            case ResponseCounted() if (fact.sender, *self.current[node.name]) not in self.answered:
                raise InvariantViolated(f"{node.name} counts what {fact.sender} answered to an earlier attempt")
            case Decided() if fact.final and self.plan.variant in ("base", "optimistic"):
                self._check_safety(fact, now)

    def _check_safety(self, decided: Decided, now: Instant) -> None:
        began = self.began[decided.election, decided.attempt]
        for node in self.nodes:
            member = node.name
            if self.alive_since.get(member, now) >= began or self.order(member) >= self.order(decided.leader):
                continue
            if self._lacking(member, began) <= self.plan.missing_max:
                raise InvariantViolated(
                    f"{decided.leader} was elected though {member} is lower, and missing from few enough views"
                )

    def _lacking(self, member: NodeId, since: Instant) -> int:
        """How many views lacked it at any time since then."""
        return sum(
            1
            for node in self.nodes
            if node.name != member
            and (not self.views.knows(node.name, member) or self.lacked_until.get((node.name, member), -1) >= since)
        )

    def _disagreement(self) -> str | None:
        held = {node.name: self._machine(node) for node in self.sim.up()}
        terms = {machine.held if machine.leader else None for machine in held.values()}
        if None in terms:
            return f"nobody leads for {', '.join(n for n, machine in held.items() if not machine.leader)}"
        if len(terms) > 1:
            return "held: " + ", ".join(f"{name}: {machine.held}" for name, machine in held.items())
        record = terms.pop()
        assert record is not None
        if record.leader not in held:
            return f"all hold {record.leader}, which is dead"
        return None if record.final else f"{record} is not final"

    # Small things.

    def _setup(self, node: SimNode, host: Host) -> None:
        host.add(
            CHANNEL,
            lambda port: self.build(
                node.name,
                node.incarnation,
                self.config,
                port,
                node.rng(CHANNEL),
                restored=node.restored(CHANNEL, Memory),
            ),
        )

    def _start(self, node: SimNode, *, first: bool = False) -> None:
        self.alive_since[node.name] = self.sim.now
        self.sim.start(node)

    def _machine(self, node: SimNode) -> CTolerant:
        assert node.host is not None
        machine: Any = node.host.ports[CHANNEL].machine
        assert isinstance(machine, CTolerant)
        return machine

    def order(self, node: NodeId) -> tuple[int, NodeId]:
        return hash_rank(node), node

    def _at(self, when: Instant, act: Callable[[], Any], what: str) -> None:
        self.sim.at(max(when, self.sim.now), act, what)

    def _within(self, span: Duration) -> Duration:
        return int(self.rng.random() * span)

    def _count(self, deed: str) -> None:
        self.deeds[deed] = self.deeds.get(deed, 0) + 1


def describe(outcome: Outcome) -> str:
    """One line with every option, and one that replays it."""
    options = " ".join(f"{name}={value}" for name, value in msgspec.structs.asdict(outcome.plan).items())
    return f"{options}: {outcome.complaint}\nreplay: python -m doyen_papers.studies.adversity {outcome.plan.seed}"


if __name__ == "__main__":
    import sys

    print(describe(run(int(sys.argv[1]))))
