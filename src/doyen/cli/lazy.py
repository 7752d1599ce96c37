"""A command group whose subcommands are imported when they are used."""

from importlib import import_module

import click

from doyen.core.config import nearest


class LazyGroup(click.Group):
    """Subcommand NAME is `command` of module `PACKAGE.NAME`; its one-line help is known without importing it."""

    def __init__(self, name: str, package: str, commands: dict[str, str], help: str) -> None:
        super().__init__(name, help=help)
        self.package, self.lines = package, commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lines:
            near = None if ctx.resilient_parsing else nearest(cmd_name, self.lines)
            if near:
                ctx.fail(f"No such command {cmd_name!r}: do you mean {near}?")
            return None
        command: click.Command = import_module(f"{self.package}.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.lines.items()))
