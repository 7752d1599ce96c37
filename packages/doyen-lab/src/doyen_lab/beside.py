"""Systems beside each other on one mesh in one run: what each sends, burns and holds, and how long it is leaderless.

All are started together and left alone for the measured time; then, turn by turn, each loses its leader by SIGKILL
and by a silent cut of the leader's host, and gets it back.  A takeover lasts from the fault until every other process
of that system names, or serves under, one leader of those left.

Nobody is asked anything during the measured time: ours tell by lines on their standard output, ZooKeeper is asked
through its namespaces' loopback, and only during takeovers.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import Literal, Protocol

from msgspec import Struct

from doyen.errors import TransportError
from doyen.net.driver import boot_time_ns
from doyen_lab.mesh import HopCounters, Mesh
from doyen_lab.netns import Counters, Namespace
from doyen_lab.ours import MeshGroup
from doyen_lab.peers.zookeeper import ZooKeeper
from doyen_lab.usage import Mean, Meter, Sample, Usage

Fault = Literal["kill", "cut"]
FAULTS: tuple[Fault, ...] = ("kill", "cut")
PATIENCE_S = 90.0
BLOCKS = 5  # The measured time in so many parts, for the spread of ratios.
QUANTITIES = ("bytes_per_s", "cpu_percent", "rss_each", "pss_each")


class System(Protocol):
    """One system on the mesh, whoever wrote it."""

    tenant: str

    async def start(self) -> None: ...
    async def settled(self) -> None: ...
    def processes(self) -> list[tuple[str, int, Namespace]]: ...
    async def takeover(self, fault: Fault) -> float: ...


class Ours:
    def __init__(self, group: MeshGroup) -> None:
        self.group, self.tenant = group, group.tenant

    async def start(self) -> None:
        await self.group.start()

    async def settled(self) -> None:
        await self.group.agreement(PATIENCE_S, unchanged_s=3.0)

    def processes(self) -> list[tuple[str, int, Namespace]]:
        guests = self.group.mesh.guests[self.tenant]
        return [(m.name, m.pid, guest) for m, guest in zip(self.group.members, guests, strict=True)]

    async def takeover(self, fault: Fault) -> float:
        group = self.group
        _, leader = await group.agreement(PATIENCE_S)
        if fault == "kill":
            at = group.cluster.kill(leader)
            await group.cluster.members[leader].process.wait()
        else:
            at = group.cut(leader)
        since, _ = await group.agreement(PATIENCE_S, unchanged_s=1.0)
        if fault == "kill":
            await group.start_one(group.names.index(leader))
            await group.cluster.until_started(PATIENCE_S)
        else:
            group.mend(leader)
        await self.settled()
        return (since - at) / 1e9


class Theirs:
    """ZooKeeper."""

    def __init__(self, mesh: Mesh, tenant: str, ensemble: ZooKeeper) -> None:
        self.mesh, self.tenant, self.ensemble = mesh, tenant, ensemble

    async def start(self) -> None:
        await self.ensemble.start()

    async def settled(self) -> None:
        await self.ensemble.agreement(PATIENCE_S)
        await asyncio.sleep(3)

    def processes(self) -> list[tuple[str, int, Namespace]]:
        return [(server.name, server.pid, server.host) for server in self.ensemble.servers]

    async def takeover(self, fault: Fault) -> float:
        _, leader = await self.ensemble.agreement(PATIENCE_S)
        i = self.ensemble.servers.index(leader)
        if fault == "kill":
            at = await leader.kill()
        else:
            at = boot_time_ns()
            self.mesh.cut(self.tenant, i)
        since, _ = await self.ensemble.agreement(PATIENCE_S, unlike=leader)
        if fault == "kill":
            await self.ensemble.start_one(leader)
        else:
            self.mesh.mend(self.tenant, i)
        await self.settled()
        return (since - at) / 1e9


class Process(Struct, frozen=True, kw_only=True):
    """One process, alone in its namespace; counters since the namespace was made."""

    system: str
    name: str
    pid: int
    namespace: str
    namespace_inode: int
    interface: str
    address: str
    counters: Counters


class Part(Struct, frozen=True, kw_only=True):
    """One part of the measured time."""

    seconds: float
    bytes_per_s: Mean
    packets_per_s: Mean
    cpu_percent: Mean
    rss_each: Mean
    pss_each: Mean
    hop_bytes_per_s: float  # IP bytes on all links of the mesh: a packet over three hops counts three times.

    @classmethod
    def of(cls, samples: Sequence[Sample], hops: HopCounters, seconds: float) -> "Part":
        means = {
            name: Mean.of([getattr(sample, name) for sample in samples]) for name in (*QUANTITIES, "packets_per_s")
        }
        return cls(seconds=seconds, hop_bytes_per_s=hops.bytes / seconds, **means)


class Takeovers(Struct, frozen=True, kw_only=True):
    seconds: list[float]
    median_s: float | None
    never: int  # Faults after which there was no agreement, or no recovery, in time.


class Figures(Struct, frozen=True, kw_only=True):
    """One system."""

    nodes: int
    early: Part | None  # The first part, while everything starts; apart.
    steady: Part
    samples: list[Sample]
    kill: Takeovers
    cut: Takeovers


class Ratio(Struct, frozen=True):
    """Ours by theirs; below 1 is less.  The spread: of traffic, CPU and memory over parts of the time, of takeovers
    the best of ours by the worst of theirs, and the worst by the best."""

    ratio: float
    low: float
    high: float


class Beside(Struct, frozen=True, kw_only=True):
    processes: list[Process]
    systems: dict[str, Figures]
    ratios: dict[str, dict[str, Ratio]]  # By system of ours, then by quantity.
    holds: bool  # Every ratio is below 1, and every takeover came.


async def measure(
    mesh: Mesh,
    ours: Sequence[Ours],
    theirs: System,
    *,
    seconds: float,
    early_s: float,
    every_s: float,
    takeovers: int,
    on_step: Callable[[str], None] = lambda text: None,
) -> Beside:
    systems: list[System] = [*ours, theirs]
    began_at = boot_time_ns()
    for system in systems:
        await system.start()
    processes = [process(system.tenant, *entry) for system in systems for entry in system.processes()]
    meters = {s.tenant: Meter([pid for _, pid, _ in s.processes()], "eth0", began_at) for s in systems}
    on_step(f"{len(processes)} processes started; counting for {seconds:g} s")
    hops = {system.tenant: mesh.hop_counters(system.tenant) for system in systems}
    early: dict[str, Part] = {}
    if early_s > 0:
        await sample_all(meters, early_s, every_s)
        early = _parts(mesh, meters, hops, dict.fromkeys(hops, 0), early_s)
    for system in systems:
        await system.settled()
    for meter in meters.values():
        meter.sample()
    hops = {system.tenant: mesh.hop_counters(system.tenant) for system in systems}
    skipped = {name: len(meter.samples) for name, meter in meters.items()}
    steady_s = seconds - early_s
    await sample_all(meters, steady_s, every_s)
    steady = _parts(mesh, meters, hops, skipped, steady_s)
    processes = [process(system.tenant, *entry) for system in systems for entry in system.processes()]
    taken: float | None
    fell: dict[str, dict[Fault, list[float | None]]] = {s.tenant: {"kill": [], "cut": []} for s in systems}
    for round_no in range(takeovers):
        for fault in FAULTS:
            for system in systems:
                try:
                    taken = await system.takeover(fault)
                    shown = f"{taken:.2f} s"
                except TransportError as error:
                    taken, shown = None, f"never ({error})"
                fell[system.tenant][fault].append(taken)
                on_step(f"{fault} {round_no + 1} of {takeovers}, {system.tenant}: {shown}")
    figures = {
        system.tenant: Figures(
            nodes=len(system.processes()),
            early=early.get(system.tenant),
            steady=steady[system.tenant],
            samples=meters[system.tenant].samples,
            kill=_takeovers(fell[system.tenant]["kill"]),
            cut=_takeovers(fell[system.tenant]["cut"]),
        )
        for system in systems
    }
    measured = {name: meter.samples[skipped[name] :] for name, meter in meters.items()}
    ratios = {
        system.tenant: _ratios(
            figures[system.tenant], figures[theirs.tenant], measured[system.tenant], measured[theirs.tenant]
        )
        for system in ours
    }
    came = all(figure.kill.never == figure.cut.never == 0 for name, figure in figures.items() if name != theirs.tenant)
    less = all(ratio.ratio < 1 for found in ratios.values() for ratio in found.values())
    return Beside(processes=processes, systems=figures, ratios=ratios, holds=came and less)


async def sample_all(meters: dict[str, Meter], seconds: float, every_s: float) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    for step in range(1, max(1, round(seconds / every_s)) + 1):
        await asyncio.sleep(max(0.0, began + min(step * every_s, seconds) - loop.time()))
        for meter in meters.values():
            meter.sample()


def _parts(
    mesh: Mesh, meters: dict[str, Meter], before: dict[str, HopCounters], skipped: dict[str, int], seconds: float
) -> dict[str, Part]:
    return {
        name: Part.of(meter.samples[skipped[name] :], mesh.hop_counters(name).since(before[name]), seconds)
        for name, meter in meters.items()
    }


def _takeovers(found: Sequence[float | None]) -> Takeovers:
    taken = [value for value in found if value is not None]
    return Takeovers(seconds=taken, median_s=median(taken) if taken else None, never=len(found) - len(taken))


def _ratios(
    ours: Figures, theirs: Figures, our_samples: Sequence[Sample], their_samples: Sequence[Sample]
) -> dict[str, Ratio]:
    found = {name: block_ratio(our_samples, their_samples, name) for name in QUANTITIES}
    if theirs.steady.hop_bytes_per_s:
        hop = ours.steady.hop_bytes_per_s / theirs.steady.hop_bytes_per_s
        found["hop_bytes_per_s"] = Ratio(hop, hop, hop)
    for fault in FAULTS:
        mine, other = getattr(ours, fault), getattr(theirs, fault)
        if mine.seconds and other.seconds:
            low, high = min(mine.seconds) / max(other.seconds), max(mine.seconds) / min(other.seconds)
            found[f"{fault}_s"] = Ratio(mine.median_s / other.median_s, low, high)
    return found


def block_ratio(ours: Sequence[Sample], theirs: Sequence[Sample], name: str) -> Ratio:
    """Of the means, and the least and greatest of the same over parts of the time."""

    def mean(samples: Sequence[Sample]) -> float:
        return fmean(getattr(sample, name) for sample in samples)

    count = min(len(ours), len(theirs))
    size = max(1, count // BLOCKS)
    blocks = [slice(at, at + size) for at in range(0, count - size + 1, size)]
    each = [mean(ours[block]) / max(mean(theirs[block]), 1e-12) for block in blocks]
    return Ratio(mean(ours) / max(mean(theirs), 1e-12), min(each), max(each))


def process(system: str, name: str, pid: int, host: Namespace) -> Process:
    usage = Usage.of(pid, host.interface)
    return Process(
        system=system,
        name=name,
        pid=pid,
        namespace=host.name,
        namespace_inode=os.stat(f"/proc/{pid}/ns/net").st_ino,
        interface=host.interface,
        address=host.ipv4,
        counters=usage.counters,
    )
