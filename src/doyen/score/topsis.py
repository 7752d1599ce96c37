"""A node's attributes become one number, its quality factor.  [MADM §6.2.2]

    n = (a − min)/(max − min)    v = w·n    d_b, d_w = distances to the ideal best and worst    Qf = d_w/(d_b + d_w)

TOPSIS, changed so that a node can do it alone: the range of each attribute is agreed beforehand, and the ideal points
are 1 and 0, not the best and worst weighted values of all nodes.

Ambiguity [MADM §6.2.2]: the ideal points are 1 and 0 as printed, not w_j and 0; for cost attributes 0 and 1.
Deviation: a value outside [min, max] is clamped, and said so; min = max is an error, not a division by zero.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from math import hypot, isfinite
from typing import Annotated, Any, Final, Literal

from msgspec import Struct

from doyen.core.config import Config, Doc, Probability, Real, Text, load, need, shown
from doyen.core.order import order
from doyen.errors import ConfigError

WEIGHT_SLACK: Final = 0.01  # Weights are printed with two or three decimals; further from 1 is a typing mistake.


class Attribute(Config, frozen=True, kw_only=True):
    """What is measured, and how much it matters."""

    name: Annotated[Text, Doc("The name of the table's column.")]
    min: Annotated[Real, Doc("The least possible value.")]
    max: Annotated[Real, Doc("The greatest possible value.")]
    weight: Annotated[Probability, Doc("Its part of all that matters; the weights of all attributes add up to 1.")]
    kind: Annotated[Literal["benefit", "cost"], Doc("Whether more of it is better, or worse.")] = "benefit"

    def check(self) -> None:
        need(self.min < self.max, "min", f"{self.min:g} of {self.name} must be less than max ({self.max:g})")
        need(isfinite(self.max - self.min), "min", f"{self.min:g} of {self.name} is too far from max ({self.max:g})")


class Quality(Struct, frozen=True):
    """A quality factor, and the attributes whose values were outside their range."""

    value: float
    clamped: tuple[str, ...] = ()


class Rated(Struct, frozen=True, kw_only=True):
    """A table of nodes, rated."""

    quality: dict[str, Quality]
    leader: str  # The greatest quality; among equals the lowest name.


class _Attributes(Config, frozen=True, kw_only=True):
    attribute: Annotated[tuple[Attribute, ...], Doc("one [[attribute]] each")]


def quality(values: Mapping[str, float], attributes: Sequence[Attribute]) -> Quality:
    """Qf of one node, from its values by attribute name."""
    best, worst, clamped = [], [], []
    for attribute in attributes:
        n = (values[attribute.name] - attribute.min) / (attribute.max - attribute.min)
        if not 0 <= n <= 1:
            clamped.append(attribute.name)
            n = min(max(n, 0.0), 1.0)
        v = attribute.weight * n
        ideal = 1.0 if attribute.kind == "benefit" else 0.0
        best.append(v - ideal)
        worst.append(v - (1.0 - ideal))
    to_best, to_worst = hypot(*best), hypot(*worst)
    return Quality(to_worst / (to_best + to_worst), tuple(clamped))


def rate(table: Mapping[str, Mapping[str, float]], attributes: Sequence[Attribute]) -> Rated:
    """Every node of a table; the leader is the best, and among equals the lowest name."""
    if not table:
        raise ConfigError("the table has no nodes: nobody could lead")
    rated = {node: quality(values, attributes) for node, values in table.items()}
    leader = min(rated, key=lambda node: (-rated[node].value, order(node)))
    return Rated(quality=rated, leader=leader)


# Reading.


def read_attributes(data: Any, where: str) -> tuple[Attribute, ...]:
    """From a parsed TOML or JSON file."""
    attributes = load(_Attributes, data, where).attribute
    return checked(attributes, where)


def checked(attributes: Iterable[Attribute], where: str) -> tuple[Attribute, ...]:
    """Names differ."""
    found = tuple(attributes)
    if not found:
        raise ConfigError(f"{where}: has no [[attribute]]: at least one must matter")
    if not any(attribute.weight for attribute in found):
        raise ConfigError(f"{where}: every attribute has weight 0: at least one must matter")
    for i, attribute in enumerate(found):
        if attribute.name in [other.name for other in found[:i]]:
            raise ConfigError(f"{where}: [attribute[{i}]] name = {shown(attribute.name)}: is there twice")
    return found


def weights_complaint(attributes: Sequence[Attribute]) -> str | None:
    """Weights other than of sum 1 still give an order, but not the chapter's numbers: worth a word."""
    total = sum(attribute.weight for attribute in attributes)
    if abs(total - 1.0) <= WEIGHT_SLACK:
        return None
    return f"the weights of {', '.join(a.name for a in attributes)} add up to {total:g}, not to 1"


def read_table(lines: Iterable[str], attributes: Sequence[Attribute], where: str) -> dict[str, dict[str, float]]:
    """CSV, `node,<attribute>,…`; columns that are no attributes are passed over."""
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
            a.name: _number(row[columns[a.name]], f"{where}: line {line}, node {node}, column {a.name}")
            for a in attributes
        }
    if not table:
        raise ConfigError(f"{where}: has a header and no nodes: nobody could lead")
    return table


def rows_of(lines: Iterable[str], where: str) -> list[tuple[int, list[str]]]:
    """Each with its line; empty ones are passed over."""
    reader = csv.reader(lines)
    rows = []
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                rows.append((reader.line_num, cells))
    except csv.Error as error:
        raise ConfigError(f"{where}: line {reader.line_num}: {error}") from None
    return rows


def _number(text: str, spot: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ConfigError(f"{spot}: {shown(text)} is not a number") from None
    if not isfinite(value):
        raise ConfigError(f"{spot}: {shown(text)} is not a finite number")
    return value
