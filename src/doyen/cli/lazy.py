"""A command group whose subcommands are imported when they are used."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

import click

from doyen.core.config import nearest
from doyen.errors import ConfigError

ENTRY_POINTS: Final = "doyen.commands"  # `papers`, or `sim.announce` for a subcommand of a group.


class LazyGroup(click.Group):
    """Subcommand NAME is `command` of module `PACKAGE.NAME`, or what an entry point called NAME says.

    A hyphen is an underscore in the module's name.  `commands` gives the one-line help of each, known without importing
    it; `elsewhere` names the package that brings one which is not in this wheel, and `headings` the first command of
    each section of the help.  Further packages may add commands of their own.
    """

    def __init__(
        self,
        name: str,
        package: str,
        commands: dict[str, str],
        help: str,
        *,
        elsewhere: Mapping[str, str] = MappingProxyType({}),
        headings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(name, help=help)
        self.package, self.lines, self.elsewhere, self.headings = package, commands, elsewhere, headings
        self._prefix = "" if name == "doyen" else f"{name}."

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.lines, *self._further()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.lines and cmd_name not in self.elsewhere:
            command: click.Command = import_module(f"{self.package}.{cmd_name.replace('-', '_')}").command
            return command
        if cmd_name in self.elsewhere or cmd_name in self._further():
            return self._from_elsewhere(cmd_name)
        near = None if ctx.resilient_parsing else nearest(cmd_name, self.lines)
        if near:
            ctx.fail(f"No such command {cmd_name!r}: do you mean {near}?")
        return None

    def _from_elsewhere(self, name: str) -> click.Command:
        from importlib.metadata import entry_points  # A node's process has no use for it.

        for found in entry_points(group=ENTRY_POINTS, name=self._prefix + name):
            command: click.Command = found.load()
            return command
        path = "doyen " + (self._prefix + name).replace(".", " ")
        package = self.elsewhere[name]
        raise ConfigError(f"{path} is in the package {package}: pip install {package}")

    def _further(self) -> list[str]:
        """Return the names of commands that no table here knows, from packages of others."""
        from importlib.metadata import entry_points

        found = (point.name for point in entry_points(group=ENTRY_POINTS))
        names = (name.removeprefix(self._prefix) for name in found if name.startswith(self._prefix))
        return sorted({name for name in names if "." not in name} - {*self.lines})

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        heading, width = "Commands", max(map(len, self.lines))
        for name, line in (*self.lines.items(), *((name, "") for name in self._further())):
            heading = self.headings.get(name, heading)
            sections.setdefault(heading, []).append((name.ljust(width), line))
        for heading, lines in sections.items():
            with formatter.section(heading):
                formatter.write_dl(lines)
