"""A spanning election among real processes on a mesh of network namespaces: links and nodes fail and return.  [MADM]

Each node is a process in a namespace of its own, and the network between them (`lab.switch`) carries packets between
neighbours only: nothing is relayed, so whatever reaches farther was passed on by the election itself.  Links are cut
silently, processes killed; nobody is told but by hellos.

    started     all agree on one: not always the best, for whoever starts later adopts the leader
    elected     one node initiates: the best of all, with exactly 8·links − 4·N + 4 − leaves messages
    links cut   two of the leader's links: nothing changes
    leader dead the leader is killed, and a link cut meanwhile: the best of the others
    parted      a region is cut off: it elects a leader of its own
    healed      one leader again
    returned    the killed node, the best of all, adopts the leader: it starts no election
"""

import asyncio
import signal
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from doyen.core.clock import Instant, ms
from doyen.core.ids import Address, NodeId
from doyen.core.order import order
from doyen.election.spanning import SpanningConfig
from doyen.election.spanning.hello import HelloConfig
from doyen.election.spanning.messages import message_count
from doyen.errors import ConfigError, TransportError
from doyen.net.driver import boot_time_ns
from doyen.score.probes import regions
from doyen.testing.processes import LocalCluster, MemberState
from doyen_lab.spanning_node import MeshTold, Plan
from doyen_lab.switch import Switch

PORT: Final = 7700
CONFIG: Final = SpanningConfig(hop_delay=ms(80), diameter_max=6, link_wait=ms(2000), pulse_interval=ms(320))
HELLO: Final = HelloConfig(interval=ms(100), silence=ms(350))
CALM_S: Final = 0.7  # Two pulses: what still differs would have shown.
PATIENCE_S: Final = 25.0
UNCOUNTED: Final = frozenset({"state"})  # Pulses go on meanwhile.

_TOLD: Final = msgspec.json.Decoder(MeshTold)

Pairs = Iterable[tuple[str, str]]


class Step(Struct, frozen=True):
    """What was done, and what came of it."""

    what: str
    leaders: dict[str, str]  # By region: its members, in order, joined by commas.
    took_s: float  # Until all of every region named them; they still did so two pulses later.


class Host(Struct, frozen=True):
    """One process at the end: that it is one, and where."""

    name: str
    pid: int
    namespace: str
    inode: int  # Of its namespace, as the process itself has it.
    tx_packets: int
    rx_packets: int


class MeshRun(Struct, frozen=True, kw_only=True):
    steps: list[Step]
    messages: dict[str, int]  # Of the election that was counted, by kind.
    total: int
    expected: int  # By the formula.
    hosts: list[Host]
    link_packets: dict[str, int]  # By link, both directions.


class MeshCluster(LocalCluster):
    """Processes of `spanning_node`, one per namespace."""

    def __init__(self, network: Switch, plans: Mapping[str, Plan]) -> None:
        super().__init__("mesh", None)
        self.network, self.plans = network, plans
        self.up: dict[str, frozenset[str]] = {}
        self.kinds: dict[str, dict[str, int]] = {}

    async def start(self, name: str, *flags: str, wrap: Sequence[str] = ()) -> MemberState:
        plan = msgspec.json.encode(self.plans[name]).decode()
        self.up[name] = frozenset()
        return await self.launch(name, [*wrap, sys.executable, "-m", "doyen_lab.spanning_node", plan])

    async def _read(self, member: MemberState) -> None:
        assert member.process.stdout is not None
        async for line in member.process.stdout:
            told = _TOLD.decode(line)
            self.up[member.name], self.kinds[member.name] = frozenset(told.up), told.kinds
            self._hear(member, told)
        await member.process.wait()
        self._tell_change()

    async def counted(self) -> dict[str, int]:
        """Messages that the living have sent so far, pulses apart."""
        self.kinds.clear()
        for member in self.alive():
            member.process.send_signal(signal.SIGUSR2)
        await self.until(lambda: all(member.name in self.kinds for member in self.alive()), PATIENCE_S)
        total: dict[str, int] = {}
        for kinds in self.kinds.values():
            for kind, count in kinds.items():
                if kind not in UNCOUNTED:
                    total[kind] = total.get(kind, 0) + count
        return total

    async def agree(self, wanted: Mapping[tuple[str, ...], str], since: Instant) -> float:
        """Until every region names its leader, and still does two pulses later; seconds since `since`."""

        def named() -> bool:
            return all(self.members[name].leader == leader for members, leader in wanted.items() for name in members)

        async with asyncio.timeout(PATIENCE_S):
            while True:
                await self.until(named, PATIENCE_S)
                at = max(self.members[name].since for members in wanted for name in members)
                try:
                    async with asyncio.timeout(CALM_S):
                        while named():
                            await self._change()
                except TimeoutError:
                    return max(0.0, (at - since) / 1e9)


class _World:
    """The mesh as it should be: who lives, which links carry, who then leads where."""

    def __init__(self, edges: Pairs, quality: Mapping[str, float]) -> None:
        self.quality = quality
        self.edges = {frozenset(edge) for edge in edges}
        self.cut: set[frozenset[str]] = set()
        self.alive = set(quality)
        for edge in self.edges:
            if not edge <= self.alive:
                raise ConfigError(f"edge {'-'.join(sorted(edge))}: a node without quality")

    def linked(self, name: str) -> frozenset[str]:
        working = self.edges - self.cut
        return frozenset(other for other in self.alive if other != name and frozenset((name, other)) in working)

    def best(self, members: Iterable[str]) -> str:
        return min(members, key=lambda name: (-self.quality[name], order(name)))

    def leaders(self) -> dict[tuple[str, ...], str]:
        return {tuple(m): self.best(m) for m in regions({name: self.linked(name) for name in self.alive})}


async def run_mesh(edges: Sequence[tuple[str, str]], quality: Mapping[str, float], *, parted: Sequence[str]) -> MeshRun:
    """The whole course; `parted` is the region that is cut off for a while."""
    names = sorted(quality, key=order)
    index = {name: i for i, name in enumerate(names)}
    pairs = [(index[a], index[b]) for a, b in edges]
    with (
        tempfile.TemporaryDirectory(prefix="doyen-mesh-") as state,
        Switch(len(names), edges=pairs, relay=False, multicast=False) as network,
    ):
        world = _World(edges, quality)
        plans = {name: _plan(name, world, network, index, Path(state)) for name in names}
        cluster = MeshCluster(network, plans)
        async with cluster:
            course = _Course(cluster, world, network, index)
            return await course.run(parted)


def _plan(name: str, world: _World, network: Switch, index: Mapping[str, int], state: Path) -> Plan:
    def address(of: str) -> Address:
        return Address(network.nodes[index[of]].ipv4, PORT)

    return Plan(
        group="mesh",
        name=NodeId(name),
        bind=address(name),
        neighbours={NodeId(other): address(other) for other in sorted(world.linked(name), key=order)},
        quality=world.quality[name],
        spanning=CONFIG,
        hello=HELLO,
        state=str(state / name),
    )


class _Course:
    def __init__(self, cluster: MeshCluster, world: _World, network: Switch, index: Mapping[str, int]) -> None:
        self.cluster, self.world, self.network, self.index = cluster, world, network, index
        self.steps: list[Step] = []

    async def run(self, parted: Sequence[str]) -> MeshRun:
        cluster, world = self.cluster, self.world
        begun = boot_time_ns()
        for name in self.index:
            await self._start(name)
        await cluster.until_started()
        await self._links_up()
        at = await cluster.agreement(PATIENCE_S, unchanged_s=CALM_S)
        self.steps.append(Step("started", {",".join(self.index): str(cluster.agreed())}, (at - begun) / 1e9))
        messages = await self._counted_election()

        leader = world.best(world.alive)
        for other in sorted(world.linked(leader), key=order)[:2]:
            self._cut(leader, other)
        await self._links_up()
        await self._step("links cut", boot_time_ns())

        at = cluster.kill(leader)
        world.alive.discard(leader)
        heir = world.best(world.alive)
        self._cut(heir, min(world.linked(heir), key=order))  # Meanwhile.
        await self._step("leader dead", at)

        at = boot_time_ns()
        inside = set(parted)
        for edge in sorted(map(sorted, world.edges - world.cut)):
            if len(inside & set(edge)) == 1:
                self._cut(*edge)
        await self._step("parted", at)

        at = boot_time_ns()
        self._mend_all()
        await self._step("healed", at)

        before, at = world.leaders(), boot_time_ns()
        await self._start(leader)
        world.alive.add(leader)
        await self._links_up()
        (named,) = before.values()
        await self._step("returned", at, {tuple(sorted(world.alive, key=order)): named})
        return self._result(messages)

    async def _start(self, name: str) -> None:
        await self.cluster.start(name, wrap=self.network.nodes[self.index[name]].wrap)

    async def _links_up(self) -> None:
        """All links that should be are, as their ends see it."""

        def as_should_be() -> bool:
            return all(self.cluster.up[name] == self.world.linked(name) for name in self.world.alive)

        try:
            await self.cluster.until(as_should_be, PATIENCE_S)
        except TimeoutError:
            raise TransportError(f"links did not come up within {PATIENCE_S:g} s: {self.cluster.up}") from None

    async def _step(self, what: str, since: Instant, wanted: dict[tuple[str, ...], str] | None = None) -> None:
        wanted = wanted or self.world.leaders()
        try:
            took_s = await self.cluster.agree(wanted, since)
        except TimeoutError:
            raise TransportError(
                f"{what}: not agreed within {PATIENCE_S:g} s on {wanted}: {self.cluster.who_names_whom()}"
            ) from None
        self.steps.append(Step(what, {",".join(members): leader for members, leader in wanted.items()}, took_s))

    async def _counted_election(self) -> dict[str, int]:
        cluster, at = self.cluster, boot_time_ns()
        before = await cluster.counted()
        initiator = cluster.members[min(self.world.alive, key=order)]
        initiator.process.send_signal(signal.SIGUSR1)
        await cluster.until(lambda: all(member.since > at for member in cluster.alive()), PATIENCE_S)
        await self._step("elected", at)
        after = await cluster.counted()
        return {kind: after[kind] - before.get(kind, 0) for kind in sorted(after) if after[kind] > before.get(kind, 0)}

    # Faults.

    def _cut(self, a: str, b: str) -> None:
        self.network.cut(self.index[a], self.index[b])
        self.world.cut.add(frozenset((a, b)))

    def _mend_all(self) -> None:
        self.network.heal()
        self.world.cut.clear()

    # Figures.

    def _result(self, messages: dict[str, int]) -> MeshRun:
        world, names = self.world, list(self.index)
        traffic = self.network.traffic()
        leaves = sum(len(world.linked(name)) == 1 for name in names if name != min(names, key=order))
        packets: dict[str, int] = {}
        for (a, b), counters in traffic.links.items():
            key = f"{names[min(a, b)]}-{names[max(a, b)]}"
            packets[key] = packets.get(key, 0) + counters.packets
        return MeshRun(
            steps=self.steps,
            messages=messages,
            total=sum(messages.values()),
            expected=message_count(len(world.edges), len(names), leaves),
            hosts=[self._host(name) for name in names],
            link_packets=packets,
        )

    def _host(self, name: str) -> Host:
        node, pid = self.network.nodes[self.index[name]], self.cluster.members[name].pid
        counters = node.counters()
        inode = Path(f"/proc/{pid}/ns/net").stat().st_ino
        return Host(name, pid, node.name, inode, counters.tx_packets, counters.rx_packets)
