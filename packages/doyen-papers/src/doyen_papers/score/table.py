"""A table of nodes and their attributes: read from files, and rated.  [MADM §6.2.2]"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from doyen.core.config import load, shown
from doyen.core.order import order
from doyen.errors import ConfigError
from doyen.score.topsis import Attribute, Quality, checked, quality
from doyen_papers.score.files import number, rows_of


class Rated(Struct, frozen=True, kw_only=True):
    """A table of nodes, rated."""

    quality: dict[str, Quality]
    leader: str  # The greatest quality; among equals the lowest name.


class _Attributes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    attribute: tuple[Attribute, ...]  #: one [[attribute]] each


def rate(table: Mapping[str, Mapping[str, float]], attributes: Sequence[Attribute]) -> Rated:
    """Rate every node of a table; the leader is the best one, and among equals the lowest name."""
    if not table:
        raise ConfigError("the table has no nodes: nobody could lead")
    rated = {node: quality(values, attributes) for node, values in table.items()}
    leader = min(rated, key=lambda node: (-rated[node].value, order(node)))
    return Rated(quality=rated, leader=leader)


def read_attributes(data: Any, where: str) -> tuple[Attribute, ...]:
    """Return the attributes of a parsed TOML or JSON file."""
    attributes = load(_Attributes, data, where).attribute
    return checked(attributes, where)


def read_table(lines: Iterable[str], attributes: Sequence[Attribute], where: str) -> dict[str, dict[str, float]]:
    """Return the values of a CSV file `node,<attribute>,…`; columns that are no attributes are passed over."""
    rows = rows_of(lines, where)
    if not rows:
        raise ConfigError(f"{where}: is empty: the first line is node,{','.join(a.name for a in attributes)}")
    (_, header), *body = rows
    columns = {}
    for i, name in enumerate(header):
        if name in header[:i]:
            raise ConfigError(f"{where}: line {rows[0][0]}: column {shown(name)} is there twice")
        columns[name] = i
    for name in ("node", *(attribute.name for attribute in attributes)):
        if name not in columns:
            raise ConfigError(f"{where}: line {rows[0][0]}: has no column {shown(name)}: it has {', '.join(header)}")
    table: dict[str, dict[str, float]] = {}
    for line, row in body:
        if len(row) != len(header):
            raise ConfigError(f"{where}: line {line}: has {len(row)} cells, the header has {len(header)}")
        node = row[columns["node"]]
        if not node:
            raise ConfigError(f"{where}: line {line}, column node: is empty: every node needs a name")
        if node in table:
            raise ConfigError(f"{where}: line {line}: node {shown(node)} is there twice")
        table[node] = {
            a.name: number(row[columns[a.name]], f"{where}: line {line}, node {node}, column {a.name}")
            for a in attributes
        }
    if not table:
        raise ConfigError(f"{where}: has a header and no nodes: nobody could lead")
    return table
