"""`doyen sim`: ask the simulator."""

from importlib import import_module

import click

COMMANDS = {
    "announce": "Announce-listen elections: LE-A, LE-S, LE-M and their baselines.  [LE Ch. 5]",
    "run": "Run a scenario file (TOML), or the same given by flags.",
    "replay": "Run one seed again, from the line that a failure printed.",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"doyen.cli.sim.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group("sim", cls=_Commands)
def command() -> None:
    """Simulate an election, or a scenario file: same seed, same run, to the last byte of its trace."""
