"""Flags made from a configuration's fields, so that no option is typed twice."""

from collections.abc import Callable
from typing import Any, TypeVar

import click
from msgspec import Struct

from doyen.cli.naming import flag_of, named_by_flag
from doyen.core.clock import FOREVER, format_duration, parse_duration, to_seconds
from doyen.core.config import Option, is_duration, load, options, read_value, shown
from doyen.errors import ConfigError
from doyen.node.layers import overlay

S = TypeVar("S", bound=Struct)
__all__ = ["DurationText", "chosen", "flag_of", "flags", "how", "key_of", "laid_over", "named_by_flag"]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class DurationText(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """Reads `200ms`, `1.5s`, `inf` as nanoseconds, or as seconds for fields that end in `_s`."""

    name = "duration"

    def __init__(self, *, as_seconds: bool) -> None:
        self.as_seconds = as_seconds

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            duration = parse_duration(value)
        except ConfigError as error:
            self.fail(str(error), param, ctx)
        return to_seconds(duration) if self.as_seconds else duration


def flags(kind: type[Struct], *, leave_out: tuple[str, ...] = ()) -> Decorator:
    """Add one flag per field of the Struct; what is not given keeps the Struct's default."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options(kind)):
            if option.name not in leave_out:
                click.option(_spelling(option), key_of(option), **how(option))(function)
        return function

    return decorate


def chosen(kind: type[S], given: dict[str, Any]) -> S:
    """Return the Struct, from what `flags` collected; complaints name the flag."""
    tree, _ = laid_over(kind, given)
    return load(kind, tree, "", flags={option.path: flag_of(option) for option in options(kind)})


def laid_over(
    kind: type[Struct], given: dict[str, Any], data: Any = None, where: str = ""
) -> tuple[dict[str, Any], dict[tuple[str, ...], str]]:
    """Return a file's tables with the flags laid over them, and by path the flag that a value came from."""
    if not isinstance(data, dict | None):
        raise ConfigError(f"{where} must be a table, not {shown(data)}")
    tree: dict[str, Any] = {}
    overlay(tree, data or {})
    by_flag = {}
    for option in options(kind):
        value = given.get(key_of(option))
        if value is None:
            continue
        table = tree
        for depth, part in enumerate(option.path[:-1], start=1):
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise ConfigError(f"{where}: [{'.'.join(option.path[:depth])}] must be a table, not {shown(table)}")
        if is_duration(option.type):
            value = "inf" if value >= FOREVER else f"{value}ns"
        table[option.path[-1]] = value
        by_flag[option.path] = flag_of(option)
    return tree, by_flag


def _spelling(option: Option) -> str:
    flag = flag_of(option)
    return f"{flag}/--no-{flag[2:]}" if option.type is bool else flag


def key_of(option: Option) -> str:
    return "__".join(option.path)


def how(option: Option) -> dict[str, Any]:
    in_seconds = option.path[-1].endswith("_s")
    how: dict[str, Any] = {"default": None, "help": _help(option, in_seconds)}
    if in_seconds or is_duration(option.type):
        how["type"] = DurationText(as_seconds=in_seconds)
    elif option.choices:
        how["type"] = click.Choice(option.choices)
    elif option.type is bool:
        how["is_flag"] = True
    elif option.type in (int, float, str):
        how["type"] = option.type
    else:
        how["type"] = _Parsed(option)
    return how


class _Parsed(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    name = "value"

    def __init__(self, option: Option) -> None:
        self.option = option

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return read_value(self.option.type, value, shown(value), text=True)
        except ConfigError as error:
            self.fail(str(error), param, ctx)


def _help(option: Option, in_seconds: bool) -> str:
    default = option.default
    if in_seconds and isinstance(default, float | int):
        shown = "inf" if default == float("inf") else f"{default:g}s"
    elif is_duration(option.type):
        shown = format_duration(default) if default else "0s"
    elif isinstance(default, tuple):
        shown = ", ".join(map(str, default)) or "none"
    else:
        shown = str(default).lower() if isinstance(default, bool) else str(default)
    default = f"[{shown}]" if shown else ""  # What is empty unless it is given needs no word.
    return " ".join(filter(None, (option.doc, default)))
