"""All items of [LE] share this: settings, their runs, and a measured cell with its closed form beside it."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from hashlib import blake2b
from io import StringIO
from math import hypot, inf
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from doyen.sim.runs import Figure, run_many
from doyen.sim.trace import Trace
from doyen_papers.analysis.announce import NoClosedForm, value
from doyen_papers.analysis.setting import LossModel, Setting, Variant
from doyen_papers.papers import cells
from doyen_papers.papers.item import Budget, Measured, Task
from doyen_papers.papers.le.neighbours import observe_neighbours
from doyen_papers.studies.announce import Extensions, Summary, simulate, study
from doyen_papers.studies.observed import By, observe

Results = Mapping[Task, Summary]
Quantity = Literal[
    "tmax", "messages", "rounds", "avg_rounds", "first_tmax", "first_messages", "reestablishment", "inconsistent"
]

LOSS: Final = 0.4  # Of all figures but 5.6, 5.7 and 5.10.
NAMES: Final[dict[str, Variant]] = {"LE-A": "le-a", "LE-S": "le-s", "LE-M": "le-m", "SUP": "sup", "AL": "al"}
_CLOSED: Final = {
    "first_tmax": "first-round-tmax",
    "first_messages": "first-round-messages",
    "avg_rounds": "avg-rounds",
}
_UNITS: Final = {"tmax": "s", "first_tmax": "s", "reestablishment": "s", "inconsistent": "of the time"}


def task(name: str, nodes: int, model: LossModel, *, runs_times: int = 1, **more: Any) -> Task:
    """[LE §5.4] T_S = T_A = 1, Δ = .1, uniform, T_L = ∞ unless told otherwise."""
    loss = 0.0 if model == "none" else more.pop("loss", LOSS)
    setting = Setting(variant=NAMES[name], nodes=nodes, loss_model=model, loss=loss, **more)
    return Task(setting, runs_times=runs_times)


class Extended(Struct, frozen=True):
    """A setting, with extensions."""

    setting: Setting
    extensions: Extensions


class Observing(Struct, frozen=True):
    """Elections by a rank that nodes observe themselves."""

    by: By | Literal["neighbours"]
    nodes: int


class Composed(Struct, frozen=True):
    """SUP+AL in one of its forms."""

    setting: Setting


def run_task(wanted: Task, budget: Budget, progress: Callable[[int], None] | None) -> Any:
    asked: Setting | Extended | Observing | Composed = wanted.setting
    if isinstance(asked, Observing | Composed):
        once = _observes(asked) if isinstance(asked, Observing) else partial(compose, asked)
        seed = cell_seed(budget.seed, asked)
        return cells.outcomes(run_many(once, budget.runs, seed, jobs=budget.jobs, progress=progress))
    setting, extensions = (asked, Extensions()) if isinstance(asked, Setting) else (asked.setting, asked.extensions)
    return study(
        setting,
        runs=budget.runs,
        seed=cell_seed(budget.seed, asked),
        jobs=budget.jobs,
        engine=budget.engine if isinstance(asked, Setting) else "machine",  # The kernels know no extensions.
        extensions=extensions,
        progress=progress,
    )


def _observes(asked: Observing) -> Callable[[int], dict[str, float | None]]:
    if asked.by == "neighbours":
        return partial(observe_neighbours, asked.nodes)
    return partial(observe, asked.by, asked.nodes)


def compose(asked: Composed, seed: int) -> dict[str, float | None]:
    """Run SUP+AL once: who leads in the end, how many elected themselves, and when each announced."""
    setting, lines = asked.setting, StringIO()
    found = simulate(setting, seed, trace=Trace(lines))
    words = (line.split(maxsplit=2) for line in lines.getvalue().splitlines())
    sent = sorted(float(at) for at, kind, *_ in words if kind == "multicast")
    assert found.leaders is not None and found.first_messages is not None
    return {
        "one leader": float(found.converged),
        "no leader": float(found.leaders == 0),
        "several elected": float(found.first_messages > 1),
        "messages": found.messages,
        "first": sent[0],
        "last": sent[-1],
        "together": float(max(bisect_right(sent, at + setting.delay_s) - i for i, at in enumerate(sent))),
    }


def cell_seed(seed: int, setting: Setting | Extended | Observing | Composed) -> int:
    """Return a seed for each setting, so that the errors of neighbouring points are independent."""
    return int.from_bytes(blake2b(f"{seed}/{setting!r}".encode(), digest_size=4).digest(), "little")


def figure_of(summary: Summary, quantity: Quantity) -> Figure | None:
    if quantity.startswith("first_"):
        first: Figure | None = getattr(summary.first_round, quantity.removeprefix("first_"))
        return first
    found: Figure | None = getattr(summary, quantity)
    return found


@cache
def formula(setting: Setting, quantity: Quantity, as_printed: bool = False) -> float | None:
    """Return the closed form; None where none is known."""
    try:
        return value(setting, _CLOSED.get(quantity, quantity), as_printed=as_printed)
    except NoClosedForm:
        return None


def measured(where: str, summary: Summary, quantity: Quantity, *, as_printed: bool = False, **more: Any) -> Measured:
    common = {
        "formula": formula(summary.setting, quantity, as_printed),
        "unit": _UNITS.get(quantity, ""),
        "setting": msgspec.structs.asdict(summary.setting) | {"runs": summary.runs, "seed": summary.seed},
        "command": command(summary),
        "note": f"{quantity} by the {summary.engine} engine, {summary.runs} runs",
    }
    return cells.measured(where, figure_of(summary, quantity), **(common | more))


def command(summary: Summary) -> str:
    """Return the command that measures one cell again, to the last digit."""
    again = f"--runs {summary.runs} --seed {summary.seed} --engine {summary.engine} --json"
    return f"{summary.setting.command('loss_model')} {again}"


# Differences, for orderings.  Settings differ, so their errors are independent.

Gap = tuple[int, float, float]  # N, a difference of means, its standard error.


def gap(nodes: int, greater: Figure | None, less: Figure | None) -> Gap:
    if greater is None or less is None:
        return nodes, -inf, 0.0
    return nodes, greater.mean - less.mean, hypot(greater.stderr or 0.0, less.stderr or 0.0)


def narrowest(gaps: Iterable[Gap]) -> Gap:
    """Return the gap that speaks most against "greater"."""
    return min(gaps, key=lambda found: found[1] / max(found[2], 1e-12))


def farthest(gaps: Iterable[Gap], expected: float) -> Gap:
    """Return the gap that speaks most against "equal"."""
    return max(gaps, key=lambda found: abs(found[1] - expected) / max(found[2], 1e-12))


def gap_cell(where: str, found: Gap, *, unit: str, note: str = "") -> Measured:
    nodes, mean, stderr = found
    said = f"worst at N={nodes}" if nodes else ""
    note = "; ".join(part for part in (said, note) if part)
    return Measured(where=where, mean=None if mean == -inf else mean, stderr=stderr, unit=unit, note=note)
