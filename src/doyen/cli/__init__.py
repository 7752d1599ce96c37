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
    "up": "Start a local group to watch: it loses its leader, and elects again.",
    "agent": "Start one process of a group.",
    "witness": "Vote in a quorum and never lead: the third voter of two hosts.",
    "run": "Run a command only while this process leads.",
    "members": "Show who is in the group.",
    "leader": "Show who leads.",
    "watch": "Show what happens in the group, as it happens.",
    "top": "Watch who leads, what happened and who sees whom.",
    "explain": "Explain why this one leads, and what the election promises.",
    "resign": "Make the leader hand over.",
    "voters": "Show who votes in a quorum election, or replace a voter.",
    "steer": "Put the leader of a store where it serves best.",
    "drill": "Rehearse the loss of the leader: predicted, measured, bound.",
    "pass-on": "Hand a few bytes to the next leader.",
    "leave": "Make a node leave its group and end.",
    "join": "Give a running node the address of further members.",
    "doctor": "Find what is wrong here, and what to do about it.",
    "presets": "Show how long a takeover takes at the worst, by network.",
    "config": "Print an example of a configuration file, or check a file.",
    "keys": "Make, list and rotate the keys of a group.",
    "state": "Make, show or retire what a node keeps over restarts.",
    "replay": "Run a recording of a node again, and find what differs.",
    "postmortem": "Lay recordings of several nodes side by side: who acted when, and why.",
    "audit": "Hold recordings of a quorum against the specification of its safety.",
    "sim": "Simulate an election, or a scenario file.",
    "prove": "Prove that a quorum's lease is safe for all drifts and delays.",
    "check": "Explore every order of events in a small group, within a bound.",
    "score": "Compute who would be a good leader: weights, and quality.",
    "analyze": "Evaluate the papers' closed forms.",
    "papers": "Reproduce the papers' tables and figures.",
    "bench": "Measure doyen beside other systems.",
    "lab": "Run real processes under faults, and judge their election.",
    "advise": "Choose timers for your network.",
}
HEADINGS = {"up": "Start", "members": "Ask and steer what runs here", "presets": "Set up", "sim": "Study and prove"}
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
    from doyen.core.plain import plain

    print(f"doyen: {plain(text)}", file=sys.stderr)
    sys.exit(code)
