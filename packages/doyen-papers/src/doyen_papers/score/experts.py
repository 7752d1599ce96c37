"""Several experts' opinions on what matters become one weight per attribute.  [MADM §6.2.1]

    each expert's attributes ──union──▶ Q
    each expert's preferences over Q (p_ij: how much i matters more than j) ──aggregate──▶ collective matrix
    collective ──mean of each row off its diagonal──▶ dominance ──normalise──▶ weights

Aggregation is WA (a mean, by the experts' own weights) or OWA (a mean by *place*: each cell's opinions are sorted
descending, and the weights come from a quantifier such as "most").

An OWA matrix is not reciprocal, and is not repaired.  Under WA no weight exceeds 2/m: who wants .8 sets it directly.
"""

from collections.abc import Sequence
from math import isclose, isfinite
from typing import Annotated, Any, Final, Literal

from msgspec import Struct

from doyen.core.config import Amount, Config, Doc, Text, load, shown
from doyen.errors import ConfigError

Aggregate = Literal["wa", "owa"]
Quantifier = Literal["most", "at-least-half", "as-many-as-possible"]
Matrix = tuple[tuple[float, ...], ...]

#: From which share of the experts on opinions begin to count, and from which they count in full.
QUANTIFIERS: Final[dict[Quantifier, tuple[float, float]]] = {
    "most": (0.3, 0.8),
    "at-least-half": (0.0, 0.5),
    "as-many-as-possible": (0.5, 1.0),
}
ROUNDING: Final = 1e-9  # How far p_ij + p_ji may be from 1, and explicit weights from a sum of 1.


class Expert(Struct, frozen=True, kw_only=True):
    """One expert's opinion."""

    name: str
    preferences: Matrix  # Over the union of all attributes, in its order.
    weight: float = 1.0  # How much the opinion counts in WA; OWA knows places, not persons.
    attributes: tuple[str, ...] = ()  # What this expert wants considered.


class Panel(Struct, frozen=True):
    """All experts, checked."""

    attributes: tuple[str, ...]  # Q: as listed, or the union in order of first mention.
    experts: tuple[Expert, ...]


class Weights(Struct, frozen=True, kw_only=True):
    """The result, and the steps that led to it."""

    attributes: tuple[str, ...]
    collective: Matrix
    dominance: dict[str, float]
    weights: dict[str, float]
    places: tuple[float, ...] | None = None  # OWA: the weight of the greatest opinion, of the next, …


# Reading.


class _Opinion(Config, frozen=True, kw_only=True):
    name: Annotated[Text, Doc("give each expert one, to be named in complaints")]
    weight: Amount = 1.0
    attributes: tuple[str, ...] = ()
    preferences: Annotated[Any, Doc("a matrix with a row and a column for each attribute")]


class _File(Config, frozen=True, kw_only=True):
    attributes: tuple[str, ...] = ()
    expert: tuple[dict[str, Any], ...] = ()


def read_panel(data: Any, where: str) -> Panel:
    """Return the panel of a parsed TOML or JSON file; a complaint names the expert and the cell."""
    file = load(_File, data, where)
    opinions: dict[str, _Opinion] = {}
    for i, entry in enumerate(file.expert, start=1):
        named = shown(entry.get("name")) if entry.get("name") else f"number {i}"
        opinion = load(_Opinion, entry, f"{where}: expert {named}")
        if opinion.name in opinions:
            raise ConfigError(f"{where}: two experts are called {named}: names must differ")
        opinions[opinion.name] = opinion
    if len(opinions) < 2:
        raise ConfigError(f"{where}: has {len(opinions)} [[expert]]: a group needs at least 2")
    wanted = {f"{where}: expert {shown(name)}": opinion.attributes for name, opinion in opinions.items()}
    attributes = file.attributes or tuple(dict.fromkeys(a for names in wanted.values() for a in names))
    for spot, names in (wanted | {where: file.attributes}).items():
        for i, name in enumerate(names):
            if not name.strip() or name in names[:i]:
                raise ConfigError(f"{spot}: attributes[{i}] = {shown(name)}: must be a name that is not there twice")
            if name not in attributes:
                raise ConfigError(f"{spot} names the attribute {shown(name)}, which the file's own list lacks")
    if len(attributes) < 2:
        raise ConfigError(f"{where}: names {len(attributes)} attributes: there must be at least 2 to prefer between")
    total = sum(opinion.weight for opinion in opinions.values())
    if total <= 0:
        raise ConfigError(f"{where}: all experts have weight 0: at least one must count")
    if not isfinite(total):
        raise ConfigError(f"{where}: the experts' weights are too great to add up: only their proportions matter")
    experts = (
        Expert(
            name=opinion.name,
            preferences=_matrix(opinion.preferences, attributes, spot),
            weight=opinion.weight,
            attributes=opinion.attributes,
        )
        for spot, opinion in zip(wanted, opinions.values(), strict=True)
    )
    return Panel(attributes, tuple(experts))


def _matrix(rows: Any, attributes: tuple[str, ...], spot: str) -> Matrix:
    size = len(attributes)
    if not isinstance(rows, list | tuple):
        raise ConfigError(f"{spot} preferences = {shown(rows)}: must be a matrix, [[…], […], …]")
    if len(rows) < size:
        raise ConfigError(
            f"{spot} preferences have {len(rows)} rows for {size} attributes: no row for {shown(attributes[len(rows)])}"
        )
    for i, row in enumerate(rows):
        label = shown(attributes[i]) if i < size else "no attribute"
        if not isinstance(row, list | tuple):
            raise ConfigError(f"{spot} row {i + 1} ({label}) = {shown(row)}: must be a list of numbers")
        if len(row) < size:
            raise ConfigError(
                f"{spot} row {i + 1} ({label}) has {len(row)} cells for {size} attributes: none for "
                f"{shown(attributes[len(row)])}"
            )
        if len(row) > size or i >= size:
            raise ConfigError(
                f"{spot} row {i + 1} ({label}), cell {len(row)}: preferences must be {size}×{size}, one row and one "
                f"column per attribute ({', '.join(attributes)})"
            )
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            place = f"{spot} cell ({i + 1}, {j + 1}), {attributes[i]} over {attributes[j]}, is {shown(cell)}"
            if not _is_number(cell):
                raise ConfigError(f"{place}: must be a number")
            if not 0 <= cell <= 1:
                raise ConfigError(f"{place}: must be from 0 to 1")
            if i == j and cell != 0.5:
                raise ConfigError(f"{place}: must be 0.5, for nothing is preferred to itself")
            mirrored = rows[j][i]
            if j < i and not isclose(cell + mirrored, 1.0, rel_tol=0, abs_tol=ROUNDING):
                raise ConfigError(
                    f"{place}, and cell ({j + 1}, {i + 1}) is {shown(mirrored)}: the two must add up to 1"
                )
    return tuple(tuple(float(cell) for cell in row) for row in rows)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return isfinite(value)
    except OverflowError:  # A whole number beyond what floats hold.
        return False


# Formulas.


def weigh(
    panel: Panel,
    *,
    aggregate: Aggregate = "wa",
    quantifier: Quantifier = "most",
    places: Sequence[float] | None = None,
) -> Weights:
    """The whole way.  OWA takes its weights from the quantifier, unless `places` gives them."""
    if aggregate == "wa":
        by_place = None
        collective = weighted_average(panel)
    else:
        count = len(panel.experts)
        by_place = tuple(owa_weights(count, quantifier) if places is None else checked_places(places, count))
        collective = ordered_weighted_average(panel, by_place)
    degrees = dominance(collective)
    total = sum(degrees)
    if total <= 0:
        raise ConfigError(
            "no attribute dominates any other, so there is nothing to make weights from: "
            "the experts contradict each other, ask for less agreement (--quantifier most)"
        )
    return Weights(
        attributes=panel.attributes,
        collective=collective,
        dominance=dict(zip(panel.attributes, degrees, strict=True)),
        weights={a: degree / total for a, degree in zip(panel.attributes, degrees, strict=True)},
        places=by_place,
    )


def weighted_average(panel: Panel) -> Matrix:
    """φ = WA: each cell is the experts' mean, by their weights."""
    total = sum(expert.weight for expert in panel.experts)
    size = range(len(panel.attributes))
    return tuple(tuple(sum(e.weight * e.preferences[i][j] for e in panel.experts) / total for j in size) for i in size)


def ordered_weighted_average(panel: Panel, places: Sequence[float]) -> Matrix:
    """φ = OWA: each cell's opinions, greatest first, by the weights of their places."""
    size = range(len(panel.attributes))

    def cell(i: int, j: int) -> float:
        opinions = sorted((e.preferences[i][j] for e in panel.experts), reverse=True)
        return sum(weight * opinion for weight, opinion in zip(places, opinions, strict=True))

    return tuple(tuple(0.5 if i == j else cell(i, j) for j in size) for i in size)


def owa_weights(count: int, quantifier: Quantifier) -> list[float]:
    """w_k = Q(k/n) − Q((k−1)/n), Q rising from 0 at the quantifier's first number to 1 at its second."""
    low, high = QUANTIFIERS[quantifier]

    def satisfied(share: float) -> float:
        return min(max((share - low) / (high - low), 0.0), 1.0)

    return [satisfied(k / count) - satisfied((k - 1) / count) for k in range(1, count + 1)]


def checked_places(places: Sequence[float], count: int) -> Sequence[float]:
    if len(places) != count:
        raise ConfigError(f"gives {len(places)} weights for {count} experts: give one per place", field="owa_weights")
    for i, weight in enumerate(places, start=1):
        if not isfinite(weight) or weight < 0:
            raise ConfigError(f"has {weight} in place {i}: must be 0 or more", field="owa_weights")
    if not isclose(sum(places), 1.0, rel_tol=0, abs_tol=ROUNDING):
        raise ConfigError(f"add up to {sum(places):g}: must be 1", field="owa_weights")
    return places


def dominance(collective: Matrix) -> list[float]:
    """D(q_i): the mean of a row off its diagonal."""
    size = len(collective)
    return [sum(cell for j, cell in enumerate(row) if j != i) / (size - 1) for i, row in enumerate(collective)]
