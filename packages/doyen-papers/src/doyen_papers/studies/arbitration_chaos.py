"""A ring among enemies: one seed gives one run of everything that [ARB]'s practical mode has to bear.

Crashes, alone and together, of joiners too; links cut and healed; partitions; joins at once; leaves; nodes that sleep;
up to 1 % of messages lost; delays that vary; clocks that drift within their bound.  Then the faults end.  All through,
every theorem is watched (`Watch`); in the end:

    collapse    the ring is empty only if some group had lost its majority, or the last one crashed, slept or left
    rest        everybody watches exactly its neighbours, and one member, the closest to the key, leads
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from doyen.core.clock import Duration, ms
from doyen.election.by_key import LeaderByKey
from doyen.membership.arbitration.config import ArbitrationConfig, Partition
from doyen.membership.arbitration.machine import Arbitration
from doyen.membership.ring import neighbours, owner, point_of
from doyen.sim.network import Delay
from doyen.sim.node import SimNode
from doyen.sim.streams import Streams
from doyen_papers.studies.arbitration import ELECTION, KEY, ArbitrationSetting, Build, Ring

FAULT_LEASES: Final = 24
REST_LEASES: Final = 90


class Plan(Struct, frozen=True, kw_only=True):
    seed: int
    nodes: int
    neighbours: int
    lease: Duration
    arbitration: Duration
    delay: Delay
    loss: float
    drift: float
    behaviour: Partition
    crashes: int
    together: int
    cuts: int
    partition: bool
    joins: int
    crash_joiners: bool
    leaves: int
    sleeps: int


def plan(seed: int) -> Plan:
    rng = Streams(seed).of("plan")
    lease = ms(1000)
    arbitration = rng.choice((ms(200), ms(500), ms(900)))
    delay = Delay(model="uniform", mean=ms(10), spread=ms(9)) if rng.random() < 0.7 else Delay(mean=ms(1))
    neighbours = rng.choice((1, 2, 2, 3, 3, 4))
    return Plan(
        seed=seed,
        nodes=rng.randint(4, 18),
        neighbours=neighbours,
        lease=lease,
        arbitration=arbitration,
        delay=delay,
        loss=rng.choice((0.0, 0.001, 0.01)),
        drift=rng.choice((0.0, 0.0, 0.01, 0.05)),
        behaviour=rng.choice(("collapse", "majority", "majority", "split")),
        crashes=rng.choice((0, 1, 2, 3)),
        together=rng.choice((1, 1, 2, neighbours, neighbours + 1)),
        cuts=rng.choice((0, 0, 1, 2, 4)),
        partition=rng.random() < 0.15,
        joins=rng.choice((0, 0, 1, 2, 4)),
        crash_joiners=rng.random() < 0.3,
        leaves=rng.choice((0, 0, 1, 2)),
        sleeps=rng.choice((0, 0, 1)),
    )


class Outcome(Struct, frozen=True, kw_only=True):
    plan: Plan
    complaint: str | None
    lines: list[str]
    violations: dict[str, int]
    mutual_deaths: int
    members: int
    forced: int
    aborts: int
    uncertain: int
    reigns: int
    looked: dict[str, int]
    trace_hash: str


def run(
    seed: int,
    *,
    build: Build = Arbitration,
    elect: type[LeaderByKey] = LeaderByKey,
    configured: Callable[[ArbitrationConfig], ArbitrationConfig] | None = None,
) -> Outcome:
    """One run; `build` makes the machine, or a deliberately broken one."""
    return _Ordeal(plan(seed), build, elect, configured).run()


class _Ordeal:
    def __init__(
        self,
        plan: Plan,
        build: Build,
        elect: type[LeaderByKey],
        configured: Callable[[ArbitrationConfig], ArbitrationConfig] | None,
    ) -> None:
        self.plan = plan
        setting = ArbitrationSetting(
            nodes=plan.nodes,
            neighbours=plan.neighbours,
            lease=plan.lease,
            arbitration=plan.arbitration,
            loss=plan.loss,
            drift=plan.drift,
            behaviour=plan.behaviour,
            leader=True,
        )
        config = setting.config()
        self.ring = Ring(
            setting,
            plan.seed,
            build=build,
            elect=elect,
            config=configured(config) if configured is not None else config,
            delay=plan.delay,
        )
        self.rng = Streams(plan.seed).of("deeds")

    def run(self) -> Outcome:
        ring, plan, lease = self.ring, self.plan, self.plan.lease
        self._plan_deeds()
        ring.run(FAULT_LEASES * lease)
        self._end_faults()
        ring.run(12 * lease)
        settled = ring.rest(most=REST_LEASES)
        watch = ring.watch
        complaint = next(iter(watch.lines), None) or self._at_end(settled)
        return Outcome(
            plan=plan,
            complaint=complaint,
            lines=watch.lines,
            violations=dict(watch.violations),
            mutual_deaths=watch.mutual_deaths,
            members=len(ring.members()),
            forced=ring.forced(),
            aborts=watch.aborts,
            uncertain=watch.uncertain,
            reigns=len(watch.reigns),
            looked=dict(watch.looked),
            trace_hash=ring.sim.trace.digest(),
        )

    def _moment(self) -> int:
        return int((1 + self.rng.random() * (FAULT_LEASES - 4)) * self.plan.lease)

    def _plan_deeds(self) -> None:
        ring, plan, sim, lease = self.ring, self.plan, self.ring.sim, self.plan.lease
        for _ in range(plan.crashes):
            crash = partial(ring.crash_random, plan.together, adjacent=self.rng.random() < 0.5)
            sim.at(self._moment(), crash, "crash")
        for i in range(plan.cuts):
            sim.at(self._moment(), partial(self._cut, f"cut {i}"), "cut")
        if plan.partition:
            size = self.rng.randint(1, plan.nodes - 1)
            arcs = self.rng.random() < 0.5
            sim.at(self._moment(), lambda: ring.divide([size, plan.nodes - size], arcs=arcs), "partition")
        at = self._moment()
        for _ in range(plan.joins):
            sim.at(at + int(self.rng.random() * lease), self._join, "join")
        for _ in range(plan.leaves):
            sim.at(self._moment(), ring.leave, "leave")
        for _ in range(plan.sleeps):
            sim.at(self._moment(), self._sleep, "sleep")

    def _cut(self, name: str) -> None:
        ring, sim = self.ring, self.ring.sim
        watched = [(m.seat.node, p.seat.node) for m in ring.members() for p in m.pairs.values()]
        if not watched:
            return
        a, b = self.rng.choice(sorted(watched))
        one, other = sim.by_name[a], sim.by_name[b]
        if self.rng.random() < 0.3:
            sim.block(name, [(one, other)])
        else:
            sim.partition(name, [one], [other])
        sim.at(sim.now + int(self.rng.random() * 8 * self.plan.lease), lambda: sim.heal(name), "heal")

    def _join(self) -> None:
        node = self.ring.join()
        if self.plan.crash_joiners and self.rng.random() < 0.5:
            after = int(self.rng.random() * 4 * self.plan.lease)
            self.ring.sim.at(self.ring.sim.now + after, lambda: self.ring.crash(node), "a joiner crashes")

    def _sleep(self) -> None:
        ring, sim = self.ring, self.ring.sim
        members = ring.members()
        if members:
            node = sim.by_name[self.rng.choice(sorted(m.seat for m in members)).node]
            sim.pause(node)
            ring.watch.acting.pop(node.name, None)  # Asleep, it does not act.
            sim.at(sim.now + int(self.rng.random() * 12 * self.plan.lease), partial(self._wake, node), "awake")

    def _wake(self, node: SimNode) -> None:
        """What it had missed is done at once; if it still leads after that, it acts again."""
        self.ring.sim.resume(node)
        self.ring.watch.note_awake(node)
        elector = node.ports[ELECTION].machine if ELECTION in node.ports else None
        if isinstance(elector, LeaderByKey) and elector.is_leader:
            self.ring.watch.acts_again(node)

    def _end_faults(self) -> None:
        sim = self.ring.sim
        for name in list(sim.network._blocks):
            sim.heal(name)
        sim.network.config = replace(sim.network.config.without_faults(), delay=self.plan.delay)
        sim.network_changed()

    def _at_end(self, settled: bool) -> str | None:
        ring = self.ring
        members = ring.members()
        if not members:
            return self._why_empty()
        split = self.plan.behaviour == "split"
        if not settled:
            # Parts that have split do not grow together by themselves.
            return None if split and self.plan.partition else "rest: the ring has not come to rest"
        ring.watch.check_neighbourhoods(one_ring=not split)
        if ring.watch.lines:
            return ring.watch.lines[0]
        # Somebody whose every monitor died with it is never declared dead: nobody may take its keys, nor act beside it
        # where it may have owned the key before.
        lost = {seat for m in members for seat in m.roster if seat.name in m.lost}
        known = {*(m.seat for m in members), *lost}
        best = owner(point_of(KEY), known)
        assert best is not None
        if split or lost & {best, *neighbours(best, known, 1)}:
            return None
        acting = sorted(ring.watch.acting)
        return None if acting == [best.node] else f"rest: {acting} act, and {best} is the closest"

    def _why_empty(self) -> str | None:
        """Only if a group had lost its majority, as `Watch` saw, or the last one crashed, slept or was told to go."""
        watch = self.ring.watch
        if any(fact.why in ("no majority", "minority") for _, fact in watch.departures):
            return None
        crashes = [(at, "crashed") for at in watch.crashed_at.values()]
        _, why = max([*crashes, *((at, fact.why) for at, fact in watch.departures)])
        if why in ("crashed", "asked", "asleep"):
            return None
        return f"collapse: the ring is empty, no group had lost its majority, and the last to leave was {why}"


def first_failures(
    seeds: range, stop_after: int = 1, *, build: Build = Arbitration, **more: object
) -> list[tuple[int, str]]:
    """The first seeds that end in a complaint, and what it is."""
    found: list[tuple[int, str]] = []
    for seed in seeds:
        complaint = run(seed, build=build, **more).complaint  # type: ignore[arg-type]
        if complaint is not None:
            found.append((seed, complaint))
            if len(found) >= stop_after:
                break
    return found
