"""Every table, figure, theorem and quoted number of the papers, and which item makes it again."""

import tomllib
from pathlib import Path
from typing import Annotated

from doyen.core.config import Config, Doc, Text, load, need


class Statement(Config, frozen=True, kw_only=True):
    """Something that a paper states or shows."""

    name: Annotated[Text, Doc("As the paper calls it: Theorem 3, or the number that it quotes.")]
    where: Annotated[Text, Doc("The section that says it.")]
    says: Annotated[Text, Doc("What it is about, in a few words.")]
    item: Annotated[str, Doc("The item that makes it again.")] = ""
    why: Annotated[str, Doc("Why there is none.")] = ""

    def check(self) -> None:
        need(bool(self.item) != bool(self.why), "item", "or why there is none: give one of the two")


def statements(key: str) -> tuple[Statement, ...]:
    """Return what the paper of that key states, in its order."""
    path = Path(__file__).parent / key / "statements.toml"
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["statement"]
    return tuple(load(Statement, entry, f"{path}: {entry.get('name')}") for entry in entries)
