"""Every command and snippet in README and docs is run: the commands of console blocks, python blocks in order."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from plain import shell_commands

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKED = [
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    if (ROOT / name).exists()
]
FENCED = re.compile(r"^\s*```.*?^\s*```", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for kind, body in BLOCK.findall(page.read_text()):
            if kind == "console":
                found += [(str(page.relative_to(ROOT)), command) for command in shell_commands(body)]
    return found


@pytest.fixture(scope="session")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has what a checkout has, and where commands may leave files."""
    place = tmp_path_factory.mktemp("docs")
    for name in ("scenarios", "src", "packages", "Makefile", "pyproject.toml", "scripts", "README.md"):
        (place / name).symlink_to(ROOT / name)
    (place / ".venv").mkdir()
    (place / ".venv" / "bin").symlink_to(ROOT / ".venv" / "bin")
    (place / ".venv" / ".up").touch()  # Else `make up` would install this folder into the checkout's own .venv.
    return place


@pytest.mark.parametrize(("page", "command"), commands(), ids=lambda part: part if isinstance(part, str) else None)
def test_the_command_works(page: str, command: str, playground: Path) -> None:
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    env["DOYEN_RUNTIME_DIR"] = str(
        playground / "run"
    )  # `doyen doctor` looks at every node here, those of other tests too.
    env["XDG_STATE_HOME"] = str(playground / "state-home")
    done = subprocess.run(
        ["bash", "-c", command], cwd=playground, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{page}: {command}\n{done.stdout[-500:]}\n{done.stderr[-1000:]}"
    assert done.stdout.strip(), f"{page}: {command} says nothing"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_snippets_run(page: Path, playground: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(playground)
    scope: dict[str, object] = {"__name__": "docs"}
    for kind, body in BLOCK.findall(page.read_text()):
        if kind == "python":
            exec(compile(body, str(page), "exec"), scope)


def slug(heading: str) -> str:
    """Return the anchor that GitHub and the site give a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {slug(line) for line in re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.MULTILINE)}


def dead_links(page: Path) -> list[str]:
    """Return the links of a page, within the repository, whose file or heading is not there."""
    found = []
    text = re.sub(r"`[^`\n]*`", "", FENCED.sub("", page.read_text()))
    for target, anchor in re.findall(r"\]\((?!\w+:)([^)#\s]*)#?([^)\s]*)\)", text):
        file = page.parent / target if target else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            found.append(f"{target}#{anchor}" if anchor else target)
    return found


def test_no_page_waits_for_words_or_figures() -> None:
    waits = re.compile(r"@@|\bTODO\b|\bFIXME\b|\bXXX\b|\bTBD\b")
    found = {str(page.relative_to(ROOT)): waits.findall(FENCED.sub("", page.read_text())) for page in LINKED}
    assert {page: words for page, words in found.items() if words} == {}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert dead_links(page) == []


def test_the_site_has_every_page_and_no_dead_link(tmp_path: Path) -> None:
    """`make docs` runs mkdocs on these pages, which fails on dead links, too."""
    spec = importlib.util.spec_from_file_location("site_script", ROOT / "scripts" / "site.py")
    assert spec and spec.loader
    site = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(site)
    site.gather(tmp_path)
    pages = {page.relative_to(tmp_path).as_posix(): page for page in tmp_path.rglob("*.md")}
    listed = json.dumps(site.navigation(tmp_path))
    assert [name for name in pages if f'"{name}"' not in listed] == []
    assert {name: dead for name, page in pages.items() if (dead := dead_links(page))} == {}
    assert len(pages) > 90


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One `two`: three\n\n[a](#one-two-three) [b](#one) [c](gone.md) [d](page.md#one-two-three)\n")
    assert dead_links(page) == ["#one", "gone.md"]


def test_a_command_may_go_on_over_several_lines() -> None:
    body = "$ for n in 1 2; do\n>   echo $n\n> done\nfirst\n$ echo third\n> echo fourth\npip install doyen\n"
    assert shell_commands(body) == ["for n in 1 2; do\n  echo $n\ndone", "echo third\necho fourth"]


def test_there_is_something_to_check() -> None:
    assert len(commands()) > 20


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text()
    for page in sorted(folder.glob("0*.md")):
        assert f"]({page.name})" in index, page.name
