"""`doyen pass-on`: the leader hands something to the next one."""

import os
import sys
from typing import Final

import click

from doyen.cli.local import ask, which_election, which_node
from doyen.cli.output import print_json
from doyen.core.leadership import BATON_MAX
from doyen.errors import ConfigError, LocalProtocolError, TransportError
from doyen.node.control import find_nodes

READ_MAX: Final = 1 << 20
PATIENCE_S: Final = 30  # It takes a round trip and a write to disks; a slow disk makes it slower.


@click.command(
    "pass-on",
    help="Hand TEXT to the next leader of a quorum, where the leader runs; - reads it from standard input.  "
    "Ends with 0 once a majority of the voters has it on its disks.  The next command finds it in DOYEN_BATON.",
)
@click.argument("text")
@click.option("--term", type=int, default=None, envvar="DOYEN_TERM", help="Only in this term [DOYEN_TERM].")
@which_node
@which_election
def command(text: str, term: int | None, group: str | None, name: str | None, as_json: bool, election: str) -> None:
    if text == "-" and sys.stdin is None:
        raise ConfigError("- reads what to hand on from standard input, which is closed")
    baton = sys.stdin.buffer.read(READ_MAX) if text == "-" else os.fsencode(text)
    if len(baton) > BATON_MAX:
        said = f"{len(baton):,}" if len(baton) < READ_MAX else "more than that"
        raise LocalProtocolError(f"a baton has at most {BATON_MAX} bytes, not {said}: hand on where it is kept")
    for path in find_nodes(group, name):
        told = ask(path, "leader", election=election)
        if told["is_me"]:
            after = ask(path, "pass_on", election=election, baton=baton, term=term, timeout_s=PATIENCE_S)
            if as_json:
                print_json(after)
            return
    if told["leader"] is None:
        raise TransportError("nobody leads, so nothing can be handed on: doyen explain says why")
    raise LocalProtocolError(
        f"{told['leader']} leads {told['group']}, and only the leader hands anything on: run this where it runs"
    )
