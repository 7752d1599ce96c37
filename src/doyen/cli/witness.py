"""`doyen witness`: a voter of a quorum that never stands, so that two hosts can have a majority."""

from pathlib import Path
from typing import Final

import click

from doyen.cli.agent import how_to_write, written
from doyen.cli.nodeflags import NodeCommand, chosen_node
from doyen.cli.resident import Resident
from doyen.core.config import Option
from doyen.errors import ConfigError

EXAMPLES = {
    "doyen witness --group orders --name w --voters ant,bee,w --state /var/lib/doyen --seed ant": "on a third host",
    "doyen agent --group orders --name ant --election quorum --voters ant,bee,w …": "on the two",
}
# The fields that a voter has a use for which never leads.
FIELDS: Final = {
    "group": ("group", "name", "voters", "newcomer", "preset", "key_file", "state"),
    "where": ("bind", "advertise", "multicast", "interface", "ttl", "seeds", "seeds_file", "find_local", "link"),
    "asked": ("http", "http_token", "http_open", "control_group"),
}


def is_of_use(option: Option) -> bool:
    """Return whether a witness takes that option: its place, whom it serves, and the timers that all voters share."""
    return option.path[0] == "pole" or any(option.path[0] in fields for fields in FIELDS.values())


@click.command(
    "witness",
    cls=NodeCommand,
    examples=EXAMPLES,
    takes=is_of_use,
    help="Vote in a quorum and never lead: the third voter of two hosts. It keeps a few kilobytes.",
)
@how_to_write
def command(status_every: float, as_json: bool, as_text: bool, config_file: Path | None, **given: object) -> Resident:
    arguments = written(status_every, as_json, as_text)
    config = chosen_node(config_file, given | {"election": "pole", "eligible": False})
    if config.name not in config.voters:
        raise ConfigError(
            f"--name {config.name or '…'} must be one of --voters {','.join(config.voters)}: give a witness a name "
            "of its own, the same at every start, and name it among the voters on every host"
        )
    return Resident("agent", config, **arguments)
