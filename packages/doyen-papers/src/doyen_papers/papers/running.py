"""Items to judged cells: each distinct task once, over as many cores as wanted."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager
from typing import Any

from msgspec import Struct

from doyen.errors import ConfigError
from doyen_papers.papers.expected import Expected, read_expected
from doyen_papers.papers.item import Budget, Item, Paper, Plot, Task
from doyen_papers.papers.verdict import Cell, judge

#: Opens a progress bar for (what, total runs), and gives what advances it.
Bar = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


class Reproduced(Struct, frozen=True, kw_only=True):
    """An item, run and judged."""

    item: Item
    cells: list[Cell]
    plot: Plot | None
    runs: int  #: Simulated for it; what an earlier item needed too is counted there.
    command: str

    def count(self, verdict: str) -> int:
        return sum(cell.verdict == verdict for cell in self.cells)

    @property
    def misses(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.verdict == "miss"]

    @property
    def unexplained(self) -> list[Cell]:
        return [cell for cell in self.misses if not cell.explained and not cell.afterwards]


def reproduce(
    paper: Paper, items: Sequence[Item], expected: Expected, budget: Budget, bar: Bar
) -> Iterator[Reproduced]:
    """One item after the other, so that each can be shown while the next one runs."""
    results: dict[Task, Any] = {}
    for item in items:
        fresh = [task for task in dict.fromkeys(item.tasks) if task not in results]
        total = sum(task.within(budget).runs for task in fresh)
        with bar(f"{item.id}  {item.title}", total) as advance:
            results.update(_results(paper, fresh, budget, advance))
        outcome = item.outcome({task: results[task] for task in item.tasks})
        _refuse_unmeasured(expected, item, [cell.where for cell in outcome.cells])
        yield Reproduced(
            item=item,
            cells=[judge(cell, expected.of(item.id, cell.where)) for cell in outcome.cells],
            plot=outcome.plot,
            runs=total,
            command=again(item, budget),
        )


def expected_of(paper: Paper) -> Expected:
    expected = read_expected(paper.folder / "expected.toml")
    known = {item.id for item in paper.items}
    for number, expect in enumerate(expected.expects, 1):
        if expect.item not in known:
            raise ConfigError(
                f"{paper.folder / 'expected.toml'}: [[expect]] number {number} item = {expect.item!r}: "
                f"one of {', '.join(sorted(known))}"
            )
    return expected


def again(item: Item, budget: Budget) -> str:
    """Return the command that makes an item again."""
    return f"doyen papers run {item.id} --runs {budget.runs} --seed {budget.seed} --engine {budget.engine}"


def _results(
    paper: Paper, tasks: Sequence[Task], budget: Budget, advance: Callable[[int], None]
) -> Iterator[tuple[Task, Any]]:
    """Kernels leave Python while they run, so threads share them out; machines bring processes of their own."""
    in_threads = [task for task in tasks if task.within(budget).engine == "kernel"]
    with ThreadPoolExecutor(budget.jobs or os.cpu_count() or 1) as pool:
        futures = {pool.submit(paper.study, task, task.within(budget), None): task for task in in_threads}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
                advance(futures[future].within(budget).runs)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    for task in tasks:
        if task not in in_threads:
            yield task, paper.study(task, task.within(budget), advance)


def _refuse_unmeasured(expected: Expected, item: Item, names: Sequence[str]) -> None:
    """Refuse an expectation that no cell answers: it is a typing mistake, and would never fail."""
    for number, expect in enumerate(expected.expects, 1):
        if expect.item == item.id and not any(expect.covers(item.id, name) for name in names):
            raise ConfigError(f"expected.toml: [[expect]] number {number} where = {expect.where!r}: {item.id} has none")
