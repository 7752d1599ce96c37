"""The flags of commands that run a node: `agent`, `run`; one per field of `NodeConfig`."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from doyen.cli.naming import named_by_flag
from doyen.cli.options import how
from doyen.core.config import Option
from doyen.node.config import NodeConfig
from doyen.node.layers import configure, misspelt, node_options, variable_name
from doyen.node.registry import election_names, membership_names, tables


def flag_name(option: Option) -> str:
    """`swim.period` → `--swim-period`; `announce.listen_timeout` → `--listen-timeout`."""
    return "--" + variable_name(option).removeprefix("DOYEN_").lower().replace("_", "-")


class NodeCommand(click.Command):
    """Its help tells apart what people choose from what the preset does."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
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


def node_flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds them; collected by `chosen_node`."""
    for option in reversed(node_options()):
        _add(option, function)
    return click.option(
        "--config",
        "config_file",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar="DOYEN_CONFIG",
        help="A TOML file; DOYEN_… in the environment wins over it, flags over both.",
    )(function)


def chosen_node(
    config_file: Path | None, given: dict[str, Any], defaults: Mapping[tuple[str, ...], Any] | None = None
) -> NodeConfig:
    """The configuration, from what the flags collected, the environment and the file."""
    for variable, meant in misspelt(os.environ).items():
        click.echo(f"doyen: {variable} means nothing: do you mean {meant}?", err=True)
    paths = {_key(option): option.path for option in node_options()}
    said = {paths[key]: value for key, value in given.items() if value is not None and value != ()}
    with named_by_flag():
        return configure(said, file=config_file, called=flag_name, defaults=defaults or {})


def _add(option: Option, function: Callable[..., Any]) -> None:
    flag = flag_name(option)
    settings = how(option)
    if option.name in ("seeds", "elections", "meta", "hops", "attributes", "measures"):
        settings |= {"multiple": True, "type": str, "default": ()}
    if option.name in _NAMES:
        settings["type"] = click.Choice(_NAMES[option.name]())
    if option.type is bool:
        flag = f"{flag}/--no-{flag[2:]}"
    names = [flag, "--score"] if option.name == "standing" else [flag]
    click.option(*names, _key(option), **settings)(function)


_NAMES: dict[str, Callable[[], list[str]]] = {
    "election": lambda: [*election_names(), "none"],
    "membership": lambda: ["auto", "none", *membership_names()],
}


def _key(option: Option) -> str:
    return "__".join(option.path)
