"""`doyen top`: who leads, what happened, and who sees whom, in a terminal."""

import sys
from typing import Any

import click

from doyen.cli.local import ask_first, which_election
from doyen.errors import ConfigError
from doyen.node.control import ask, find_nodes


@click.command("top", help="Watch who leads, what happened and who sees whom, in this terminal.  Needs doyen[top].")
@click.option("--group", default=None, envvar="DOYEN_GROUP", help="The group; not needed if only one runs here.")
@click.option("--name", default=None, help="The node to ask, where several of the group run here.")
@which_election
def command(group: str | None, name: str | None, election: str) -> None:
    try:
        from doyen.eyes.top import Top
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("textual", "rich"):
            raise
        raise ConfigError("doyen top draws with Textual, which is not installed: pip install 'doyen[top]'") from None
    if not (sys.stdout.isatty() and sys.stderr.isatty()):  # It draws on both.
        raise ConfigError(
            "doyen top needs a terminal: elsewhere doyen watch writes lines, and doyen members --json data"
        )
    # A wrong name ends the command before it takes the terminal.
    path, _ = ask_first(find_nodes(group, name), "leader" if election else "status", election=election)

    def asked(do: str, *, timeout_s: float = 5.0, **fields: Any) -> Any:
        return ask(path, do, timeout_s=timeout_s, **fields)

    Top(asked, election).run()
