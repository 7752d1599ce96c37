"""Configuration from text: one frozen `Struct` is the schema of a TOML table and of a set of flags alike.

A field's type says how it is read (`Duration` as `200ms`), its `#:` comment is its help.  Whatever is wrong is
said with the name of the field, and what would be right.
"""

import inspect
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Struct

from doyen.core.clock import parse_duration
from doyen.errors import ConfigError

S = TypeVar("S", bound=Struct)


class Option(Struct, frozen=True):
    """One leaf of a configuration: `network.loss.prob`."""

    path: tuple[str, ...]
    type: Any
    default: Any
    doc: str

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def choices(self) -> tuple[str, ...]:
        return choices(self.type)


def options(kind: type[Struct], prefix: tuple[str, ...] = ()) -> list[Option]:
    """Every leaf, in order; tables within tables are walked."""
    found: list[Option] = []
    hints, docs = _hints(kind), field_docs(kind)
    for field in msgspec.structs.fields(kind):
        path, hint = (*prefix, field.name), hints[field.name]
        if is_table(hint):
            found += options(hint, path)
        else:
            default = field.default if field.default is not msgspec.NODEFAULT else None
            found.append(Option(path, hint, default, docs.get(field.name, "")))
    return found


def load(kind: type[S], data: Any, where: str, path: tuple[str, ...] = ()) -> S:
    """A Struct from plain values, e.g. a parsed TOML file; `where` is how errors call it."""
    spot = f"{where}: [{'.'.join(path)}]" if path else where
    if not isinstance(data, Mapping):
        raise ConfigError(f"{spot} must be a table, not {data!r}")
    hints = _hints(kind)
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key not in hints:
            raise ConfigError(f"{spot} has no field {key!r}: one of {', '.join(hints)}")
        if is_table(hints[key]):
            values[key] = load(hints[key], value, where, (*path, key))
        else:
            values[key] = read_value(hints[key], value, f"{spot} {key} = {value!r}")
    try:
        return kind(**values)
    except ConfigError as error:
        raise ConfigError(f"{spot} {error}") from None
    except TypeError as error:  # A field without a default is missing.
        raise ConfigError(f"{spot}: {error}") from None


def read_value(hint: Any, value: Any, what: str) -> Any:
    """One leaf, from TOML or from a flag's text."""
    if is_duration(hint):
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise ConfigError(f"{what}: give a duration, e.g. '200ms'")
        try:
            return parse_duration(value)
        except ConfigError as error:
            raise ConfigError(f"{what}: {error}") from None
    named = choices(hint)
    if named and value not in named:
        raise ConfigError(f"{what}: one of {', '.join(named)}")
    item = _table_item(hint)
    if item is not None and isinstance(value, list):
        return tuple(load(item, entry, f"{what.split(' = ')[0]}[{i}]") for i, entry in enumerate(value))
    try:
        return msgspec.convert(value, hint, strict=not isinstance(value, str))
    except msgspec.ValidationError as error:
        raise ConfigError(f"{what}: {str(error)[0].lower()}{str(error)[1:]}") from None


def is_table(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Struct)


def is_duration(hint: Any) -> bool:
    return any((getattr(extra, "extra", None) or {}).get("unit") == "duration" for extra in get_args(hint)[1:])


def choices(hint: Any) -> tuple[str, ...]:
    return get_args(hint) if getattr(hint, "__origin__", None).__class__ and "Literal" in str(hint)[:16] else ()


def _table_item(hint: Any) -> Any:
    """X of `tuple[X, ...]` where X is a table."""
    arguments = get_args(hint)
    return arguments[0] if len(arguments) == 2 and arguments[1] is Ellipsis and is_table(arguments[0]) else None


@cache
def _hints(kind: type[Struct]) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in msgspec.structs.fields(kind)}


@cache
def field_docs(kind: type[Struct]) -> dict[str, str]:
    """The `#:` comments beside the fields."""
    try:
        source = inspect.getsource(kind)
    except OSError:
        return {}
    return {found[1]: found[2].strip() for found in re.finditer(r"^    (\w+): .*?#: (.*)$", source, re.MULTILINE)}
