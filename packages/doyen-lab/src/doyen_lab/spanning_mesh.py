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

import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from doyen.core.clock import Instant, ms
from doyen.core.ids import Address, NodeId
from doyen.core.order import order
from doyen.election.spanning.config import SpanningConfig
from doyen.errors import ConfigError, TransportError
from doyen.net.driver import boot_time_ns
from doyen_lab.contest.entrant import Entrant
from doyen_lab.hello import HelloConfig
from doyen_lab.netns import Namespace
from doyen_lab.spanning_node import MeshTold, SpanningPlan
from doyen_lab.switch import Switch
from doyen_papers.score.graph import regions
from doyen_papers.studies.spanning_counts import message_count

PORT: Final = 7700
CONFIG: Final = SpanningConfig(hop_delay=ms(80), diameter_max=6, link_wait=ms(2000), pulse_interval=ms(320))
HELLO: Final = HelloConfig(interval=ms(100), silence=ms(350))
CALM_S: Final = 0.7  # Two pulses: what still differs would have shown.
PATIENCE_S: Final = 25.0
UNCOUNTED: Final = frozenset({"state"})  # Pulses go on meanwhile.

_TOLD: Final = msgspec.json.Decoder(MeshTold)


class Step(Struct, frozen=True):
    """One step of the course: what was done, and what came of it."""

    what: str
    leaders: dict[str, str]  # By region: its members, in order, joined by commas.
    took_s: float  # Until all of every region named them; they still did so two pulses later.


class Host(Struct, frozen=True):
    """One process at the end of the course, and where it ran."""

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


class SpanningMesh(Entrant):
    """Processes of `spanning_node`, one per host, on a network that carries packets between neighbours only."""

    def __init__(self, switch: Switch, folder: Path, world: "_World") -> None:
        super().__init__("mesh", switch, folder, names=sorted(world.quality, key=order))
        self.switch, self.world = switch, world
        self.index = {name: i for i, name in enumerate(self.names)}
        self.up: dict[str, frozenset[str]] = {}
        self.kinds: dict[str, dict[str, int]] = {}
        self.steps: list[Step] = []
        self._neighbours = {name: sorted(world.linked(name), key=order) for name in self.names}

    def command(self, name: str) -> list[str]:
        self.up[name] = frozenset()
        plan = SpanningPlan(
            group=self.label,
            name=NodeId(name),
            bind=self._address(name),
            neighbours={NodeId(other): self._address(other) for other in self._neighbours[name]},
            quality=self.world.quality[name],
            spanning=CONFIG,
            hello=HELLO,
            state=str(self.folder / name / "state"),
        )
        return [sys.executable, "-m", "doyen_lab.spanning_node", msgspec.json.encode(plan).decode()]

    def _address(self, name: str) -> Address:
        return Address(self.hosts[name].ipv4, PORT)

    def hear(self, name: str, line: str, at: Instant) -> None:
        told = _TOLD.decode(line)
        self.up[name], self.kinds[name] = frozenset(told.up), told.kinds
        if told.event in ("elected", "lost"):
            self.ledger.say(name, told.leader if told.event == "elected" else None, told.clock)

    # The course.

    async def run(self, parted: Sequence[str]) -> MeshRun:
        world = self.world
        begun = await self.start_all()
        await self._links_up()
        at = await self.settled(PATIENCE_S, CALM_S)
        named = str(self.ledger.named_by(self.names[0]))
        self.steps.append(Step("started", {",".join(self.names): named}, (at - begun) / 1e9))
        messages = await self._counted_election()

        leader = world.best(world.alive)
        for other in sorted(world.linked(leader), key=order)[:2]:
            self._cut_link(leader, other)
        await self._links_up()
        await self._step("links cut", boot_time_ns())

        at = await self.kill(leader)
        world.alive.discard(leader)
        heir = world.best(world.alive)
        self._cut_link(heir, min(world.linked(heir), key=order))  # Meanwhile.
        await self._step("leader dead", at)

        at = boot_time_ns()
        for edge in sorted(map(sorted, world.edges - world.cut)):
            if len({*parted} & {*edge}) == 1:
                self._cut_link(*edge)
        await self._step("parted", at)

        at = boot_time_ns()
        self.switch.heal()
        world.cut.clear()
        await self._step("healed", at)

        (named,), at = world.leaders().values(), boot_time_ns()
        await self.start_member(leader)
        world.alive.add(leader)
        await self._links_up()
        await self._step("returned", at, {tuple(sorted(world.alive, key=order)): named})
        return self._result(messages)

    def _cut_link(self, a: str, b: str) -> None:
        self.switch.cut(self.index[a], self.index[b])
        self.world.cut.add(frozenset((a, b)))

    async def _links_up(self) -> None:
        """Wait until both ends of every link hold it for what it is."""
        world = self.world
        try:
            await self.ledger.until(
                lambda: all(self.up[name] == world.linked(name) for name in world.alive), PATIENCE_S
            )
        except TimeoutError:
            raise TransportError(f"links did not come up within {PATIENCE_S:g} s: {self.up}") from None

    async def _step(self, what: str, since: Instant, wanted: dict[tuple[str, ...], str] | None = None) -> None:
        """Wait until every region names its leader, and still does two pulses later."""
        wanted = wanted or self.world.leaders()

        def look() -> tuple[str, Instant] | None:
            found = [(self.ledger.known(members), leader) for members, leader in wanted.items()]
            if any(known is None or known[0] != leader for known, leader in found):
                return None
            return "", max(known[1] for known, _ in found if known is not None)

        try:
            _, at = await self.ledger.steady(look, CALM_S, PATIENCE_S)
        except TimeoutError:
            raise TransportError(
                f"{what}: not agreed within {PATIENCE_S:g} s on {wanted}: {self.who_names_whom()}"
            ) from None
        leaders = {",".join(members): leader for members, leader in wanted.items()}
        self.steps.append(Step(what, leaders, max(0.0, (at - since) / 1e9)))

    async def _counted_election(self) -> dict[str, int]:
        """Let one node initiate; return the messages of that election, by kind."""
        at, before, log_before = boot_time_ns(), await self._counted(), len(self.ledger.log)
        self.process_of(self.names[0]).send_signal(signal.SIGUSR1)
        await self.ledger.until(
            lambda: {member for member, named, _ in self.ledger.log[log_before:] if named} >= {*self.names},
            PATIENCE_S,
        )
        await self._step("elected", at)
        return dict(sorted((await self._counted() - before).items()))

    async def _counted(self) -> Counter[str]:
        """Return the messages that the living have sent so far, pulses apart."""
        self.kinds.clear()
        for name in self.rest():
            self.process_of(name).send_signal(signal.SIGUSR2)
        await self.ledger.until(lambda: all(name in self.kinds for name in self.rest()), PATIENCE_S)
        total = sum((Counter(kinds) for kinds in self.kinds.values()), Counter[str]())
        return Counter({kind: count for kind, count in total.items() if kind not in UNCOUNTED})

    # Figures.

    def _result(self, messages: dict[str, int]) -> MeshRun:
        world, names = self.world, self.names
        leaves = sum(len(world.linked(name)) == 1 for name in names if name != min(names, key=order))
        packets: Counter[str] = Counter()
        for (a, b), counters in self.switch.traffic().links.items():
            packets[f"{names[min(a, b)]}-{names[max(a, b)]}"] += counters.packets
        return MeshRun(
            steps=self.steps,
            messages=messages,
            total=sum(messages.values()),
            expected=message_count(len(world.edges), len(names), leaves),
            hosts=[self._host(name, pid, node) for name, pid, node in self.entries()],
            link_packets=dict(packets),
        )

    def _host(self, name: str, pid: int, node: Namespace) -> Host:
        counters = node.counters()
        inode = Path(f"/proc/{pid}/ns/net").stat().st_ino
        return Host(name, pid, node.name, inode, counters.tx_packets, counters.rx_packets)


class _World:
    """The mesh as it should be: who lives, which links carry, who then leads where."""

    def __init__(self, edges: Iterable[tuple[str, str]], quality: Mapping[str, float]) -> None:
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
    """Play the whole course; `parted` is the region that is cut off for a while."""
    index = {name: i for i, name in enumerate(sorted(quality, key=order))}
    switch = Switch(len(index), edges=[(index[a], index[b]) for a, b in edges], relay=False, multicast=False)
    with tempfile.TemporaryDirectory(prefix="doyen-mesh-") as folder:
        async with SpanningMesh(switch, Path(folder), _World(edges, quality)) as group:
            return await group.run(parted)
