"""`doyen leader`: who leads, as a node on this machine believes."""

import sys

import click

from doyen.api.control import ask, find_node
from doyen.cli.local import ago, which_election, which_node
from doyen.cli.output import print_json


@click.command("leader", help="Who leads.  Exit code 0 if somebody does, 3 if nobody does.")
@which_node
@which_election
@click.option("--mine", is_flag=True, help="Exit code 0 only if the leader is a node of this machine that was asked.")
def command(group: str | None, name: str | None, as_json: bool, election: str, mine: bool) -> None:
    told = ask(find_node(group, name), "leader", election=election)
    if as_json:
        print_json(told)
    elif told["leader"] is None:
        click.echo(f"nobody leads {told['group']} as far as {told['node']} knows: doyen explain says why", err=True)
    else:
        click.echo(f"{told['leader']} leads {told['group']} since {ago(told['since_s'])} (term {told['term']})")
    if told["leader"] is None or (mine and not told["is_me"]):
        sys.exit(3)
