"""`doyen leader`: who leads, as a node on this machine believes."""

import sys

import click

from doyen.cli.local import (
    UNKNOWN,
    ask_first,
    ask_leader,
    reigned,
    stands,
    which_election,
    which_node,
)
from doyen.cli.output import print_json
from doyen.node.control import find_nodes
from doyen.node.lines import CARE, GOOD, paint


@click.command("leader", help="Show who leads.  Exit code 0: somebody does; 3: nobody does.")
@which_node
@which_election
@click.option("--mine", is_flag=True, help="Exit code 0 only if the leader runs on this machine.")
@click.option("--address", "only_address", is_flag=True, help="Print only where the leader is reached, host:port.")
def command(group: str | None, name: str | None, as_json: bool, election: str, mine: bool, only_address: bool) -> None:
    nodes = find_nodes(group, name)
    if mine:  # Several may run here.
        told = ask_leader(nodes, "leader", election=election, ask_leader=True)
    else:
        _, told = ask_first(nodes, "leader", election=election, ask_leader=True)
    acts, why = stands(told, election)
    if as_json:
        print_json(told | ({"acts": False, "waits_for": why} if why else {}))
    elif told["leader"] is None:
        click.echo(f"nobody leads {told['group']} as far as {told['node']} knows: doyen explain says why", err=True)
    elif only_address:
        if told["address"] is None:
            click.echo(f"{told['leader']} leads {told['group']}, but its address has not come here", err=True)
            sys.exit(3)
        click.echo(told["address"])
    elif why:
        text = f"is named leader, but does not act yet: {why}"
        click.echo(f"{paint(told['leader'], CARE, sys.stdout)} {text} ({told['group']}, term {told['term']})")
    else:
        lasts = f"{told['group']} for {reigned(told.get('since'), told['since_s'])} (term {told['term']})"
        if acts is None:
            click.echo(f"{paint(told['leader'], CARE, sys.stdout)} has been named leader of {lasts}; {UNKNOWN}")
        else:
            alone = f", alone: {told['alone']}" if told.get("alone") else ""
            click.echo(f"{paint(told['leader'], GOOD, sys.stdout)} has led {lasts}{alone}")
    if told["leader"] is None or (mine and not told["is_me"]):
        sys.exit(3)
