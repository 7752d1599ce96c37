"""Ours beside serf on one mesh in one run: what each sends, and how long until everybody knows that a member died.

Members that do not lead are killed or cut off, so that what is measured is the membership's own work.
"""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from statistics import median
from typing import Any

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.errors import TransportError
from doyen.net.driver import boot_time_ns
from doyen.node.told import Told
from doyen_lab.beside import FAULTS, PATIENCE_S, Fault, Part, Process, process, sample_all
from doyen_lab.mesh import Mesh
from doyen_lab.ours import MeshGroup
from doyen_lab.peers.serf import Serf
from doyen_lab.usage import Meter


class Detection(Struct, frozen=True, kw_only=True):
    """One member lost: how long until the first, and until the last of the others knew."""

    fault: Fault
    member: str
    first_s: float
    last_s: float


class Watch:
    """Who said of whom that it failed, by our agents' own lines."""

    def __init__(self) -> None:
        self.failed: dict[str, dict[str, Instant]] = {}

    def __call__(self, told: Told) -> None:
        if told.event == "member" and told.member is not None:
            if told.member_status == "failed":
                self.failed.setdefault(told.member, {}).setdefault(told.name, told.clock)
            elif told.member_status == "alive":
                self.failed.get(told.member, {}).pop(told.name, None)


class SystemDetection(Struct, frozen=True, kw_only=True):
    steady: Part
    each: list[Detection]
    kill_s: float | None  # Median, until the last knew.
    cut_s: float | None
    never: int


class BesideSerf(Struct, frozen=True, kw_only=True):
    processes: list[Process]
    doyen: SystemDetection
    serf: SystemDetection
    ratios: dict[str, float]  # Ours by theirs; below 1 is less.
    holds: bool


async def measure(
    mesh: Mesh,
    ours: MeshGroup,
    watch: Watch,
    serf: Serf,
    *,
    warm_up_s: float,
    seconds: float,
    faults: int,
    seed: int,
    on_step: Callable[[str], None] = lambda text: None,
) -> BesideSerf:
    began_at = boot_time_ns()
    await ours.start()
    await serf.start()
    await serf.joined(PATIENCE_S)
    await ours.agreement(PATIENCE_S, unchanged_s=3)
    on_step(f"started; warming up for {warm_up_s:g} s: serf's exchanges of state begin late")
    await asyncio.sleep(warm_up_s)
    pids = {"doyen": [m.pid for m in ours.members], "serf": [agent.pid for agent in serf.agents]}
    meters = {name: Meter(found, "eth0", began_at) for name, found in pids.items()}
    hops = {name: mesh.hop_counters(name) for name in meters}
    await sample_all(meters, seconds, min(5.0, seconds))
    parts = {
        name: Part.of(meter.samples, mesh.hop_counters(name).since(hops[name]), seconds)
        for name, meter in meters.items()
    }
    processes = [
        process("doyen", m.name, m.pid, host) for m, host in zip(ours.members, mesh.guests["doyen"], strict=True)
    ]
    processes += [process("serf", agent.name, agent.pid, agent.host) for agent in serf.agents]
    rng = Random(seed)
    each: dict[str, list[Detection | None]] = {"doyen": [], "serf": []}
    for round_no in range(faults):
        for fault in FAULTS:
            found = await _or_never(_lose_ours(ours, watch, fault, rng))
            each["doyen"].append(found)
            on_step(f"{fault} {round_no + 1} of {faults}, doyen: {_shown(found)}")
            found = await _or_never(_lose_serf(mesh, serf, fault, rng))
            each["serf"].append(found)
            on_step(f"{fault} {round_no + 1} of {faults}, serf: {_shown(found)}")
    figures = {name: _figures(parts[name], each[name]) for name in meters}
    mine, other = figures["doyen"], figures["serf"]
    ratios = {
        "bytes_per_s": mine.steady.bytes_per_s.mean / other.steady.bytes_per_s.mean,
        "cpu_percent": mine.steady.cpu_percent.mean / max(other.steady.cpu_percent.mean, 1e-9),
    }
    for name in ("kill_s", "cut_s"):
        ours_s, theirs_s = getattr(mine, name), getattr(other, name)
        if ours_s is not None and theirs_s is not None:
            ratios[name] = ours_s / theirs_s
    wanted = [value for name, value in ratios.items() if name != "cpu_percent"]
    holds = mine.never == 0 and all(value < 1 for value in wanted)
    return BesideSerf(processes=processes, doyen=mine, serf=other, ratios=ratios, holds=holds)


async def _or_never(work: Coroutine[Any, Any, Detection]) -> Detection | None:
    try:
        return await work
    except TransportError:
        return None


async def _lose_ours(group: MeshGroup, watch: Watch, fault: Fault, rng: Random) -> Detection:
    _, leader = await group.agreement(PATIENCE_S)
    name = rng.choice([name for name in group.names[1:-1] if name != leader])  # Seeds stay: they are in the corners.
    watch.failed.pop(name, None)
    if fault == "kill":
        at = group.cluster.kill(name)
        await group.cluster.members[name].process.wait()
    else:
        at = group.cut(name)
    others = {member.name for member in group.cluster.reachable()}

    def all_know() -> bool:
        return others <= watch.failed.get(name, {}).keys()

    try:
        await group.cluster.until(all_know, PATIENCE_S)
    except TimeoutError:
        raise TransportError(f"{name} is not known to have failed") from None
    known = [watch.failed[name][other] for other in others]
    if fault == "kill":
        await group.start_one(group.names.index(name))
        await group.cluster.until_started(PATIENCE_S)
    else:
        group.mend(name)
    await group.cluster.until(lambda: not watch.failed.get(name), PATIENCE_S)
    await group.agreement(PATIENCE_S, unchanged_s=3)
    return Detection(fault=fault, member=name, first_s=(min(known) - at) / 1e9, last_s=(max(known) - at) / 1e9)


async def _lose_serf(mesh: Mesh, serf: Serf, fault: Fault, rng: Random) -> Detection:
    i = rng.randrange(1, len(serf.agents) - 1)
    agent, marks = serf.agents[i], serf.marks()
    if fault == "kill":
        at = await agent.kill()
    else:
        at = boot_time_ns()
        mesh.cut("serf", i)
    first, last = await serf.failed(agent.name, PATIENCE_S, marks)
    if fault == "kill":
        await serf.start_one(agent)
    else:
        mesh.mend("serf", i)
    await serf.back(agent.name, PATIENCE_S, marks)
    return Detection(fault=fault, member=agent.name, first_s=(first - at) / 1e9, last_s=(last - at) / 1e9)


def _figures(steady: Part, each: list[Detection | None]) -> SystemDetection:
    found = [detection for detection in each if detection is not None]
    by_fault = {fault: [d.last_s for d in found if d.fault == fault] for fault in FAULTS}
    return SystemDetection(
        steady=steady,
        each=found,
        kill_s=median(by_fault["kill"]) if by_fault["kill"] else None,
        cut_s=median(by_fault["cut"]) if by_fault["cut"] else None,
        never=len(each) - len(found),
    )


def _shown(found: Detection | None) -> str:
    return "never" if found is None else f"first {found.first_s:.2f} s, last {found.last_s:.2f} s"
