"""`doyen explain`: why this one leads, and what that is worth."""

import click

from doyen.cli.local import UNKNOWN, ask_first, stands, which_election, which_node
from doyen.cli.output import print_json
from doyen.node.control import find_nodes
from doyen.node.reign import clock_text


@click.command("explain", help="Explain why this one leads, and what the election promises.")
@which_node
@which_election
@click.option("--history", is_flag=True, help="Show what this node has seen of earlier terms, too.")
def command(group: str | None, name: str | None, as_json: bool, election: str, history: bool) -> None:
    _, told = ask_first(find_nodes(group, name), "explain", election=election, ask_leader=True)
    acts, why = stands(told, election)
    if told["leader"] not in (None, told["node"]) and not acts:  # A node knows that of itself alone.
        which = f'"{told["group"]}"' + (f" / {election}" if election else "")
        rest = f"does not act yet: {why}" if why else UNKNOWN
        said = f"{told['leader']} is named leader of {which} (term {told['term']}), and {rest}."
        told = told | {"sentence": said}
    if as_json:
        print_json(told)
        return
    click.echo(told["sentence"])
    for what, text in told["lines"]:
        click.echo(f"  {what:10}  {text}")
    if history:
        click.echo("  history")
        for entry in told["history"]:
            click.echo(f"    {clock_text(entry['at'])}  {entry['text']}")
