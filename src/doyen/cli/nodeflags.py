"""The flags of commands that run a node: `agent`, `run`, `doctor`; one per field of `NodeConfig`."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from doyen.cli.naming import named_by_flag
from doyen.cli.options import how
from doyen.core.config import Option
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

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        file = click.Path(dir_okay=False, path_type=Path)
        about = "A TOML file; DOYEN_… in the environment wins over it, flags over both."
        self.params.append(click.Option(["--config", "config_file"], type=file, envvar="DOYEN_CONFIG", help=about))
        self.params += [_flag(option) for option in node_options(tables(ours=True))]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption:
            self._add_further()
            return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self._add_further()
        sections: dict[str, list[tuple[str, str]]] = {}
        known = tables()
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            table, _, field = (param.name or "").partition("__")
            if record is not None:
                sections.setdefault(table if field else "", []).append(record)
        for table, records in sections.items():
            heading = f"{known[table].about} (the preset sets what is not given)" if table else "Options"
            with formatter.section(heading):
                formatter.write_dl(records)

    def _add_further(self) -> None:
        """Add the flags of protocols that other packages have installed."""
        known = {param.name for param in self.params}
        self.params += [_flag(option) for option in node_options() if _key(option) not in known]


class _KindName(click.Choice):  # type: ignore[type-arg, unused-ignore]
    """The name of an election or a membership: `names(ours)` gives ours alone, or all that are installed."""

    def __init__(self, names: Callable[[bool], list[str]]) -> None:
        super().__init__(names(True))
        self._names = names

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value not in self.choices:
            self._search()
        return super().convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        self._search()
        return super().get_metavar(param, ctx)

    def _search(self) -> None:
        self.choices = tuple(self._names(False))


def chosen_node(config_file: Path | None, given: dict[str, Any]) -> NodeConfig:
    """Return the configuration, from what the flags collected, the environment and the file."""
    for variable, meant in misspelt(os.environ).items():
        click.echo(f"doyen: {variable} means nothing: do you mean {meant}?", err=True)
    said = {tuple(key.split("__")): value for key, value in given.items() if value is not None and value != ()}
    with named_by_flag():
        return configure(said, file=config_file, called=flag_name)


_NAMES: Final[dict[tuple[str, ...], Callable[[bool], list[str]]]] = {
    ("election",): lambda ours: [*(ELECTIONS if ours else election_names()), "none"],
    ("membership",): lambda ours: ["auto", "none", *(MEMBERSHIPS if ours else membership_names())],
}


def _flag(option: Option) -> click.Option:
    flag = flag_name(option)
    settings = how(option)
    if option.name in REPEATED:
        settings |= {"multiple": True, "type": str, "default": ()}
    if option.path in _NAMES:
        settings["type"] = _KindName(_NAMES[option.path])
    if option.type is bool:
        flag = f"{flag}/--no-{flag[2:]}"
    names = [flag, "--score"] if option.name == "standing" else [flag]
    return click.Option([*names, _key(option)], **settings)


def _key(option: Option) -> str:
    return "__".join(option.path)
