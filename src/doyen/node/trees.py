"""Structs as the plain tables that give them, and tables laid over tables."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from doyen.core.clock import FOREVER
from doyen.core.config import Option, is_duration, options


def as_tree(config: Struct) -> dict[str, Any]:
    """A Struct as the TOML table that gives it."""
    tree: dict[str, Any] = {}
    for option in options(type(config)):
        value: Any = config
        for part in option.path:
            value = getattr(value, part)
        put(tree, option.path, plain(option, value))
    return tree


def plain(option: Option, value: Any) -> Any:
    if is_duration(option.type) and isinstance(value, int):
        return "inf" if value >= FOREVER else f"{value}ns"
    return list(value) if isinstance(value, tuple) else value


def put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = value


def overlay(under: dict[str, Any], over: Mapping[str, Any]) -> None:
    """What `over` says wins; tables are laid over tables."""
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(under.get(key), dict):
            overlay(under[key], value)
        else:
            under[key] = _copied(value)


def _copied(value: Any) -> Any:
    return {key: _copied(item) for key, item in value.items()} if isinstance(value, Mapping) else value
