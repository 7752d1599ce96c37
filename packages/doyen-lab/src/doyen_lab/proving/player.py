"""A scenario file of `doyen sim run` on real processes: the same nodes, the same faults, the same promise.

`sim.churn.Churn` decides what befalls whom and when, from the same random streams as in made-up time; what it asks of
a simulation, `Stage` does to the processes and the network of a `Ground`.  What the real world cannot do is refused by
its name before anything starts.

    crash      SIGKILL, and a new start with the files that were left, or without them
    pause      SIGSTOP until SIGCONT
    leave      SIGTERM
    join       one more process, on a host that was kept for it
    partition, block, cut, heal                     the switch refuses packets, both ways or one way
    star, chain, one-way-star, graph                likewise, pair by pair
    [network]  delay, loss, duplicate_prob, reorder_prob: the switch does that to every packet, at every hop

The scenario's clock begins once all have joined.  It stands still while a fault of the leader waits for a leader:
until some region has settled on its leader, for as long as the election may take for that.
Quiet time ends once every region has the leader that it ought to have, and has had it for two seconds.
"""

import asyncio
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil, sqrt
from typing import Any, Final, Literal, cast

from msgspec.structs import replace

from doyen.core.clock import Duration, Instant
from doyen.core.config import field_types, is_duration
from doyen.core.rank import Standing
from doyen.errors import ConfigError
from doyen.sim.churn import Churn
from doyen.sim.links import SHAPES
from doyen.sim.network import Delay, NetworkConfig
from doyen.sim.scenario import Scenario
from doyen.sim.scenario.nodes import world_of
from doyen.sim.scenario.run import configured_faults
from doyen.sim.scenario.schema import RunConfig
from doyen.sim.scenario.text import exact_duration
from doyen.sim.streams import Streams
from doyen.sim.topology import build
from doyen.sim.world import World
from doyen_lab.graph import Edge
from doyen_lab.netns import NODES_MAX
from doyen_lab.proving.combination import Combination
from doyen_lab.proving.ground import POLL_S, Ground
from doyen_lab.switch import Link, Traffic

OWN_FIELDS: Final = ("election", "preset", "voters", "state", "group", "group_size")  # The ground says these.
HOLD_S: Final = 2.0  # A region that has settled must stay so for this time.
REAL: Final = {"join", "leave", "crash", "restart", "pause", "resume", "partition", "block", "cut", "heal", *SHAPES}
DEVIATIONS: Final = 4  # Standard deviations that a share of lost packets may be off.


# What can be done.


def check_real(scenario: Scenario, what: str) -> None:
    """Refuse what cannot be done to real processes, by its name."""
    group, network, run, usual = scenario.group, scenario.network, scenario.run, RunConfig()
    deeds = {event.do for event in scenario.churn.events} | set(scenario.churn.random.rates())
    reshaped = bool(deeds & {"partition", "block", "cut", "join", *SHAPES})
    refused = {
        "clocks.offset_max": bool(scenario.clocks.offset_max),
        "clocks.drift_max": bool(scenario.clocks.drift_max),
        "group.protocol": group.protocol != "announce",
        "group.election.rank_map": group.election.rank_map != "none",
        "network.corrupt_prob": network.corrupt_prob > 0,  # The kernel would drop such a packet: that is a loss.
        "network.fifo": network.fifo,
        "network.delay.model": network.delay.model not in ("constant", "uniform"),
        "network.delay.link_spread": bool(network.delay.link_spread),
        "network.loss.model": network.loss.model not in ("none", "uncorrelated"),
        "churn.random.late_claim_prob": bool(scenario.churn.random.late_claim_prob),
        "run.disk_delay": bool(run.disk_delay),
        "run.datagram_max": run.datagram_max != usual.datagram_max,
        "topology.shape": scenario.topology.shape != "complete" and reshaped,  # Its routes are static.
        **{f"churn: {deed}": True for deed in sorted(deeds - REAL)},
    }
    found = [name for name, holds in refused.items() if holds]
    if found:
        raise ConfigError(f"{what}: {', '.join(found)} cannot be done to real processes: run it by doyen sim run")
    if host_count(scenario) > NODES_MAX:
        raise ConfigError(f"{what}: {host_count(scenario)} hosts are too many: at most {NODES_MAX}")


def certain_faults(scenario: Scenario) -> tuple[str, ...]:
    """Return the faults that must take effect in one run: all but those that come at random instants."""
    planned = {event.do for event in scenario.churn.events}
    return tuple(sorted(planned | configured_faults(scenario) - scenario.churn.deeds()))


def host_count(scenario: Scenario) -> int:
    """Return how many hosts a run needs: one for every node, and some for those that join."""
    run, joins = scenario.run, 0
    for event in scenario.churn.events:
        if event.do == "join":
            last = min(event.until, run.quiet_at)
            joins += len(event.who) or (1 + (last - event.at) // event.every if event.every else 1)
    joins += ceil(3 * scenario.churn.random.join_rate * (run.quiet_at - run.warm_up) / 60e9)
    return scenario.group.nodes + joins


def link_of(network: NetworkConfig, *, faults: bool = False) -> Link:
    """Return what every hop does to packets."""
    delay: Delay = network.delay
    plain = Link(delay=delay.mean)
    if delay.model == "uniform":
        plain = Link(delay=delay.mean - delay.spread, jitter=2 * delay.spread)
    if not faults:
        return plain
    return replace(
        plain,
        loss=network.loss.prob if network.loss.model != "none" else 0.0,
        duplicate=network.duplicate_prob,
        reorder=network.reorder_prob,
        reorder_by=network.reorder_by,
    )


def edges_of(scenario: Scenario) -> list[Edge] | None:
    """Return the links of its topology, by its own seed; None: everybody is everybody's neighbour."""
    topology = build(scenario.topology, scenario.group.nodes, Streams(scenario.run.seed).of("topology"))
    return None if topology.complete else topology.links()


def combination_of(scenario: Scenario) -> Combination:
    """Return the arguments of its nodes as a combination for the proving ground."""
    config = scenario.config()
    kind = config.election_kind()
    if kind is None:
        raise ConfigError("[node] election = 'none' leaves nothing to judge: give an election")
    membership = config.membership_kind()
    fields: dict[str, Any] = {"membership": "none"} if membership is None else {}
    if not scenario.node:
        table = config.table(kind.table)
        hints = field_types(kind.table.config)
        given = {field: getattr(table, field) for field in hints}
        fields[kind.table.name] = {
            field: exact_duration(value) if is_duration(hints[field]) else value for field, value in given.items()
        }
    ttl = {} if scenario.topology.shape == "complete" else {"ttl": 64}
    return Combination(
        name=config.election,
        election=config.election,
        preset=config.preset,
        tables=fields | {key: value for key, value in scenario.node.items() if key not in OWN_FIELDS} | ttl,
    )


# Playing it.


class StagedNode:
    """One node of the scenario, as churn knows it."""

    clock = None

    def __init__(self, index: int, name: str, standing: Standing | None) -> None:
        self.index, self.name, self.standing = index, name, standing
        self.state: Literal["down", "up", "paused"] = "down"
        self.work = asyncio.Lock()  # One thing at a time is done to it.
        self.disk = _Disk()

    @property
    def host(self) -> "StagedNode | None":
        """The node itself while it runs, else None."""
        return None if self.state == "down" else self


class _Disk:
    """Remembers that what a node kept is to be removed."""

    lost = False

    def clear(self) -> None:
        self.lost = True


class Stage:
    """Does to real processes what churn asks of a simulation and its world."""

    def __init__(self, ground: Ground, scenario: Scenario, seed: int) -> None:
        self.ground, self.scenario = ground, scenario
        ground.labels = [scenario.group.name_of(i) for i in range(scenario.group.nodes)]
        ground.voters = list(ground.labels)
        ground.durable = bool(scenario.config().state)
        self.streams = Streams(seed)
        made_up = world_of(scenario, seed)  # Never started: it knows what each node is worth.
        self.folder = made_up.folder  # Nothing befalls it: that is refused before.
        self.nodes = [
            StagedNode(i, scenario.group.name_of(i), made_up.standings[i]) for i in range(scenario.group.nodes)
        ]
        self.topology = build(scenario.topology, scenario.group.nodes, self.streams.of("topology"))
        self._blocks: dict[str, set[Edge]] = {}  # Directions that are cut, by the fault's name.
        self._tasks: set[asyncio.Task[None]] = set()
        self._started: set[str] = set()
        self._robbed: list[tuple[str, Instant]] = []  # Leaders that something befell, and when.
        self.failure: BaseException | None = None
        self._began_at = time.monotonic_ns()

    @property
    def sim(self) -> "Stage":
        """The simulation of this world, which is no simulation."""
        return self

    # Time.

    @property
    def now(self) -> Instant:
        """Return the nanoseconds since the scenario began, without those in which its clock stood still."""
        return time.monotonic_ns() - self._began_at

    def begin(self) -> None:
        self._began_at = time.monotonic_ns()

    def at(self, when: Instant, act: Callable[[], Any], what: str) -> None:
        """Act at that instant of the scenario; a fault of the leader waits until there is one."""

        async def wait_and_act() -> None:
            while self.now < when:
                await asyncio.sleep(min(POLL_S, (when - self.now) / 1e9))
            if not {"leader", "others"}.isdisjoint(what.split()):
                await self._wait_for_a_leader()
            act()

        self._spawn(wait_and_act())

    async def _wait_for_a_leader(self) -> None:
        """Let the clock stand still until some region has settled on a leader."""
        ground, began = self.ground, time.monotonic_ns()
        until = began + ground.merging + ground.combination.joining(ground.voters) + ground.truths[-1].slack
        while time.monotonic_ns() < until and not any(map(ground.has_settled, ground.truths[-1].regions)):
            before = time.monotonic_ns()
            await asyncio.sleep(POLL_S)
            self._began_at += time.monotonic_ns() - before

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.failure = self.failure or task.exception()

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()

    # Nodes.

    @property
    def by_name(self) -> dict[str, StagedNode]:
        return {node.name: node for node in self.nodes}

    def up(self) -> Iterator[StagedNode]:
        return (node for node in self.nodes if node.host is not None)

    def acting(self) -> list[StagedNode]:
        """Return the nodes that act as leaders, best first."""
        now, running = time.monotonic_ns(), self.ground.running
        found = [node for node in self.up() if node.name in running and running[node.name].life.acts(now)]
        return sorted(found, key=lambda node: (node.standing or 0, node.name), reverse=True)

    def join(self, name: str | None, neighbours: Sequence[StagedNode]) -> None:
        """Start one more node, if there is a host for it."""
        index = len(self.nodes)
        if index < len(self.ground.network.nodes):
            node = StagedNode(index, name or f"n{index}", 0)
            self.nodes.append(node)
            self.ground.labels.append(node.name)
            self.start(node)

    def start(self, node: StagedNode) -> None:
        node.state = "up"
        self._spawn(self._start(node))

    async def _start(self, node: StagedNode) -> None:
        first = node.name not in self._started
        self._started.add(node.name)
        standing: dict[str, Any] = {"standing": float(node.standing or 0), "eligible": node.standing is not None}
        async with node.work:
            if node.disk.lost:
                node.disk.lost = False
                shutil.rmtree(self.ground.folder / "state" / node.name, ignore_errors=True)
            running = await self.ground.launch(node.name, first=first, **standing)
        await self.ground.joined(node.name, running)

    def crash(self, node: StagedNode, *, disk: Literal["kept", "lost"] = "kept") -> None:
        if disk == "lost":
            node.disk.clear()
        if node.host is not None:
            self._befall(node, "down", self.ground.kill)

    def leave(self, node: StagedNode) -> None:
        self._befall(node, "down", self.ground.stop)

    def pause(self, node: StagedNode) -> None:
        async def pause(label: str) -> None:
            self.ground.pause(label)

        self._befall(node, "paused", pause)

    def resume(self, node: StagedNode) -> None:
        async def resume(label: str) -> None:
            self.ground.resume(label)

        if node.state == "paused":
            self._befall(node, "up", resume)

    def slow_down(self, node: StagedNode, by: Duration) -> None:
        assert not by, "refused before"

    def _befall(self, node: StagedNode, state: Literal["down", "up", "paused"], do: Callable[[str], Any]) -> None:
        if node in self.acting():
            self._robbed.append((node.name, time.monotonic_ns()))
        node.state = state

        async def befall() -> None:
            async with node.work:
                await do(node.name)

        self._spawn(befall())

    # The network.

    @property
    def network(self) -> "Stage":
        return self

    def partition(self, name: str, *sides: Iterable[StagedNode]) -> None:
        groups = [list(side) for side in sides]
        self._cut(name, [(a, b) for g in groups for h in groups if g is not h for a in g for b in h])

    def block(self, name: str, pairs: Iterable[tuple[StagedNode, StagedNode]]) -> None:
        self._cut(name, pairs)

    def cut(self, name: str, pairs: Iterable[tuple[StagedNode, StagedNode]]) -> None:
        self._cut(name, [both for a, b in pairs for both in ((a, b), (b, a))])

    def clog(self, name: str, pairs: Any) -> None:
        raise AssertionError("refused before")

    release = clog

    def _cut(self, name: str, pairs: Iterable[tuple[StagedNode, StagedNode]]) -> None:
        self._blocks[name] = {(a.index, b.index) for a, b in pairs}
        for leader in self.acting():
            others = {edge for edge in self._blocks[name] if leader.index in edge}
            if len(others) >= len(list(self.up())):  # From most of them, both ways.
                self._robbed.append((leader.name, time.monotonic_ns()))
        self.ground.cut(self._blocks[name], f"after {name} began")

    def heal(self, name: str) -> None:
        healed = self._blocks.pop(name)
        healed -= {edge for blocked in self._blocks.values() for edge in blocked}
        self.ground.mend(healed, f"after {name} ended")

    # The play.

    async def play(self) -> None:
        """Play the whole scenario; raise `NotSettled` where a region does not get its leader in time."""
        scenario, ground, run = self.scenario, self.ground, self.scenario.run
        watching = asyncio.create_task(self._watch())
        try:
            await self._start_all()
            self.begin()
            churn = Churn(scenario.churn, cast(World, self), begin=run.warm_up, end=run.quiet_at)
            try:
                await self._until(run.warm_up)
                before = ground.network.traffic()
                ground.disturb(link_of(scenario.network, faults=True))
                await self._until(run.quiet_at)
                churn.stop()
                self._check_losses(before, ground.network.traffic())
                ground.disturb(link_of(scenario.network))
                if run.quiet:
                    await self._settle()
            finally:
                self._count(churn)
        finally:
            self.end()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _start_all(self) -> None:
        """Start all at once, unless the first must be there for the others to join, or the scenario spreads them."""
        nodes, spread, rng = list(self.nodes), self.scenario.group.start_spread, self.streams.of("start")
        if spread:
            for node in nodes:
                self.at(int(rng.random() * spread), lambda node=node: self.start(node), f"{node.name} starts")  # type: ignore[misc]
            return
        if self.ground.combination.timed:
            self.start(nodes.pop(0))
            await self._idle()
        for node in nodes:
            self.start(node)
        await self._idle()

    async def _idle(self) -> None:
        """Wait until everything that was begun is done."""
        while self._tasks:
            await asyncio.sleep(POLL_S)
            self._raise()

    async def _until(self, at: Instant) -> None:
        while self.now < at:
            await asyncio.sleep(min(POLL_S, (at - self.now) / 1e9))
            self._raise()

    def _raise(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def _watch(self) -> None:
        """Note when each region has a leader whom all name: from then on it must have no second one."""
        while True:
            await asyncio.sleep(POLL_S)
            for truth in self.ground.truths[-1:]:
                for region in truth.regions:
                    if region not in truth.settled_at and self.ground.has_settled(region):
                        truth.settled_at[region] = time.monotonic_ns()

    async def _settle(self) -> None:
        """Wait, in quiet time, until all that should run do, and every region that must have a leader has one."""
        ends_at = self.scenario.run.length
        while any(node.name not in self.ground.running for node in self.up()) or any(
            running.life.joined_at is None for running in self.ground.running.values()
        ):
            self._raise()
            await asyncio.sleep(POLL_S)
        promise, electorate = self.ground.combination, len(self.ground.voters)
        for region in self.ground.truths[-1].regions:
            lesser = 2 * len(region) <= electorate
            if not (lesser and (promise.strong or promise.timed)):
                await self.ground.settled(sorted(region)[0].partition("#")[0])
        await asyncio.sleep(min(HOLD_S, max(0, ends_at - self.now) / 1e9))

    # What came of it.

    def _check_losses(self, before: Traffic, after: Traffic) -> None:
        prob = link_of(self.scenario.network, faults=True).loss
        lost = after.lost - before.lost
        packets = after.packets - before.packets - (after.refused - before.refused)
        likely = DEVIATIONS * sqrt(prob * (1 - prob) * packets) + 1
        self.ground.check(
            abs(lost - prob * packets) <= likely, f"{lost} of {packets} packets were lost, not {prob:.0%}"
        )

    def _count(self, churn: Churn) -> None:
        """Count the faults under their names in the file, and how long each fall of a leader left nobody acting."""
        links = self.ground.network.traffic().links.values()
        table = {
            "loss": sum(link.lost for link in links),
            "duplicate": sum(link.duplicated for link in links),
            "reorder": sum(link.reordered for link in links),
        }
        for name in sorted(configured_faults(self.scenario)):
            self.ground.faults[name] += table.get(name, churn.counts[name])
        for label, at in self._robbed:
            found = self.ground.next_act(label, at)
            if found is not None:
                self.ground.takeovers_s.append((found[1].at - at) / 1e9)
