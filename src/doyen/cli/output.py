"""Printing: the answer goes to standard output, everything else to standard error."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import msgspec

from doyen.core.plain import plain_json

if TYPE_CHECKING:
    from doyen.sim.runs import Figure

json_flag = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def print_json(value: Any) -> None:
    """Print exactly one object, in UTF-8 whatever the locale; floats that are not numbers become null."""
    click.echo(plain_json(msgspec.json.encode(value)))


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error, where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    with click.progressbar(length=total, label=what, file=sys.stderr, show_pos=True) as bar:
        yield bar.update


def show(figure: "Figure | None", unit: str = "") -> str:
    """Return a figure as text: its mean, and how far that may be off."""
    if figure is None:
        return "never"
    spread = "" if figure.stderr is None else f" ± {figure.stderr:.2g}"
    return f"{figure.mean:.4g}{spread}{unit}"
