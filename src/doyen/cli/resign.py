"""`doyen resign`: the leader hands over."""

import time
from typing import Any, Final

import click

from doyen.cli.local import ask, which_election, which_node
from doyen.cli.options import DurationText
from doyen.cli.output import print_json
from doyen.errors import DoyenError, LocalProtocolError, TransportError
from doyen.node.control import find_nodes

NEXT_S: Final = 2.0  # How long the command waits for the next leader, to print it.


@click.command("resign", help="Make the leader hand over, if it runs here.")
@which_node
@which_election
@click.option("--to", default=None, help="The member to hand over to [the best of the others].")
@click.option(
    "--cooldown",
    type=DurationText(as_seconds=True),
    default="30s",
    show_default=True,
    help="How long it does not stand for election again.",
)
def command(group: str | None, name: str | None, as_json: bool, election: str, to: str | None, cooldown: float) -> None:
    for path in find_nodes(group, name):
        told = ask(path, "leader", election=election)
        if told["is_me"]:
            after = ask(path, "resign", election=election, to=to, cooldown=cooldown, timeout_s=60)
            deadline = time.monotonic() + NEXT_S
            while after["leader"] is None and time.monotonic() < deadline:
                time.sleep(0.02)
                try:
                    after |= ask(path, "leader", election=election)
                except TransportError:
                    break  # It has ended meanwhile; it resigned all the same.
            if as_json:
                print_json(after)
            else:
                now = f"{after['leader']} leads" if after["leader"] else "nobody leads yet"
                click.echo(f"{told['node']} resigned (term {told['term']}); {now}")
            return
    raise _refusal(told, name, election)


def _refusal(told: dict[str, Any], name: str | None, election: str) -> DoyenError:
    """Return why nobody who was asked can resign, and who can be asked instead."""
    leader, group = told["leader"], told["group"]
    if leader is None:
        return TransportError("nobody leads, so nobody can resign: doyen explain says why")
    again = f"doyen resign --group {group}" + (f" --election {election}" if election else "")
    here = find_nodes(group, None) if name else []
    if any(ask(path, "leader", election=election)["is_me"] for path in here):
        return LocalProtocolError(f"{name} does not lead {group}, {leader} does: {again} --name {leader}")
    return LocalProtocolError(f"{leader} leads {group}, and it does not run here: on its machine, {again}")
