"""Every decision in force is cited, by its number, at the code that depends on it."""

import re

from layers import PACKAGES, ROOT

CITATION = re.compile(r"\b[Dd]ecisions? (\d+(?:(?:, | and )\d+)*)")
INDEX = re.compile(r"^\| (\d+) \| \[.*\]\(0*\1-.*\.md\) \| (.+) \|$", re.MULTILINE)


def decisions() -> dict[int, str]:
    """Return the status of each decision, as the index has it."""
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    return {int(number): status for number, status in INDEX.findall(index)}


def cited() -> dict[int, str]:
    """Return a place where each decision is cited."""
    found = {}
    for root in (*PACKAGES.values(), ROOT / "scripts"):
        for path in sorted(root.rglob("*.py")):
            for numbers in CITATION.findall(path.read_text()):
                found |= {int(number): str(path.relative_to(ROOT)) for number in re.findall(r"\d+", numbers)}
    return found


def test_the_index_has_every_decision_and_its_status() -> None:
    pages = {int(page.name[:4]) for page in (ROOT / "docs" / "decisions").glob("0*.md")}
    known = decisions()
    assert known.keys() == pages
    for number, status in known.items():
        assert status == "in force" or int(status.removeprefix("superseded by ")) in known, number


def test_every_decision_in_force_is_cited_where_code_depends_on_it() -> None:
    known, places = decisions(), cited()
    in_force = {number for number, status in known.items() if status == "in force"}
    assert len(in_force) > 40
    assert not in_force - places.keys()
    assert not {number: place for number, place in places.items() if number not in in_force}
