"""`doyen explain`: why this one leads, and what that is worth."""

import click

from doyen.cli.local import ask_first, waits_for, which_election, which_node
from doyen.cli.output import print_json
from doyen.node.control import find_nodes
from doyen.node.reign import clock_text


@click.command("explain", help="Explain why this one leads, and what the election promises.")
@which_node
@which_election
@click.option("--history", is_flag=True, help="Show what this node has seen of earlier terms, too.")
def command(group: str | None, name: str | None, as_json: bool, election: str, history: bool) -> None:
    _, told = ask_first(find_nodes(group, name), "explain", election=election)
    own = told["leader"] in (None, told["node"])
    why = "" if own else waits_for(told, election)  # A node knows that of itself alone.
    if why:
        which = f'"{told["group"]}"' + (f" / {election}" if election else "")
        said = f"{told['leader']} is named leader of {which} (term {told['term']}), and does not act yet: {why}."
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
