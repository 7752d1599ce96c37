"""Checks the arguments of `join` before they become a configuration."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from doyen.core.kinds import Choice
from doyen.errors import ConfigError
from doyen.node.config import OracleKind, RankKind
from doyen.node.registry import find_election, find_membership


class NodeFields(TypedDict, total=False):
    """The fields of a node's configuration that `join` takes by name besides its own arguments."""

    group_size: int
    ttl: int
    find_local: bool
    alone_after: str | float
    expect: int
    seeds_file: str
    http: str
    http_token: str
    http_open: bool
    record: str
    record_max: int
    control_group: str
    link: bool
    rank: RankKind
    standing: float
    hops: Sequence[str]
    oracle: OracleKind
    attributes: Sequence[str]
    measures: Sequence[str]
    request_rate: float
    volatile: bool
    shared: str
    links_each_side: int
    announce: Mapping[str, Any]
    swim: Mapping[str, Any]
    medley: Mapping[str, Any]
    heartbeat: Mapping[str, Any]
    ctolerant: Mapping[str, Any]
    spanning: Mapping[str, Any]
    pole: Mapping[str, Any]
    directory: Mapping[str, Any]
    engine: Mapping[str, Any]
    ring: Mapping[str, Any]


def several(field: str, values: Sequence[str]) -> tuple[str, ...]:
    """Refuse one text where several are wanted: its letters would each be taken for a value."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ConfigError(f"must be several: give [{values!r}], not {values!r}", field=field)
    return tuple(values)


def path(field: str, path: str | Path) -> str:
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(f"must be a path, not {path!r}", field=field)
    return os.fspath(path)


def chosen(field: str, choice: str | Choice, given: dict[str, Any]) -> str:
    """Return the protocol's name; what the choice says about it goes to its table."""
    if isinstance(choice, str):
        return choice
    if not isinstance(choice, Choice):
        raise ConfigError(f"{choice!r} is neither a name nor a choice like doyen.Hybrid()")
    kind = find_membership(choice.kind) if field == "membership" else find_election(choice.kind)
    name = kind.table.name
    table = dict(given.get(name) or {})
    for part, value in choice.given().items():
        if part in choice.on_node:
            if given.setdefault(choice.on_node[part], value) != value:
                raise ConfigError(f"{choice!r}: {choice.on_node[part]} is another already: say it once")
            continue
        if table.setdefault(part, value) != value:
            raise ConfigError(
                f"{choice!r}: {name}.{part} is {table[part]!r} already, and all elections of a node that "
                "have it share it: say it once"
            )
    given[name] = table
    return choice.kind
