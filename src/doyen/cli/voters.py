"""`doyen voters`: who votes in a quorum election, and how to replace a voter while the group runs."""

import time
from typing import Any, Final

import click
from click.core import ParameterSource

from doyen.cli.local import ask, ask_leader, which_election, which_node
from doyen.cli.output import print_json
from doyen.core.ids import node_id
from doyen.errors import ConfigError, LocalProtocolError, TransportError
from doyen.node.control import find_nodes

ANSWER_S: Final = 1.0  # How long a new voter may take to answer its first heartbeat, to be printed.
PATIENCE_S: Final = 30  # A change takes a few round trips and writes to disks; a slow disk makes it slower.


@click.group(
    "voters",
    invoke_without_command=True,
    help="Show who votes in a quorum election; add, remove or replace one voter at a time, where the leader runs.",
)
@which_node
@which_election
@click.pass_context
def command(context: click.Context, /, **which: Any) -> None:
    if context.invoked_subcommand is None:
        context.invoke(show, **which)
    elif any(context.get_parameter_source(field) is ParameterSource.COMMANDLINE for field in which):
        raise ConfigError(f"give --group, --name, --election and --json after {context.invoked_subcommand}")


@command.command("list", help="Show who votes.  Only the leader's own machine knows how many may still fail.")
@which_node
@which_election
def show(group: str | None = None, name: str | None = None, as_json: bool = False, election: str = "") -> None:
    _print(ask_leader(find_nodes(group, name), "voters", election=election), as_json)


@command.command("add", help="Make NEW a voter: a running node of the group that has never voted.")
@click.argument("new")
@which_node
@which_election
def add(new: str, group: str | None, name: str | None, as_json: bool, election: str) -> None:
    _print(_change(group, name, election, add=new), as_json)


@command.command("remove", help="OLD no longer votes: it follows from then on, and may be ended.")
@click.argument("old")
@which_node
@which_election
def remove(old: str, group: str | None, name: str | None, as_json: bool, election: str) -> None:
    _print(_change(group, name, election, remove=old), as_json)


@command.command("replace", help="Let NEW vote in place of OLD, which may be gone already.")
@click.argument("old")
@click.argument("new")
@which_node
@which_election
def replace(old: str, new: str, group: str | None, name: str | None, as_json: bool, election: str) -> None:
    _print(_change(group, name, election, add=new, remove=old), as_json)


def _change(group: str | None, name: str | None, election: str, **change: str) -> Any:
    """Ask the leader, which must run here."""
    for voter in change.values():
        node_id(voter)
    for path in find_nodes(group, name):
        told = ask(path, "leader", election=election)
        if told["is_me"]:
            after = ask(path, "voters", election=election, timeout_s=PATIENCE_S, **change)
            deadline = time.monotonic() + ANSWER_S
            while after["is_me"] and {*after["voters"]} - {*after["answering"]} and time.monotonic() < deadline:
                time.sleep(0.1)
                after = ask(path, "voters", election=election)
            return after
    if told["leader"] is None:
        raise TransportError("nobody leads, so the voters cannot be changed: doyen explain says why")
    raise LocalProtocolError(
        f"{told['leader']} leads {told['group']}, and only the leader can change the voters: run this where it runs"
        + (f" ({told['address']})" if told["address"] else "")
    )


def _print(told: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(told)
        return
    voters = ", ".join(told["voters"])
    number = f"set {told['number']}" if told["number"] else "as configured"
    click.echo(f"{told['group']}: {voters} vote ({number}, as {told['node']} knows it)")
    if told["earlier"]:
        click.echo(f"  being changed: {', '.join(told['earlier'])} count as well, until that is done")
    if told["answering"] is not None:
        silent = sorted({*told["voters"], *told["earlier"]} - {*told["answering"]})
        click.echo(f"  {in_words(told['may_fail'])}" + (f"; silent: {', '.join(silent)}" if silent else ""))
    if told.get("abstains"):
        click.echo(
            f"  {told['node']} itself does not vote: it has no record of earlier votes (doyen doctor: what to do)"
        )
    if sorted(told["voters"]) != told["configured"]:
        click.echo(f"  --voters says {', '.join(told['configured'])}: change it before each member's next start")


def in_words(may_fail: int) -> str:
    """Return how many voters may fail, in words."""
    if may_fail < 0:
        return "no majority answers"
    return (
        f"{may_fail} more may fail, and a majority is left" if may_fail else "none may fail: no majority would be left"
    )
