"""Flags and formats of the commands that ask a node running on this machine."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import click

from doyen.cli.output import json_flag
from doyen.core.plain import plain_values
from doyen.errors import DoyenError, TransportError
from doyen.node import control
from doyen.node.control import find_node
from doyen.node.lines import paint

ON_ITS_MACHINE: Final = "doyen leader says why where it runs"
UNKNOWN: Final = "it does not answer, so whether it acts is not known here"
SHORT_S: Final = 1.0  # How long a node may take to answer, where another of its group can be asked instead.


def which_node(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags that say which node is asked, and whether its answer is printed as JSON."""
    function = json_flag(function)
    function = click.option("--name", default=None, help="The node to ask, where several of the group run here.")(
        function
    )
    return click.option(
        "--group", default=None, envvar="DOYEN_GROUP", help="The group; not needed if only one runs here."
    )(function)


which_election = click.option("--election", default="", help="A named election of the group; by default its own.")


def ask(path: Path, do: str, **fields: Any) -> Any:
    """Ask a node one question; its answer is as a terminal may show it, unless it is printed as JSON."""
    return _shown(control.ask(path, do, **fields))


def ask_first(paths: Sequence[Path], do: str, **fields: Any) -> tuple[Path, Any]:
    """Ask the first of these nodes that answers; return which one it was, and its answer.

    One that is silent, as a stopped process is, is named on standard error; the last one has more time.
    """
    silent = []
    for path in paths[:-1]:
        try:
            return path, ask(path, do, timeout_s=SHORT_S, **fields)
        except TransportError as error:
            silent.append(path)
            click.echo(f"doyen: {error} Asking {paths[len(silent)].stem}.", err=True)
    return paths[-1], ask(paths[-1], do, **fields)


def ask_leader(paths: Sequence[Path], do: str, **fields: Any) -> Any:
    """Return the answer of the node that leads, if it is one of these; else of the first that answers."""
    path, told = ask_first(paths, do, **fields)
    for other in paths[paths.index(path) + 1 :]:
        if told["is_me"]:
            break
        with suppress(TransportError):  # It is silent, so it does not act.
            also = ask(other, do, timeout_s=SHORT_S, **fields)
            told = also if also["is_me"] else told
    return told


def watch(path: Path) -> Iterator[Any]:
    """Yield the events of a node as they happen, like `ask`."""
    return map(_shown, control.watch(path))


def _shown(told: Any) -> Any:
    context = click.get_current_context(silent=True)
    return told if context is not None and context.params.get("as_json") else plain_values(told)


def stands(told: dict[str, Any], election: str = "") -> tuple[bool | None, str]:
    """Return whether the leader of that answer acts, and if it does not, what it waits for.

    Only the leader knows.  The node that answers has asked it (`ask_leader`); where it runs here, it is asked itself.
    None: it does not answer.
    """
    if told["leader"] in (None, told["node"]):
        return not told.get("waits_for"), str(told.get("waits_for") or "")
    if told.get("acts"):
        return True, ""
    try:
        leader = find_node(told["group"], told["leader"])
        why = str(ask(leader, "leader", timeout_s=1, election=election).get("waits_for") or "")
        return not why, why
    except DoyenError:  # It runs elsewhere.
        return told.get("acts"), ON_ITS_MACHINE if told.get("acts") is False else ""


def ago(seconds: float | None) -> str:
    """Return a time in one unit: `4 s`, `3 min`, `2 h`."""
    if seconds is None:
        return "–"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else f"{max(0.0, seconds) * 1000:.0f} ms"


def reigned(since: float | None, named_s: float | None) -> str:
    """Return for how long the leader has led: by its own wall clock, or else since this node names it."""
    return ago(named_s if since is None else max(0.0, time.time() - since))


def table(rows: Sequence[Sequence[str]], *, indent: str = "", tones: Sequence[str] = ()) -> None:
    """Print columns as wide as they must be; the last one, of remarks or numbers, is as wide as it is.

    `tones` has the colour of each row below the heading, where there is one.
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row, tone in zip_longest(rows, ("", *tones), fillvalue=""):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        click.echo(indent + paint(line, tone, sys.stdout))
