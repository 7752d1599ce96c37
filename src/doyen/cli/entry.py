"""The command tree, and what a command line comes to.  The only module of the entry that needs click."""

import re
import sys
from typing import Any, Final

import click

from doyen.cli import COMMANDS, ELSEWHERE, HEADINGS, fail
from doyen.cli.lazy import LazyGroup
from doyen.core.config import nearest

_PLAIN: Final = {  # click's words, and ours.
    r"is not a valid (float|number)( range)?": "is not a number",
    r"is not a valid integer( range)?": "is not a whole number",
    r"is not in the range (\S+)<=x<=(\S+)": r"is out of range: give \1 to \2",
    r"is not in the range x>=(\S+)": r"is out of range: give \1 or more",
}

app = LazyGroup(
    "doyen",
    "doyen.cli",
    COMMANDS,
    help="One leader among many processes, and a list of the members.  Begin with: doyen up",
    elsewhere=ELSEWHERE,
    headings=HEADINGS,
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
    """Return what is wrong in one line that names the flag first, as all our complaints do."""
    see = f" (see {error.ctx.command_path} --help)" if error.ctx is not None else ""
    match error:
        case click.NoSuchOption():
            near = nearest(error.option_name, error.possibilities or ())
            return f"there is no option {error.option_name}" + (f": do you mean {near}?" if near else see)
        case click.BadOptionUsage() if "requires" in error.message:
            return f"{error.option_name} needs a value{see}"
        case click.MissingParameter():
            return f"{_name(error)} is missing{see}"
        case click.BadParameter():
            return f"{_name(error)} {_complaint(error)}"
    return " ".join(error.format_message().split()).removesuffix(".") + see


def _name(error: click.BadParameter) -> str:
    """Return the flag, or what an argument is called."""
    if error.param is None:
        return str(error.param_hint or "")
    return error.param.opts[-1] if isinstance(error.param, click.Option) else error.param.human_readable_name


def _complaint(error: click.BadParameter) -> str:
    text = " ".join(error.message.split()).removesuffix(".")
    chosen = re.fullmatch(r"'(.*)' is not one of (.*)", text)
    if chosen is not None:
        names = [name.strip("' ") for name in chosen[2].split(",")]
        near = nearest(chosen[1], names, 0.6)
        return f"{chosen[1]!r}: {f'do you mean {near}? ' if near else ''}One of {', '.join(names)}"
    for theirs, ours in _PLAIN.items():
        text = re.sub(theirs, ours, text)
    return text
