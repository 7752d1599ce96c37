"""Markdown has one sentence per line, so that a change shows which sentence changed."""

import subprocess

import pytest
from layers import ROOT
from markdown import rewritten, sentences


def test_every_page_has_one_sentence_per_line() -> None:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    pages = [ROOT / name for name in listed.split()]
    assert len(pages) > 80
    amiss = [
        str(page.relative_to(ROOT))
        for page in pages
        if page.exists() and rewritten(page.read_text()) != page.read_text()
    ]
    assert not amiss, f"python tests/seams/markdown.py {' '.join(amiss)}"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("See Fig. 3, i.e. the third [CTOL Alg. 1]. Then `a. B` and [x](y. Z).", None),
        ("It takes 1.5 s (Base. Hybrid takes less) on e.g. a LAN.", None),
        ("**Bold.** Then more.", ["**Bold.**", "Then more."]),
    ],
)
def test_where_a_sentence_ends(text: str, parts: list[str] | None) -> None:
    expected = (
        parts
        or {
            "S": ["See Fig. 3, i.e. the third [CTOL Alg. 1].", "Then `a. B` and [x](y. Z)."],
            "I": ["It takes 1.5 s (Base. Hybrid takes less) on e.g. a LAN."],
        }[text[0]]
    )
    assert sentences(text) == expected


def test_lists_code_and_tables_keep_their_shape() -> None:
    page = """# A. Title. Here

One. Two
goes on. Three.

- An item. Its second
  sentence.
  1. Within. It.

  A paragraph of it. Again.

```console
$ one. Two.
```

    indented. Code.

| a. B. | c |
"""
    assert rewritten(page).splitlines() == [
        "# A. Title. Here",
        "",
        "One.",
        "Two goes on.",
        "Three.",
        "",
        "- An item.",
        "  Its second sentence.",
        "  1. Within.",
        "     It.",
        "",
        "  A paragraph of it.",
        "  Again.",
        "",
        "```console",
        "$ one. Two.",
        "```",
        "",
        "    indented. Code.",
        "",
        "| a. B. | c |",
    ]
    assert rewritten(rewritten(page)) == rewritten(page)
