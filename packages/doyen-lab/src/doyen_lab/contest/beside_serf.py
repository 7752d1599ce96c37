"""`doyen bench serf`: ours beside serf on one mesh in one run: traffic, and how long until everybody knows of a death.

Members that do not lead are killed or cut off, so that what is measured is the membership's own work.
"""

import asyncio
from collections.abc import Callable
from random import Random

from msgspec import Struct

from doyen.errors import TransportError
from doyen.net.driver import boot_time_ns
from doyen_lab.contest.entrant import Entrant
from doyen_lab.contest.figures import Fault, IdleOnMesh, MeasuredProcess, median_of
from doyen_lab.contest.trial import Detected, Trial, count_on_mesh, rob_in_turn
from doyen_lab.mesh import Mesh

PATIENCE_S = 90.0
SETTLED_S = 3.0


class SystemDetection(Struct, frozen=True, kw_only=True):
    steady: IdleOnMesh
    each: list[Detected]
    kill_s: float | None  # Median, until the last knew.
    cut_s: float | None
    never: int

    @classmethod
    def of(cls, steady: IdleOnMesh, each: list[Detected | None]) -> "SystemDetection":
        found = [detected for detected in each if detected is not None]
        return cls(
            steady=steady,
            each=found,
            kill_s=median_of([detected.last_s for detected in found if detected.fault == "kill"]),
            cut_s=median_of([detected.last_s for detected in found if detected.fault == "cut"]),
            never=len(each) - len(found),
        )


class BesideSerf(Struct, frozen=True, kw_only=True):
    processes: list[MeasuredProcess]
    doyen: SystemDetection
    serf: SystemDetection
    ratios: dict[str, float]  # Ours by theirs; below 1 is less.
    holds: bool


async def measure(
    mesh: Mesh,
    ours: Entrant,
    theirs: Entrant,
    *,
    warm_up_s: float,
    seconds: float,
    faults: int,
    seed: int,
    on_step: Callable[[str], None] = lambda text: None,
) -> BesideSerf:
    began_at = boot_time_ns()
    trials = [Trial(entrant, patience_s=PATIENCE_S, settled_s=SETTLED_S) for entrant in (ours, theirs)]
    for trial in trials:
        await trial.entrant.form(PATIENCE_S, SETTLED_S)
        await trial.entrant.all_hold_all(PATIENCE_S)
    on_step(f"started; warming up for {warm_up_s:g} s: serf's exchanges of state begin late")
    await asyncio.sleep(warm_up_s)
    for trial in trials:
        trial.begin_counting(began_at)
    idle = await count_on_mesh(mesh, trials, seconds, min(5.0, seconds))
    for trial in trials:
        trial.look()
    rng = Random(seed)

    async def lose_member(trial: Trial, fault: Fault) -> tuple[Detected | None, str]:
        try:
            found = await trial.lose_member(fault, rng)
        except TransportError:
            return None, "never"
        return found, f"first {found.first_s:.2f} s, last {found.last_s:.2f} s"

    each = await rob_in_turn(trials, faults, lose_member, on_step)
    mine, other = (
        SystemDetection.of(idle[name], [*each[name]["kill"], *each[name]["cut"]]) for name in (ours.label, theirs.label)
    )
    ratios = {
        "bytes_per_s": mine.steady.bytes_per_s.mean / other.steady.bytes_per_s.mean,
        "cpu_percent": mine.steady.cpu_percent.mean / max(other.steady.cpu_percent.mean, 1e-9),
    }
    for name, ours_s, theirs_s in (("kill_s", mine.kill_s, other.kill_s), ("cut_s", mine.cut_s, other.cut_s)):
        if ours_s is not None and theirs_s is not None:
            ratios[name] = ours_s / theirs_s
    wanted = [value for name, value in ratios.items() if name != "cpu_percent"]
    return BesideSerf(
        processes=[process for trial in trials for process in trial.processes],
        doyen=mine,
        serf=other,
        ratios=ratios,
        holds=mine.never == 0 and all(value < 1 for value in wanted),
    )
