"""`doyen state`: what a node keeps over restarts, and what to do when it is damaged."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from doyen.cli.naming import named_by_flag
from doyen.cli.nodeflags import NodeCommand, chosen_node
from doyen.cli.output import json_flag, print_json
from doyen.core.ids import Incarnation, NodeId
from doyen.errors import ConfigError, without_password
from doyen.net.storage import Found, first_records, is_node_directory, lacking, look_at, next_name, retire
from doyen.node.config import NodeConfig
from doyen.node.outside import outside_of
from doyen.node.stack import channel_of

_directory = click.argument(
    "directory", type=click.Path(file_okay=False, path_type=Path), envvar="DOYEN_STATE", metavar="DIRECTORY"
)


@click.group("state", help="The state directory of nodes: make it, look at it, or retire a name whose state is lost.")
def command() -> None: ...


@command.command("show", help="Show what is kept in DIRECTORY: the --state of an agent, or one node's folder of it.")
@_directory
@json_flag
def show(directory: Path, as_json: bool) -> None:
    nodes = {node.name: look_at(node) for node in _nodes(directory)}
    damaged = sum(bool(found.damage) for files in nodes.values() for found in files)
    if as_json:
        print_json({"directory": str(directory), "damaged": damaged, "nodes": nodes})
    else:
        click.echo(f"{directory} · {len(nodes)} node{'s' * (len(nodes) != 1)} · {damaged or 'nothing'} damaged")
        for name, files in nodes.items():
            click.echo(f"{name}{_identity(files)}")
            for found in files:
                if found.file != "identity.state" or found.damage:
                    click.echo(f"  {found.file:<24} {found.damage or found.record}")
    if damaged:
        raise click.exceptions.Exit(1)


@command.command(
    "init",
    cls=NodeCommand,
    examples={"doyen state init --group g --name ant --voters ant,bee,cat --election quorum --state DIR": "once"},
    help="Make the state of a voter that has never voted, or prepare a shared directory; what is there stays.",
)
@click.option(
    "--until",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M"]),
    default=None,
    metavar="TIME",
    help="From then on (UTC, e.g. 2027-01-31) a directory without state counts as lost, and is refused.",
)
@json_flag
def init(until: datetime | None, as_json: bool, config_file: Path | None, **given: Any) -> None:
    config = chosen_node(config_file, given)
    with named_by_flag():
        prepared = _prepare(config)
    kinds = {channel_of(name): kind for name, kind in config.election_kinds().items()}
    records = {channel: record for channel, kind in kinds.items() if (record := kind.first_record()) is not None}
    if prepared is not None and not records:
        shared = without_password(config.shared)
        if as_json:
            print_json({"directory": shared, "group": config.group, "made": prepared})
        else:
            click.echo(f"{shared} · {'prepared' if prepared else 'there already'}: group {config.group!r}")
        return
    if not records or not config.state:
        raise ConfigError("--state keeps nothing here: give a directory, and an election with voters (quorum)")
    if config.name not in config.voters and not (config.name and config.newcomer):
        who = repr(config.name) if config.name else "a process without --name"
        raise ConfigError(
            f"--name: {who} is not one of the voters ({', '.join(config.voters)}): give the name of one, or --newcomer "
            "for one that shall become a voter"
        )
    own = Path(config.state) / config.name
    if until is not None and datetime.now(UTC) >= until.replace(tzinfo=UTC) and lacking(own, records):
        raise ConfigError(
            f"--until {until:%Y-%m-%dT%H:%M} is over, and {own} lacks what {config.name} promised: it counts as lost. "
            f"Start the node under another name, e.g. --name {next_name(config.name)}, and change --voters"
        )
    made = first_records(own, records)
    if as_json:
        print_json({"directory": str(own), "name": config.name, "made": made})
    else:
        done = f"made: {config.name} may vote" if made else f"there already: {config.name} keeps its promises"
        click.echo(f"{own} · {done}")


def _prepare(config: NodeConfig) -> bool | None:
    """Prepare the world of elections that have another half; return whether anything was made, None where none has."""
    made = None
    for name, kind in config.election_kinds().items():
        if kind.other_half is not None:
            outside = outside_of(config, name, kind, NodeId(config.name or "init"), Incarnation(0))
            made = kind.other_half().prepare(outside) or bool(made)
    return made


@command.command("reset", help="Retire the identity of one node: its name must not be used here again.")
@_directory
@click.option("--new-identity", is_flag=True, help="Confirm that this node comes back under another name.")
@json_flag
def reset(directory: Path, new_identity: bool, as_json: bool) -> None:
    nodes = _nodes(directory)
    if len(nodes) != 1 or (nodes[0] != directory and len(nodes) > 1):
        names = ", ".join(node.name for node in nodes)
        raise ConfigError(f"DIRECTORY {directory} holds several nodes ({names}): give the folder of one of them")
    if not new_identity:
        raise ConfigError(
            "--new-identity is missing: who forgets its promises and keeps its name may vote twice, "
            "so it must come back under another name"
        )
    name, aside = retire(nodes[0])
    if as_json:
        print_json({"retired": nodes[0].name, "name": name, "aside": str(aside)})
    else:
        click.echo(f"{nodes[0].name} is retired; its files are in {aside}")
        click.echo(f"start the node under another name, e.g. --name {name}", err=True)


def _nodes(directory: Path) -> list[Path]:
    if not directory.is_dir():
        raise ConfigError(f"DIRECTORY {directory} is not there: give the --state of an agent")
    if is_node_directory(directory):
        return [directory]
    nodes = sorted(node for node in directory.iterdir() if is_node_directory(node))
    if not nodes:
        raise ConfigError(f"DIRECTORY {directory} holds no node's state: give the --state of an agent")
    return nodes


def _identity(files: list[Found]) -> str:
    record: Any = next((found.record for found in files if found.file == "identity.state"), None)
    if not isinstance(record, dict):
        return ""
    return f" · incarnation {record.get('incarnation')}" + (" · retired" if record.get("retired") else "")
