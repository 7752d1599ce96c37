"""What is given to `join`, looked at before it is taken for a configuration."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from doyen.errors import ConfigError
from doyen.node.choices import Choice


def several(field: str, values: Sequence[str]) -> tuple[str, ...]:
    """Not one: the letters of a text would each be taken for a value."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ConfigError(f"must be several: give [{values!r}], not {values!r}", field=field)
    return tuple(values)


def path(field: str, path: str | Path) -> str:
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(f"must be a path, not {path!r}", field=field)
    return os.fspath(path)


def chosen(choice: str | Choice, given: dict[str, Any]) -> str:
    """The protocol's name; what the choice says about it goes to its table."""
    if isinstance(choice, str):
        return choice
    if not isinstance(choice, Choice):
        raise ConfigError(f"{choice!r} is neither a name nor a choice like doyen.Hybrid()")
    table = dict(given.get(choice.table) or {})
    for field, value in choice.fields.items():
        if table.setdefault(field, value) != value:
            raise ConfigError(
                f"{choice!r}: {choice.table}.{field} is {table[field]!r} already, and all elections of a node that "
                "have it share it: say it once"
            )
    given[choice.table] = table
    return choice.kind
