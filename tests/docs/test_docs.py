"""Every command and snippet in README and docs is run: `$ ` lines of console blocks, python blocks in order."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for kind, body in BLOCK.findall(page.read_text()):
            if kind == "console":
                lines = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
                found += [(str(page.relative_to(ROOT)), line) for line in lines]
    return found


@pytest.fixture(scope="session")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has what a checkout has, and where commands may leave files."""
    place = tmp_path_factory.mktemp("docs")
    for name in ("scenarios", "src", "packages", "Makefile", ".venv", "pyproject.toml", "scripts", "README.md"):
        (place / name).symlink_to(ROOT / name)
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_there_is_something_to_check() -> None:
    assert len(commands()) > 20


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text()
    for page in sorted(folder.glob("0*.md")):
        assert f"]({page.name})" in index, page.name
