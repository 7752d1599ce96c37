"""The table "where to look" of the architecture page names files that exist, and what is in them."""

import re
from pathlib import Path

from plain import ROOT

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
PLACES = [ROOT / "src" / "doyen", ROOT / "packages" / "doyen-lab" / "src", ROOT / "packages" / "doyen-papers" / "src"]


def found(path: str) -> Path | None:
    folders = [*PLACES, *(place / name for place in PLACES[1:] for name in ("doyen_lab", "doyen_papers")), ROOT]
    return next((folder / path for folder in [*folders, ROOT / "src"] if (folder / path).exists()), None)


def test_every_name_of_the_table_is_where_it_says() -> None:
    table = PAGE.read_text().partition("## Where to look")[2].partition("\n## ")[0]
    named = 0
    for clause in re.split(r"[;.] |\|", table):
        words = re.findall(r"`([^`]+)`", clause)
        paths = [word for word in words if "/" in word]
        assert all(found(path) for path in paths), [path for path in paths if not found(path)]
        for names, path in re.findall(r"((?:`\w+`(?:,| and)? ?)+)in `([\w./]+\.(?:py|js))`", clause):
            for name in re.findall(r"`(\w+)`", names):
                place = found(path)
                assert place is not None and re.search(rf"\b{name}\b", place.read_text()), f"{name} is not in {path}"
                named += 1
    assert named >= 8
