"""`doyen bench`: measure doyen, and its peers where there are any."""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from importlib import import_module
from typing import Any, TypeVar

import click

T = TypeVar("T")

COMMANDS = {
    "sim": "The simulator beside SimPy: ratios of CPU time.",
    "kill": "A real group on loopback: its leader is killed again and again; how long until the next?",
    "idle": "A real group in network namespaces: what it sends while nothing happens.  Needs root.",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"doyen.cli.bench.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group("bench", cls=_Commands)
def command() -> None:
    """Measure doyen on this machine."""


def run(measurement: Coroutine[Any, Any, T]) -> T:
    """Runs it; SIGTERM, like Ctrl-C, ends it in order, so that no process and no namespace is left behind."""

    async def guarded() -> T:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await measurement

    try:
        return asyncio.run(guarded())
    except asyncio.CancelledError:
        sys.exit(128 + signal.SIGTERM)
