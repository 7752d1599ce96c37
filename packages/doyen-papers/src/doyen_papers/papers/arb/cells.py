"""The runs that the figures of [ARB] measure: simulated ones, and real processes for Figures 8 and 11."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import quantiles
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from doyen.core.clock import Duration, ms
from doyen.sim.runs import figure, run_many
from doyen_papers.papers.cells import measured
from doyen_papers.papers.item import Budget, Measured, Task
from doyen_papers.studies.arbitration import ArbitrationSetting, Run, simulate
from doyen_papers.studies.ring_theorems import Arbiters, Case, show

if TYPE_CHECKING:
    from doyen_lab.ring_runs import RealRun

Results = Mapping[Task, Any]

REAL_SIZE: Final = 64
REAL_GROUPS: Final = (1, 2, 3, 3, 3)  # Figure 8: killed at once, one group after another.  The paper gives none.
DETECTION_GROUPS: Final = (3, 3, 3, 3)  # Figure 11.
REAL_LEASES: Final = tuple(ms(32 << i) for i in range(6))


class Asked(Struct, frozen=True, kw_only=True):
    what: Literal["sim", "real", "theorem"]
    setting: ArbitrationSetting | None = None
    lease: Duration = 0
    groups: tuple[int, ...] = ()
    as_printed: bool = False  #: Real processes in the paper's own mode, victims drawn at random.
    case: Case = "crash"
    arbiters: Arbiters = "pairwise"


def sim(runs_max: int = 0, **setting: Any) -> Task:
    return Task(Asked(what="sim", setting=ArbitrationSetting(**({"mode": "paper"} | setting))), "machine", runs_max)


def real(lease: Duration, groups: tuple[int, ...], *, as_printed: bool = False) -> Task:
    return Task(Asked(what="real", lease=lease, groups=groups, as_printed=as_printed), "machine", 1)


def theorem(case: Case, arbiters: Arbiters = "pairwise") -> Task:
    return Task(Asked(what="theorem", case=case, arbiters=arbiters), "machine", 100)


def run_task(task: Task, budget: Budget, progress: Callable[[int], None] | None) -> Any:
    asked: Asked = task.setting
    if asked.what == "real":
        from doyen_lab.ring_runs import kill_groups  # Real processes: only these figures need the lab.

        found = kill_groups(REAL_SIZE, asked.lease, asked.groups, budget.seed, as_printed=asked.as_printed)
        if progress is not None:
            progress(1)
        return found
    if asked.what == "theorem":
        once = partial(show, asked.case, asked.arbiters)
        return run_many(once, budget.runs, budget.seed, jobs=budget.jobs, progress=progress)
    assert asked.setting is not None
    return run_many(partial(simulate, asked.setting), budget.runs, budget.seed, jobs=budget.jobs, progress=progress)


def of_runs(where: str, runs: Sequence[Run], value: Callable[[Run], float | None], **more: Any) -> Measured:
    return measured(where, figure(value(run) for run in runs), **({"note": f"{len(runs)} runs"} | more))


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    first, second, third = quantiles(values, n=4, method="inclusive")
    return first, second, third


def lateness_note(run: "RealRun") -> str:
    again = "" if run.tries == 1 else f", run {run.tries} times"
    kept = "" if run.valid else "; the machine did not keep time: NOT VALID"
    return f"control process late by {run.worst_late:.1%} of T_l at its 99th percentile{again}{kept}"
