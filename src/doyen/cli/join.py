"""`doyen join`: a running node learns where another part of its group is."""

import click

from doyen.cli.local import ask, which_node
from doyen.cli.output import print_json
from doyen.node.control import find_node


@click.command("join", help="Give a node on this machine the ADDRESS (host:port) of another part of its group.")
@click.argument("addresses", metavar="ADDRESS…", nargs=-1, required=True)
@which_node
def command(addresses: tuple[str, ...], group: str | None, name: str | None, as_json: bool) -> None:
    told = ask(find_node(group, name), "join", seeds=list(addresses))
    if as_json:
        print_json(told)
    else:
        click.echo(f"seeds: {', '.join(told['seeds'])}; doyen members shows who answered")
