"""The flags of commands that run a node: `agent`, `run`, `doctor`; one per field of `NodeConfig`."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from doyen.cli.naming import named_by_flag
from doyen.cli.nodehelp import help_all, wants_all, write_all, write_short
from doyen.cli.options import how, key_of
from doyen.core.config import Option, nearest
from doyen.core.kinds import ALIASES
from doyen.node.config import NodeConfig
from doyen.node.layers import configure, misspelt, node_options, variable_name
from doyen.node.registry import ELECTIONS, MEMBERSHIPS, election_names, membership_names, tables

REPEATED: Final = ("seeds", "elections", "meta", "hops", "attributes", "measures")  # Flags that may be given again.


def flag_name(option: Option) -> str:
    """Return the flag of an option: `swim.period` → `--swim-period`; `announce.listen_timeout` → `--listen-timeout`."""
    return "--" + variable_name(option).removeprefix("DOYEN_").lower().replace("_", "-")


class NodeCommand(click.Command):
    """A command with a flag for every field of a node's configuration; `chosen_node` reads them.

    Its help tells apart what people choose from what the preset does.  What other packages have installed is searched
    for only where a flag or a name is none of ours: the search takes longer than everything else.
    """

    def __init__(
        self,
        *arguments: Any,
        examples: Mapping[str, str],
        takes: Callable[[Option], bool] = lambda option: True,  # Which options the command has a use for.
        **named: Any,
    ) -> None:
        super().__init__(*arguments, **named)
        self.examples, self._takes = examples, takes  # Examples: what each command line is for.
        file = click.Path(dir_okay=False, path_type=Path)
        about = "A TOML file; DOYEN_… variables and flags win over it."
        self.params.append(click.Option(["--config", "config_file"], type=file, envvar="DOYEN_CONFIG", help=about))
        self.params.append(help_all())
        self.params += [_flag(option) for option in node_options(tables(ours=True)) if takes(option)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption:
            self._add_further()
            return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self._add_further()
        params = self.get_params(ctx)
        if wants_all(ctx):
            write_all(ctx, formatter, params)
        else:
            write_short(ctx, formatter, params, self.examples)

    def _add_further(self) -> None:
        """Add the flags of protocols that other packages have installed."""
        known = {param.name for param in self.params}
        further = [option for option in node_options() if self._takes(option)]
        self.params += [_flag(option) for option in further if key_of(option) not in known]


class _KindName(click.Choice):  # type: ignore[type-arg, unused-ignore]
    """The name of an election or a membership: `names(ours)` gives ours alone, or all that are installed."""

    def __init__(self, names: Callable[[bool], list[str]]) -> None:
        super().__init__(names(True))
        self._names = names

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value not in self.choices:
            self._search()
        if value not in self.choices and (near := nearest(value, self.choices)):
            self.fail(f"{value!r} is not installed: do you mean {near}?", param, ctx)
        return super().convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        return "NAME"

    def all_choices(self) -> tuple[str, ...]:
        self._search()
        return tuple(self.choices)

    def _search(self) -> None:
        self.choices = tuple(self._names(False))


class _KindFlag(click.Option):
    """A flag whose help lists the names that it takes: beside the flag they would make a line too long to read."""

    type: _KindName

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        return record and (record[0], f"{record[1]} One of {', '.join(self.type.all_choices())}.")


def chosen_node(config_file: Path | None, given: dict[str, Any]) -> NodeConfig:
    """Return the configuration, from what the flags collected, the environment and the file."""
    for variable, meant in misspelt(os.environ).items():
        click.echo(f"doyen: {variable} means nothing: do you mean {meant}?", err=True)
    said = {tuple(key.split("__")): value for key, value in given.items() if value is not None and value != ()}
    with named_by_flag():
        return configure(said, file=config_file, called=flag_name)


_NAMES: Final[dict[tuple[str, ...], Callable[[bool], list[str]]]] = {
    ("election",): lambda ours: [*ALIASES, *(ELECTIONS if ours else election_names()), "none"],
    ("membership",): lambda ours: ["auto", "none", *(MEMBERSHIPS if ours else membership_names())],
}


def _flag(option: Option) -> click.Option:
    flag = flag_name(option)
    settings = how(option)
    if option.name in REPEATED:
        settings |= {"multiple": True, "type": str, "default": ()}
    if option.path in _NAMES:
        return _KindFlag([flag, key_of(option)], **settings | {"type": _KindName(_NAMES[option.path])})
    if option.type is bool:
        flag = f"{flag}/--no-{flag[2:]}"
    names = [flag, "--score"] if option.name == "standing" else [flag]
    return click.Option([*names, key_of(option)], **settings)
