"""`doyen agent`: one process of a group, which reports what it sees."""

import sys
from pathlib import Path

import click

from doyen.cli.nodeflags import NodeCommand, chosen_node
from doyen.cli.resident import Resident
from doyen.errors import ConfigError

EXAMPLES = {
    "doyen agent --group orders": "three terminals, one leader",
    "doyen agent --group orders --seed host-a": "across hosts",
}


@click.command(
    "agent",
    cls=NodeCommand,
    examples=EXAMPLES,
    help="Run one process of a group, which reports what it sees until SIGTERM.",
)
@click.option("--status-every", type=float, default=1.0, show_default=True, help="Seconds between JSON status lines.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON lines, also on a terminal.")
@click.option("--text", "as_text", is_flag=True, help="Write lines for people, also into a pipe.")
def command(status_every: float, as_json: bool, as_text: bool, config_file: Path | None, **given: object) -> Resident:
    if as_json and as_text:
        raise ConfigError("--json and --text exclude each other: give one")
    if not 0.01 <= status_every < 1e9:
        raise ConfigError(f"--status-every {status_every} is out of range: give seconds from 0.01 on")
    as_json = as_json or not (as_text or sys.stdout.isatty())
    return Resident("agent", chosen_node(config_file, given), status_every=status_every, as_json=as_json)
