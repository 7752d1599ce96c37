"""What commands share that ask a node running on this machine."""

import time
from collections.abc import Callable
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def which_node(function: Callable[..., Any]) -> Callable[..., Any]:
    function = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")(function)
    function = click.option("--name", default=None, help="Which node of it, where several run here.")(function)
    return click.option("--group", default=None, envvar="DOYEN_GROUP", help="The group; not needed if one runs here.")(
        function
    )


which_election = click.option("--election", default="", help="A named election of the group; by default its own.")


def ago(seconds: float | None) -> str:
    """`4 s`, `3 min`, `2 h`."""
    if seconds is None:
        return "–"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else f"{max(0.0, seconds) * 1000:.0f} ms"


def stamp(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at)) + f".{int(at % 1 * 1000):03d}"


def table(rows: list[tuple[str, ...]], remarks: list[str]) -> None:
    """Columns as wide as they must be; a remark follows its row."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row, remark in zip(rows, remarks, strict=True):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(f"{line}  {remark}".rstrip())
