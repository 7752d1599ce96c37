"""Reading `expected.toml`: what a paper's cells should be, decided before they were measured."""

import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Struct

from doyen.core.config import Amount, Config, Doc, Text, load
from doyen.errors import ConfigError

Kind = Literal["exact", "printed", "published", "inferred", "claim", "bound", "least"]


class Expect(Config, frozen=True, kw_only=True):
    """An expectation of the cells of an item that match `where`; `verdict.judge` says how each kind is judged."""

    item: Text
    where: Annotated[Text, Doc("A cell's name; * stands for anything.")]
    kind: Kind
    reason: Annotated[Text, Doc("Why this tolerance.")]
    source: Annotated[Text, Doc("Which statement it comes from.")]
    value: Annotated[float | None, Doc("None: the closed form evaluated beside the cell.")] = None
    published: Annotated[float | None, Doc("The number the paper prints, if it does; it is the value then.")] = None
    tolerance: Amount = 0.0
    stderr: Annotated[Amount, Doc("Of the value itself, where that was simulated too.")] = 0.0
    says: Annotated[str, Doc("The claim in plain words.")] = ""
    explained: Annotated[str, Doc("Why a miss was to be expected, known before the run.")] = ""
    afterwards: Annotated[str, Doc("Why it missed, found out later. The tolerance stays, and so does the miss.")] = ""
    shown_by: Annotated[
        str,
        Doc("The experiment that shows why: `item: cell`, where one thing is changed, or what is said is measured."),
    ] = ""

    def check(self) -> None:
        if self.kind in ("published", "inferred", "claim", "bound", "least") and self.value is None:
            raise ConfigError(f"is missing: a {self.kind} cell needs one", field="value")
        if self.kind in ("published", "inferred") and self.tolerance == 0:
            raise ConfigError(f"is missing: a {self.kind} value is never exact", field="tolerance")
        if self.kind == "published" and self.published is None:
            raise ConfigError(
                "is missing: a published cell is judged by the number that the paper prints", field="published"
            )
        if self.published is not None and (self.kind == "inferred" or self.value != self.published):
            raise ConfigError(
                f"{self.published:g} is what the paper prints, so it must be the value that ours is held against "
                f"(kind = {self.kind}, value = {self.value}); a midpoint or a derived number is inferred, without it",
                field="published",
            )

    def covers(self, item: str, where: str) -> bool:
        return self.item == item and fnmatchcase(where, self.where)


class About(Config, frozen=True, kw_only=True):
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
