"""The help of commands that run a node: what most people need on one screen, and everything by `--help-all`."""

from collections.abc import Mapping, Sequence
from typing import Final

import click

from doyen.node.config import NodeConfig
from doyen.node.registry import tables

# The options that most people need, each with what it takes and why one gives it: `--help` shows these and the
# command's own, on one screen.
SHORT: Final = {
    "The group": {
        "group": ("NAME", "The group, the same on every member; always needed."),
        "name": ("NAME", "This process's name [host name and process id]."),
        "election": ("KIND", "gossip, fast, quorum, or another kind [gossip]."),
        "preset": ("NETWORK", "Timers for local, lan, wan or iot [lan]."),
    },
    "The other members": {
        "seeds": ("HOST[:PORT]", "One other member is enough; none on one machine."),
        "expect": ("COUNT", "Do not act before this many answer at the same time."),
        "bind": ("HOST:PORT", "Where to listen; across hosts by default port 7600."),
    },
    "Who leads, and safety": {
        "standing": ("NUMBER", "The process with the greatest score leads [0]."),
        "voters": ("NAMES", "quorum: the names of all voters, e.g. ant,bee,cat."),
        "key_file": ("FILE", "Seal packets with the group's keys (doyen keys new)."),
        "state": ("DIR", "What must survive restarts; quorum needs it."),
        "http": ("HOST:PORT", "Serve /leader, /members, /health, /events, /metrics."),
    },
}
_ALL: Final = "doyen.all_options"  # In a context's meta: `--help-all` was given.


def help_all() -> click.Option:
    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_all,
        help="Show all options and exit.",
    )


def _show_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help())
        ctx.exit()


def wants_all(ctx: click.Context) -> bool:
    return _ALL in ctx.meta


def write_all(ctx: click.Context, formatter: click.HelpFormatter, params: Sequence[click.Parameter]) -> None:
    """Write every option; those that the preset sets come by table, after the others."""
    known = tables()
    sections: dict[str, list[tuple[str, str]]] = {}
    for param in params:
        record = param.get_help_record(ctx)
        table, _, field = (param.name or "").partition("__")
        if record is not None:
            sections.setdefault(table if field else "", []).append(record)
    for table, records in sections.items():
        heading = f"{known[table].about} (the preset sets what is not given)" if table else "Options"
        with formatter.section(heading):
            formatter.write_dl(records)


def write_short(
    ctx: click.Context, formatter: click.HelpFormatter, params: Sequence[click.Parameter], examples: Mapping[str, str]
) -> None:
    """Write the options of `SHORT`, the first sentence of those that only this command has, and examples."""
    flags = {param.name: param.opts[-1] for param in params}
    sections = {
        heading: [(f"{flags[name]} {takes}", why) for name, (takes, why) in options.items() if name in flags]
        for heading, options in SHORT.items()
    }
    own = [param for param in params if isinstance(param, click.Option) and not _is_field(str(param.name))]
    records = [record for param in own if (record := param.get_help_record(ctx)) is not None]
    sections["This command"] = [(what, why.split(". ")[0].rstrip(".") + ".") for what, why in records]
    width = max(len(what) for records in sections.values() for what, _ in records)
    for heading, records in sections.items():
        with formatter.section(heading):
            formatter.write_dl([(what.ljust(width), why) for what, why in records])
    with formatter.section("Examples"):
        width = max(map(len, examples))
        for line, purpose in examples.items():
            formatter.write(f"  {line.ljust(width)}  {purpose}\n")


def _is_field(name: str) -> bool:
    """Return whether an option of that name is a field of a node's configuration."""
    return "__" in name or name in NodeConfig.__struct_fields__
