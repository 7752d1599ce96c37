"""One task is one setting of the replicated service, run a few times."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from msgspec.structs import asdict

from doyen.sim.runs import Figure
from doyen_papers.papers.cells import measured
from doyen_papers.papers.item import Budget, Measured, Task
from doyen_papers.studies.pole import ServiceSetting, Summary, study

Results = Mapping[Task, Summary]
What = Literal["mean", "worst", "before", "recovery_time"]

JITTER: Final = 0.02  # [POLE §4.1]
SLOW: Final = 4.0  # Requests per second where only exact means are wanted.


def exact(**setting: Any) -> Task:
    """Return a task of one run: without jitter a second would be the same."""
    return Task(ServiceSetting(requests_per_s=SLOW, **setting), "machine", 1)


def jittered(**setting: Any) -> Task:
    """[POLE §4.1] Return a task of five runs, as the authors did it."""
    return Task(ServiceSetting(jitter=JITTER, **setting), "machine", 5)


def run_task(task: Task, budget: Budget, progress: Callable[[int], None] | None) -> Summary:
    return study(task.setting, runs=budget.runs, seed=budget.seed, jobs=budget.jobs, progress=progress)


def command(setting: ServiceSetting, seed: int = 1) -> str:
    flags = f"--deployment {setting.deployment} --oracle {setting.oracle}"
    if setting.share is not None:
        flags += f" --share {setting.share:g}"
    if setting.outdated is not None:
        flags += f" --outdated {','.join(setting.outdated)}"
    if setting.snapshot_bytes:
        flags += f" --snapshot {setting.snapshot_bytes / 1e6:g}MB"
    if setting.rtt_ms is not None:
        flags += f" --rtt {setting.rtt_ms:g}"
    if setting.jitter:
        flags += f" --jitter {setting.jitter:.0%}"
    return f"doyen sim pole {flags} --seed {seed}"


def figure_cell(where: str, found: Figure | None, task: Task, unit: str = "ms", **more: Any) -> Measured:
    return measured(where, found, unit=unit, setting=asdict(task.setting), command=command(task.setting), **more)


def cell(where: str, results: Results, task: Task, what: What = "mean", **more: Any) -> Measured:
    unit = "s" if what == "recovery_time" else "ms"
    return figure_cell(where, getattr(results[task], what), task, unit, **more)


def mean_of(results: Results, task: Task, what: What = "mean") -> float:
    found: Figure | None = getattr(results[task], what)
    return float("nan") if found is None else found.mean
