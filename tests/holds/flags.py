"""Every command, and every flag and argument with its type and default, as click's own parameter list has them."""

from collections.abc import Iterator
from typing import Any

import click


def commands(command: click.Command, path: str = "doyen") -> Iterator[tuple[str, click.Command]]:
    """Yield a command and all its subcommands, each with its whole name."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None, f"{path} lists {name}, and has it not"
            yield from commands(found, f"{path} {name}")


def described(parameter: click.Parameter) -> dict[str, Any]:
    """Return what must stay of a flag: its spellings, what it takes, and what it is if not given."""
    kind = parameter.type
    found: dict[str, Any] = {"spelt": [*parameter.opts, *parameter.secondary_opts], "takes": kind.name}
    if isinstance(kind, click.Choice):
        found["choices"] = list(kind.choices)
    default = parameter.to_info_dict()["default"]
    found["default"] = "computed" if callable(default) else default
    for name in ("required", "multiple", "is_flag"):
        if parameter.to_info_dict().get(name):
            found[name] = True
    if parameter.nargs != 1:
        found["nargs"] = parameter.nargs
    return found


def parameters(command: click.Command) -> Iterator[tuple[str, click.Parameter]]:
    """Yield the parameters of a command by their first spelling."""
    for parameter in command.params:
        yield (parameter.opts[0] if isinstance(parameter, click.Option) else f"<{parameter.name}>"), parameter
