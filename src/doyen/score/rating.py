"""Attributes as text become a rating of this machine, by the probes that measure them.  [MADM §6.2]

attribute    name:min:max:weight[:cost]      e.g. memory:0:64:0.5, load:0:4:0.5:cost
measure      name=number                     what no probe knows, or knows less well
"""

from collections.abc import Mapping
from typing import Final

from doyen.errors import ConfigError
from doyen.score.probes import Probe, Rating, battery_share, cpu_capacity_ghz, fixed, load_per_core, memory_free_gib
from doyen.score.topsis import Attribute, weights_complaint

PROBES: Final[Mapping[str, Probe]] = {
    "cpu": cpu_capacity_ghz,
    "memory": memory_free_gib,
    "battery": battery_share,
    "load": load_per_core,
}
USUAL: Final = ("cpu:0:6:0.25", "memory:0:64:0.35", "load:0:4:0.25:cost", "battery:0:1:0.15")
QUANTUM: Final = 0.01  # Qualities closer than this are alike: free memory never stands still.


def rating_of(attributes: tuple[str, ...], measures: tuple[str, ...]) -> Rating:
    """Return the rating of these attributes; raise `ConfigError` for what makes no rating."""
    found = [_attribute(text) for text in attributes or USUAL]
    known = {name: fixed(value) for name, value in map(_measure, measures)}
    for name in known:
        if name not in {attribute.name for attribute in found}:
            raise ConfigError(f"{name!r} is no attribute: one of {', '.join(a.name for a in found)}", field="measures")
    for attribute in found:
        if attribute.name not in known and attribute.name not in PROBES:
            raise ConfigError(
                f"{attribute.name!r} cannot be measured here (what can: {', '.join(PROBES)}): "
                f"say what it is here (measures: {attribute.name}=NUMBER)",
                field="attributes",
            )
    complaint = weights_complaint(found)
    if complaint is not None:
        raise ConfigError(complaint, field="attributes")
    try:
        return Rating(found, {**PROBES, **known})
    except ConfigError as error:
        raise ConfigError(str(error).removeprefix("rating: "), field="attributes") from None


def own_quality(rating: Rating) -> float:
    """Measure this machine, and return its quality factor in steps of `QUANTUM`."""
    return round(rating() / QUANTUM) * QUANTUM + 0.0  # No -0.0.


def _attribute(text: str) -> Attribute:
    name, *rest = text.split(":")
    try:
        least, most, weight, *kind = rest
        if kind not in ([], ["cost"], ["benefit"]):
            raise ValueError
        numbers = {"min": float(least), "max": float(most), "weight": float(weight)}
    except ValueError:
        raise ConfigError(
            f"{text!r} is not name:min:max:weight: give e.g. memory:0:64:0.5 or load:0:4:0.5:cost", field="attributes"
        ) from None
    try:
        return Attribute(name=name, kind="cost" if kind == ["cost"] else "benefit", **numbers)
    except ConfigError as error:
        raise ConfigError(f"{text!r}: {error}", field="attributes") from None


def _measure(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    try:
        return name, float(number)
    except ValueError:
        raise ConfigError(f"{text!r} is not name=number", field="measures") from None
