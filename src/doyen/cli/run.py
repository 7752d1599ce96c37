"""`doyen run -- COMMAND`: only while this process leads."""

import shutil
from pathlib import Path
from typing import Any

import click
import msgspec

from doyen.cli.nodeflags import NodeCommand, chosen_node
from doyen.cli.options import DurationText
from doyen.cli.resident import Resident
from doyen.core.clock import Duration
from doyen.errors import ConfigError


@click.command(
    "run",
    cls=NodeCommand,
    help="Run COMMAND only while this process leads its group; DOYEN_TERM has the term's number.",
)
@click.argument("words", metavar="-- COMMAND [ARG…]", nargs=-1, required=True)
@click.option(
    "--grace",
    type=DurationText(as_seconds=False),
    default="10s",
    show_default=True,
    help="From SIGTERM to SIGKILL; never beyond the end of a lease.",
)
@click.option(
    "--wait", type=DurationText(as_seconds=True), default=None, help="Give up if not elected in time (exit 75)."
)
@click.option("--json", "as_json", is_flag=True, help="What happens, as JSON lines on standard error.")
def command(
    words: tuple[str, ...],
    grace: Duration,
    wait: float | None,
    as_json: bool,
    config_file: Path | None,
    **given: Any,
) -> Resident:
    config = chosen_node(config_file, given)
    if shutil.which(words[0]) is None:
        raise ConfigError(f"cannot run {words[0]!r}: there is no such command here, or it may not be executed")
    if config.election == "none":
        raise ConfigError("--election none elects nobody, so nothing would ever run: give one")
    kind = config.election_kind()
    assert kind is not None
    # A leader that hands over by itself would let its successor begin while the command still ends.
    tables = config.tables | {kind.table.name: kind.stay_put(config.table(kind.table))}
    return Resident(
        "run",
        msgspec.structs.replace(config, tables=tables),
        words=words,
        grace=grace,
        wait_s=wait,
        as_json=as_json,
    )
