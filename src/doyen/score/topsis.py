"""A node's attributes become one number, its quality factor.  [MADM §6.2.2]

    n = (a − min)/(max − min)    v = w·n    d_b, d_w = distances to the ideal best and worst    Qf = d_w/(d_b + d_w)

TOPSIS, changed so that a node can do it alone: the range of each attribute is agreed beforehand, and the ideal points
are 1 and 0, not the best and worst weighted values of all nodes.

Ambiguity [MADM §6.2.2]: the ideal points are 1 and 0 as printed, not w_j and 0; for cost attributes 0 and 1.
Deviation: a value outside [min, max] is clamped, and said so; min = max is an error, not a division by zero.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import hypot, isfinite
from typing import Annotated, Final, Literal

from msgspec import Struct

from doyen.core.config import Config, Doc, Probability, Text, need, shown
from doyen.core.rank import Finite
from doyen.errors import ConfigError

WEIGHT_SLACK: Final = 0.01  # Weights are printed with two or three decimals; further from 1 is a typing mistake.


class Attribute(Config, frozen=True, kw_only=True):
    """Something that is measured, with its range and its weight."""

    name: Annotated[Text, Doc("The name of the table's column.")]
    min: Annotated[Finite, Doc("The least possible value.")]
    max: Annotated[Finite, Doc("The greatest possible value.")]
    weight: Annotated[Probability, Doc("Its part of all that matters; the weights of all attributes add up to 1.")]
    kind: Annotated[Literal["benefit", "cost"], Doc("Whether more of it is better, or worse.")] = "benefit"

    def check(self) -> None:
        need(self.min < self.max, "min", f"{self.min:g} of {self.name} must be less than max ({self.max:g})")
        need(isfinite(self.max - self.min), "min", f"{self.min:g} of {self.name} is too far from max ({self.max:g})")


class Quality(Struct, frozen=True):
    """A quality factor, and the attributes whose values were outside their range."""

    value: float
    clamped: tuple[str, ...] = ()


def quality(values: Mapping[str, float], attributes: Sequence[Attribute]) -> Quality:
    """Return Qf of one node, from its values by attribute name."""
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


def checked(attributes: Iterable[Attribute], where: str) -> tuple[Attribute, ...]:
    """Return the attributes; raise `ConfigError` unless their names differ and one of them matters."""
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
    """Return a complaint about weights that do not add up to 1: they give an order, but not the chapter's numbers."""
    total = sum(attribute.weight for attribute in attributes)
    if abs(total - 1.0) <= WEIGHT_SLACK:
        return None
    return f"the weights of {', '.join(a.name for a in attributes)} add up to {total:g}, not to 1"
