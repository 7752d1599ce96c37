"""`doyen leave`: a node ends in order."""

import click

from doyen.cli.local import ask, which_node
from doyen.cli.output import print_json
from doyen.errors import ConfigError
from doyen.node.control import find_nodes


@click.command("leave", help="Make a node on this machine say goodbye to its group and end.")
@which_node
def command(group: str | None, name: str | None, as_json: bool) -> None:
    path, *others = find_nodes(group, name)
    if others:
        raise ConfigError(f"--name is missing: here run {', '.join(found.stem for found in (path, *others))}")
    told = ask(path, "leave")
    if as_json:
        print_json(told)
    else:
        click.echo(f"{told['node']} (pid {told['pid']}) leaves {told['group']}")
