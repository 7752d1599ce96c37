"""`doyen watch`: what happens in a group, as it happens."""

import signal
import sys
from types import FrameType

import click

from doyen.cli.local import UNKNOWN, ask_first, stands, watch, which_node
from doyen.cli.options import DurationText
from doyen.cli.output import print_json
from doyen.node.control import find_nodes
from doyen.node.lines import event_line


@click.command("watch", help="Show what happens in the group, as it happens; with --json one object per line.")
@which_node
@click.option(
    "--for",
    "duration_s",
    type=DurationText(as_seconds=True),
    default=None,
    help="End after this time, e.g. 20s [never].",
)
def command(group: str | None, name: str | None, as_json: bool, duration_s: float | None) -> None:
    path, told = ask_first(find_nodes(group, name), "status", ask_leader=True)
    acts, why = stands(told)
    if as_json:
        print_json({"kind": "watching", **told, **({"acts": False, "waits_for": why} if why else {})})
    else:
        who = f"{told['leader']} leads (term {told['term']})" if told["leader"] else "nobody leads"
        if acts is None:
            who = f"{told['leader']} is named leader (term {told['term']}); {UNKNOWN}"
        if why:
            who = f"{told['leader']} is named leader (term {told['term']}), but does not act yet: {why}"
        click.echo(f"{told['group']} as {told['node']} sees it · {who}")
    sys.stdout.flush()

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if duration_s is not None:
        signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, duration_s)
    try:
        for event in watch(path):
            print_json(event) if as_json else click.echo(event_line(event, sys.stdout))
            sys.stdout.flush()
        click.echo(f"{told['node']} has ended: nothing more to watch", err=True)
    except KeyboardInterrupt:
        return
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
