"""The command `doyen`: one file per subcommand, loaded when it is used."""

import io
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from doyen.cli.resident import Resident
from doyen.errors import ConfigError, DoyenError

if TYPE_CHECKING:
    from doyen.cli.entry import app as app

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
    "config": "A node's configuration file: an example, or a check.",
    "keys": "Keys of a group: make, list, rotate.",
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
ELSEWHERE = {  # Commands of further packages, by the package to install.
    "analyze": "doyen-papers",
    "papers": "doyen-papers",
    "advise": "doyen-papers",
    "score": "doyen-papers",
    "bench": "doyen-lab",
    "lab": "doyen-lab",
}


def __getattr__(name: str) -> Any:
    if name == "app":
        from doyen.cli.entry import app

        return app
    raise AttributeError(f"module 'doyen.cli' has no attribute {name!r}")


def main(arguments: list[str] | None = None) -> None:
    """Run a command line.  Exit codes: 0 done; 2 bad input, with one line that names it; 1 anything else."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # Not every terminal has a "·".

    def run() -> Any:
        result = _understood(arguments)
        if isinstance(result, Resident):
            if arguments is None:  # This process is the command's own.
                result.become()
            return result.stay()
        return result

    ended(run)


def ended(run: Callable[[], Any]) -> NoReturn:
    """Run a command to its end; say in one line what went wrong."""
    try:
        result = run()
    except ConfigError as error:
        fail(str(error), 2)
    except DoyenError as error:
        fail(str(error), 1)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            sys.stderr.close()
            sys.exit(1)
        fail(f"{error.filename or 'the system'}: {error.strerror or error}", 1)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(result if isinstance(result, int) else 0)


def _understood(arguments: list[str] | None) -> Any:
    from doyen.cli.entry import invoke

    return invoke(arguments)


def fail(text: str, code: int) -> NoReturn:
    print(f"doyen: {text}", file=sys.stderr)
    sys.exit(code)
