"""The commands of all studies share this: the flags of their runs, a trace, and an answer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec.structs import asdict

from doyen.cli.output import print_json
from doyen.cli.outputs import TRACE, OutputFile
from doyen.sim.trace import Trace

S = TypeVar("S")


def run_flags(*, runs: int = 0, trace: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --seed and --json; --runs with this default, and --jobs, where there are many; and --trace on demand."""
    added = [
        click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same figures."),
        click.option("--json", "as_json", is_flag=True, help="One JSON object."),
    ]
    if runs:
        added += [
            click.option("--runs", type=int, default=runs, show_default=True, help="Each with a seed of its own."),
            click.option("--jobs", type=int, default=0, help="Processes; 0: one per core.  Changes only the time."),
        ]
    if trace:
        about = "Write the first run, a line an event." if runs else "Write the run, a line an event."
        added.append(click.option("--trace", "trace_path", type=OutputFile(TRACE), help=about))

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for add in added:
            function = add(function)
        return function

    return decorate


@contextmanager
def tracing(path: Path | None) -> Iterator[Trace | None]:
    """Write a run down where a file was named."""
    if path is None:
        yield None
        return
    with open(path, "w", encoding="utf-8") as lines:
        yield Trace(lines)


def answer(summary: S, as_json: bool, show: Callable[[S], None]) -> None:
    if as_json:
        print_json(_flat(summary))
    else:
        show(summary)


def _flat(summary: Any) -> dict[str, Any]:
    """Return one object that has the setting's own fields too; figures by name are fields, and no hash is none."""
    told = {name: getattr(summary, name) for name in summary.__struct_fields__}
    setting: dict[str, Any] = asdict(told.pop("setting"))
    figures: dict[str, Any] = told.pop("figures", {})
    if told["trace_hash"] is None:
        del told["trace_hash"]
    return setting | figures | told
