"""Reading `expected.toml`: what a paper's cells should be, decided before they were measured."""

import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from msgspec import Struct

from doyen.core.config import load
from doyen.errors import ConfigError

Kind = Literal["exact", "printed", "published", "inferred", "claim"]


class Expect(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An expectation of the cells of an item that match `where`; `verdict.judge` says how each kind is judged."""

    item: str
    where: str  #: A cell's name; * stands for anything.
    kind: Kind
    reason: str  #: Why this tolerance.
    source: str  #: Which statement it comes from.
    value: float | None = None  #: None: the closed form evaluated beside the cell.
    published: float | None = None  #: The number the paper prints, if it does.
    tolerance: float = 0.0
    stderr: float = 0.0  #: Of the value itself, where that was simulated too.
    says: str = ""  #: The claim in plain words.
    explained: str = ""  #: Why a miss was to be expected, known before the run.
    afterwards: str = ""  #: Why it missed, found out later.  The tolerance stays, and so does the miss.

    def __post_init__(self) -> None:
        for name in ("item", "where", "reason", "source"):
            if not getattr(self, name).strip():
                raise ConfigError("must not be empty", field=name)
        for name in ("tolerance", "stderr"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigError(f"{getattr(self, name)} must be 0 or more, and finite", field=name)
        if self.kind in ("published", "inferred", "claim") and self.value is None:
            raise ConfigError(f"is missing: a {self.kind} cell needs one", field="value")
        if self.kind in ("published", "inferred") and self.tolerance == 0:
            raise ConfigError(f"is missing: a {self.kind} value is never exact", field="tolerance")

    def covers(self, item: str, where: str) -> bool:
        return self.item == item and fnmatchcase(where, self.where)


class About(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The paper in plain words."""

    key: str
    title: str
    source: str
    about: str


class Expected(Struct, frozen=True):
    paper: About
    expects: tuple[Expect, ...]

    def of(self, item: str, where: str) -> Expect | None:
        """Return the first expectation that covers the cell."""
        return next((expect for expect in self.expects if expect.covers(item, where)), None)


def read_expected(path: Path) -> Expected:
    """Read a paper's expectations; a complaint names the file, the entry and the field."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # ValueError: not TOML, or not UTF-8.
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    for name in data:
        if name not in ("paper", "expect"):
            raise ConfigError(f"{path}: has no table [{name}]: only [paper] and [[expect]]")
    entries = data.get("expect", [])
    if not isinstance(entries, list):
        raise ConfigError(f"{path}: expect must be a list of tables: write [[expect]]")
    about = load(About, data.get("paper", {}), f"{path}: [paper]")
    expects = [load(Expect, entry, f"{path}: [[expect]] number {i}") for i, entry in enumerate(entries, 1)]
    return Expected(about, tuple(expects))
