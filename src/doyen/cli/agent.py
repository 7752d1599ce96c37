"""`doyen agent`: one process of a group, which reports what it sees."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from doyen.cli.nodeflags import NodeCommand, chosen_node
from doyen.cli.resident import Resident
from doyen.errors import ConfigError

EXAMPLES = {
    "doyen agent --group orders": "three terminals, one leader",
    "doyen agent --group orders --seed host-a": "across hosts",
}


def how_to_write(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags that say how a process writes what it sees."""
    every = "Seconds between JSON status lines."
    for option in (
        click.option("--text", "as_text", is_flag=True, help="Write lines for people, also into a pipe."),
        click.option("--json", "as_json", is_flag=True, help="Write JSON lines, also on a terminal."),
        click.option("--status-every", type=float, default=1.0, show_default=True, help=every),
    ):
        command = option(command)
    return command


def written(status_every: float, as_json: bool, as_text: bool) -> dict[str, Any]:
    """Return what the flags of `how_to_write` came to, as the process takes it."""
    if as_json and as_text:
        raise ConfigError("--json and --text exclude each other: give one")
    if not 0.01 <= status_every < 1e9:
        raise ConfigError(f"--status-every {status_every} is out of range: give seconds from 0.01 on")
    return {"status_every": status_every, "as_json": as_json or not (as_text or sys.stdout.isatty())}


@click.command(
    "agent",
    cls=NodeCommand,
    examples=EXAMPLES,
    help="Run one process of a group, which reports what it sees until SIGTERM.",
)
@how_to_write
def command(status_every: float, as_json: bool, as_text: bool, config_file: Path | None, **given: object) -> Resident:
    arguments = written(status_every, as_json, as_text)
    return Resident("agent", chosen_node(config_file, given), **arguments)
