"""The command `doyen`: one file per subcommand, loaded when it is used."""

import sys
from typing import Any

import click

from doyen.cli.lazy import LazyGroup
from doyen.cli.lean import lean
from doyen.errors import ConfigError, DoyenError

# The name of a subcommand, and the one line that `doyen --help` shows for it.
COMMANDS = {
    "up": "A local cluster to play with: elects, loses its leader, elects again.",
    "agent": "One process of a group.",
    "run": "Run a command only while this process leads.",
    "members": "Who is in the group.",
    "leader": "Who leads.",
    "watch": "What happens in the group, as it happens.",
    "explain": "Why this one leads, and what that is worth.",
    "resign": "The leader hands over.",
    "leave": "A node ends in order.",
    "join": "A running node learns of further members.",
    "doctor": "What is wrong here, and what to do about it.",
    "presets": "Timers for kinds of networks, and what they cost in the worst case.",
    "keys": "Keys of a group: make, list, add, use, remove.",
    "state": "What a node keeps over restarts; retire an identity whose promises are lost.",
    "replay": "Run a flight recording again: the same, or where it differs.",
    "sim": "Simulate an election, or a scenario file.",
    "score": "What makes a good leader here, in numbers: weights from experts, quality from attributes.",
    "analyze": "Evaluate the papers' closed forms.",
    "papers": "Reproduce the papers' tables and figures.",
    "bench": "Measure doyen beside its peers.",
    "lab": "Real processes under faults, judged by what their election promises.",
    "advise": "Choose timers for your network.",
}


LEAN = ("agent", "run")  # Processes that stay, one per member.

app = LazyGroup("doyen", __name__, COMMANDS, help="A membership list and a leader for any set of processes.")
app.context_settings = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
click.version_option(package_name="doyen")(app)


def main(arguments: list[str] | None = None) -> None:
    """Exit codes: 0 done; 2 bad input, with one line that names it; 1 anything else."""
    if (sys.argv[1:] if arguments is None else arguments)[:1] in ([name] for name in LEAN):
        lean()
    try:
        result: Any = app.main(arguments, prog_name="doyen", standalone_mode=False)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.UsageError as error:
        _fail(_one_line(error), 2)
    except click.ClickException as error:
        _fail(error.format_message(), 1)
    except ConfigError as error:
        _fail(str(error), 2)
    except DoyenError as error:
        _fail(str(error), 1)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            sys.stderr.close()
            sys.exit(1)
        _fail(f"{error.filename or 'the system'}: {error.strerror or error}", 1)
    except KeyboardInterrupt:
        sys.exit(130)
    else:
        sys.exit(result if isinstance(result, int) else 0)


def _one_line(error: click.UsageError) -> str:
    text = " ".join(error.format_message().split())
    if isinstance(error, click.MissingParameter | click.BadParameter | click.NoSuchOption) or error.ctx is None:
        return text
    return f"{text} (see {error.ctx.command_path} --help)"


def _fail(text: str, code: int) -> None:
    click.echo(f"doyen: {text}", err=True)
    sys.exit(code)
