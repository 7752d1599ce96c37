"""The command tree, and what a command line comes to.  The only module of the entry that needs click."""

import sys
from typing import Any

import click

from doyen.cli import COMMANDS, ELSEWHERE, fail
from doyen.cli.lazy import LazyGroup

app = LazyGroup(
    "doyen",
    "doyen.cli",
    COMMANDS,
    help="A membership list and a leader for any set of processes.",
    elsewhere=ELSEWHERE,
)
app.context_settings = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
click.version_option(package_name="doyen")(app)


def invoke(arguments: list[str] | None) -> Any:
    """Return what the command returned; exit where click has something to say."""
    try:
        return app.main(arguments, prog_name="doyen", standalone_mode=False)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.exceptions.NoArgsIsHelpError as error:  # A command with subcommands, and none was given.
        click.echo(error.format_message(), err=True)
        sys.exit(2)
    except click.UsageError as error:
        fail(_one_line(error), 2)
    except click.ClickException as error:
        fail(error.format_message(), 1)


def _one_line(error: click.UsageError) -> str:
    text = " ".join(error.format_message().split())
    if isinstance(error, click.MissingParameter | click.BadParameter | click.NoSuchOption) or error.ctx is None:
        return text
    return f"{text} (see {error.ctx.command_path} --help)"
