"""`manage.py onleader COMMAND…`: this process becomes `doyen run`, which runs the command while it leads."""

import os
import sys
from argparse import REMAINDER
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.module_loading import import_string

from doyen.node.layers import node_options, variable_name

CALL = "--call"  # The flag by which the process that `doyen run` starts gets the function.


class Command(BaseCommand):
    help = "Run another management command, or a function, only while this process leads its group."
    requires_system_checks: list[str] = []  # The command that it runs has its own.

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--group", help="The group's name; by default settings.DOYEN['group'].")
        parser.add_argument("--seed", action="append", default=[], help="Another member's host:port; may be repeated.")
        parser.add_argument("--function", metavar="MODULE:NAME", help="Call this function instead of a command.")
        parser.add_argument("--grace", help="From SIGTERM to SIGKILL when leadership is lost; 10s by default.")
        parser.add_argument(
            "--once", metavar="KEY", help="Once for this KEY, a date say, on all hosts together; see doyen run --help."
        )
        parser.add_argument(CALL, metavar="MODULE:NAME", help="Call this function here and now, leader or not.")
        parser.add_argument("words", nargs=REMAINDER, metavar="COMMAND", help="A management command and its arguments.")

    def handle(self, *, words: list[str], function: str | None, call: str | None, **given: Any) -> None:
        if call is not None:
            import_string(call.replace(":", "."))()
            return
        if (function is None) == (not words):
            raise CommandError("give a management command, or --function MODULE:NAME")
        acts = words if function is None else ["onleader", CALL, function]
        runs = [sys.executable, sys.argv[0], *acts]
        flags = [word for flag in ("grace", "once") if given[flag] for word in (f"--{flag}", given[flag])]
        configured = settings.DOYEN if settings.is_overridden("DOYEN") else {}
        environment = variables(configured) | os.environ  # The environment wins over the settings.
        if given["group"]:
            environment["DOYEN_GROUP"] = given["group"]
        if given["seed"]:
            environment["DOYEN_SEED"] = ",".join(given["seed"])
        if "DOYEN_GROUP" not in environment and "DOYEN_CONFIG" not in environment:
            raise CommandError("the group's name is missing: give --group, or settings.DOYEN = {'group': 'reports'}")
        self.stdout.flush()
        os.execve(sys.executable, [sys.executable, "-m", "doyen", "run", *flags, "--", *runs], environment)


def variables(given: Mapping[str, Any]) -> dict[str, str]:
    """Return settings.DOYEN as variables of the environment; raise `CommandError` for a field that there is not."""
    known = {option.name: variable_name(option) for option in node_options()}
    found = {}
    for field, value in given.items():
        if field not in known:
            near = get_close_matches(field, known, 1)
            raise CommandError(f"settings.DOYEN: no field {field!r}" + (f": do you mean {near[0]!r}?" if near else ""))
        several = not isinstance(value, str | bool | int | float)
        found[known[field]] = ",".join(map(str, value)) if several else str(value)
    return found
