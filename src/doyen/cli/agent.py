"""`doyen agent`: one process of a group, telling what it sees as JSON lines."""

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
@click.option("--status-every", type=float, default=1.0, show_default=True, help="Seconds between status lines.")
@click.option("--json", is_flag=True, expose_value=False, help="JSON lines, as without it.")
def command(status_every: float, config_file: Path | None, **given: object) -> Resident:
    if not 0.01 <= status_every < 1e9:
        raise ConfigError(f"--status-every {status_every} is out of range: give seconds from 0.01 on")
    return Resident("agent", chosen_node(config_file, given), status_every=status_every)
