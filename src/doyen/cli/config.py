"""`doyen config`: an example of a node's file with every field, and a check of a file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
from msgspec.json import encode
from msgspec.structs import asdict

from doyen.cli.nodeflags import chosen_node
from doyen.cli.output import json_flag, print_json
from doyen.core.clock import Duration, format_duration
from doyen.core.config import Option, is_duration, open_value, secret_fields
from doyen.core.kinds import Network
from doyen.errors import ConfigError
from doyen.node.attachments import check as check_attachments
from doyen.node.config import NodeConfig
from doyen.node.layers import configure, node_options
from doyen.node.registry import tables

_EXAMPLES: Final[dict[str, Any]] = {  # Where the default is empty, and so shows nothing.
    "group": "orders",
    "name": "ant",
    "bind": "0.0.0.0:7600",
    "advertise": "10.0.0.1:7600",
    "seeds": ["10.0.0.2", "10.0.0.3:7600"],
    "state": "/var/lib/doyen",
    "key_file": "/etc/doyen/orders.keys",
    "http": "127.0.0.1:7680",
    "voters": ["ant", "bee", "cat"],
    "meta": ["zone=eu"],
}
_HEAD: Final = """\
# A node's configuration, for --config FILE or DOYEN_CONFIG.  Only the group is needed.
# A line that begins with "#" and a field shows the default, or an example where there is none:
# remove the "#" and change the value.  DOYEN_… variables win over this file, and flags win over both."""


@click.group(
    "config",
    invoke_without_command=True,
    help="A node's configuration file: an example with every field, or a check of a file.",
)
@click.option("--example", is_flag=True, help="Print a file with every field, which can be used as it stands.")
@click.pass_context
def command(ctx: click.Context, example: bool) -> None:
    if example:
        click.echo("\n".join(example_lines()))
    elif ctx.invoked_subcommand is None:
        raise ConfigError("config needs to know what to do: doyen config --example, or doyen config check FILE")


@command.command("check", help="Check FILE, and whatever DOYEN_… variables add to it; print what it comes to.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), envvar="DOYEN_CONFIG")
@json_flag
def check(file: Path, as_json: bool) -> None:
    if not file.is_file():
        raise ConfigError(f"FILE {file} is not there: make one with doyen config --example > {file}")
    config = chosen_node(file, {})
    check_attachments(config)
    if as_json:
        secret = secret_fields(NodeConfig)
        public = [option for option in node_options() if option.path[0] not in secret]
        found = {option.name: open_value(value_of(config, option)) for option in public}
        print_json({"file": str(file), "config": found})
        return
    click.echo(
        f"{file} is right: group {config.group!r}, election {config.election}, "
        f"membership {config.membership_name()}, preset {config.preset}"
    )


def example_lines() -> Iterator[str]:
    """Yield the lines of an example file; a setting that is commented out begins with `#` and no blank."""
    config = configured("lan")
    yield _HEAD
    known, table = tables(ours=True), ""
    for option in node_options(known):
        if len(option.path) > 1 and option.path[0] != table:
            table = option.path[0]
            yield f"\n# {known[table].about}: the preset sets what is not given.\n#[{table}]"
        value = _EXAMPLES.get(option.name)
        value = value_of(config, option) if value is None else value
        yield f"\n# {option.doc}"
        yield f"{'' if option.name == 'group' else '#'}{option.path[-1]} = {encode(value).decode()}"


def configured(preset: Network) -> NodeConfig:
    """Return the configuration of a node that is given nothing but its group and a preset."""
    return configure({("group",): "g", ("preset",): preset}, environment={})


def value_of(config: NodeConfig, option: Option) -> Any:
    """Return an option's value as TOML and JSON write it: a duration as text."""
    holder = config if len(option.path) == 1 else config.tables[option.path[0]]
    value = asdict(holder)[option.path[-1]]
    if is_duration(option.type) and isinstance(value, int):
        return duration_text(value)
    return list(value) if isinstance(value, tuple) else value


def duration_text(duration: Duration) -> str:
    return format_duration(duration) if duration else "0s"
