"""The attributes, tables and graphs that the chapter prints.  [MADM §6.2.5, §6.3]"""

from csv import DictReader
from pathlib import Path
from typing import Final

from msgspec import Struct, convert

from doyen.score.topsis import Attribute, quality


class Row(Struct, frozen=True):
    """One line of Tables 6.3 to 6.5."""

    node: str
    cpu: float
    memory: float
    failures: float
    closeness: float
    degree: int
    quality: str  # As printed: truncated to four decimals.

    @property
    def values(self) -> dict[str, float]:
        return {
            "CPU": self.cpu,
            "Am": self.memory,
            "Fr": self.failures,
            "Cc": self.closeness,
            "Deg": float(self.degree),
        }


Edges = tuple[tuple[str, str], ...]

#: Table 6.2.
ATTRIBUTES: Final = (
    Attribute(name="CPU", min=1.8, max=6, weight=0.15),
    Attribute(name="Am", min=0, max=64, weight=0.10),
    Attribute(name="Fr", min=0, max=1, weight=0.22, kind="cost"),
    Attribute(name="Cc", min=0, max=1, weight=0.28),
    Attribute(name="Deg", min=1, max=12, weight=0.25),
)


def prioritised(name: str, weight: float = 0.8) -> tuple[Attribute, ...]:
    """[MADM §6.3] Return the attributes with a weight of .8 on one and .05 on every other."""
    other = round((1 - weight) / (len(ATTRIBUTES) - 1), 9)
    return tuple(
        Attribute(name=a.name, min=a.min, max=a.max, weight=weight if a.name == name else other, kind=a.kind)
        for a in ATTRIBUTES
    )


def edges(text: str) -> Edges:
    """Return the pairs of names of `0-2 1-2`."""
    return tuple((a, b) for a, _, b in (word.partition("-") for word in text.split()))


def neighbours(graph: Edges) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for a, b in graph:
        found.setdefault(a, []).append(b)
        found.setdefault(b, []).append(a)
    return found


_A: Final = "0-2 1-2 1-3 2-3 2-4 2-7 3-4 4-6 5-7"
_B: Final = _A + " 0-8 1-8 6-8 7-9"
_C: Final = _B + " 0-10 1-10 4-10 7-10 8-10 9-10 5-11 6-11 9-11"

#: Figure 6.3, whose image is lost: reconstructed from the tables' degrees and closeness, unique or not.
GRAPHS: Final[dict[str, Edges]] = {"6.3": edges(_A), "6.4": edges(_B), "6.5": edges(_C)}


def _tables() -> dict[str, tuple[Row, ...]]:
    found: dict[str, tuple[Row, ...]] = {}
    with open(Path(__file__).with_name("tables.csv"), encoding="utf-8", newline="") as lines:
        for cells in DictReader(lines):
            table = cells.pop("table")
            found[table] = (*found.get(table, ()), convert(cells, Row, strict=False))
    return found


#: Tables 6.3 to 6.5.
TABLES: Final = _tables()

#: Figure 6.1: seven nodes and nine links.  Of the qualities only four are printed; .74 < Qf(2) < .94.
SEVEN: Final = edges("0-2 1-2 2-3 0-3 0-6 1-5 3-4 3-5 5-6")
SEVEN_QUALITY: Final = {"0": 0.55, "1": 0.52, "2": 0.80, "3": 0.94, "4": 0.60, "5": 0.69, "6": 0.74}


def quality_of(table: str) -> dict[str, float]:
    """Return every node's quality factor, from a table's values."""
    return {row.node: quality(row.values, ATTRIBUTES).value for row in TABLES[table]}
