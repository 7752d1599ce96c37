"""Markdown has one sentence per line, so that a change shows which sentence changed; what it names exists."""

import re
import subprocess

import pytest
from layers import PACKAGES, ROOT
from markdown import rewritten, sentences

CODE = re.compile(r"`([^`]+)`")
FOLDERS = "src|packages|tests|doyen_papers|doyen_lab|core|membership|election|score|net|node|runner|sim|testing|cli"
PATH = re.compile(rf"[\w-]+(?:/[\w.-]+)*\.py|(?:{FOLDERS})/[\w./-]*")
MODULE = re.compile(r"(doyen(?:_papers|_lab)?(?:\.[a-z_]+)+)(?:\.[A-Z]\w*)?")


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


def exists(name: str) -> bool:
    """Whether a file or a folder has this path, from the root or from a package; a bare file's name is enough."""
    starts = (ROOT, ROOT / "tests", *PACKAGES.values(), *(root.parent for root in PACKAGES.values()))
    if "/" not in name:
        return any(
            next(ROOT.glob(f"{top}/**/{name}"), None) for top in ("src", "packages", "tests", "examples", "docs")
        )
    return any((start / name).exists() for start in starts)


def is_module(name: str) -> bool:
    """Whether this is a module of ours, or a name in one."""
    package, *parts = name.split(".")
    path = PACKAGES[package].joinpath(*parts)
    return any(found.is_dir() or found.with_suffix(".py").exists() for found in (path, path.parent))


def test_paths_and_modules_that_pages_name_exist() -> None:
    amiss, seen = [], 0
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for name in CODE.findall(page.read_text()):
            module = MODULE.fullmatch(name)
            if PATH.fullmatch(name) or module:
                seen += 1
                if not (is_module(module.group(1)) if module else exists(name)):
                    amiss.append(f"{page.relative_to(ROOT)}: {name}")
    assert seen > 30
    assert not amiss, "\n".join(amiss)


def test_the_tree_of_the_architecture_is_the_tree() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    tree = page.partition("src/doyen/  ")[2].partition("```")[0]
    lines = re.findall(r"^  (\w+)/ +(.*)$", tree, re.MULTILINE)
    folders = {path.name for path in PACKAGES["doyen"].iterdir() if (path / "__init__.py").exists()}
    assert [name for name, _ in lines if name not in folders] == []
    assert folders == {name for name, _ in lines}
    for name, text in lines:
        below = {path.name for path in (PACKAGES["doyen"] / name).iterdir() if (path / "__init__.py").exists()}
        assert set(re.findall(r"(\w+)/", text)) == (below if name != "cli" else set()), name
