"""Every how-to works as it is written on a plain install: wheels, a fresh environment, another folder.

The snippets of all pages are run from the tree by `test_docs.py`.  Here each page's packages are installed as it says,
and nothing else leads to the code.  `test_plain_hosts.py` does what pages say of several hosts.
"""

import re
import subprocess
from pathlib import Path

import pytest
from plain import BLOCK, ROOT, Installs, bare, shell_commands, to_install
from plain_hosts import HOW_TO
from stores import ServerOf, snippets

PAGES = sorted([*HOW_TO.glob("*.md"), *(ROOT / "docs" / "tutorial").glob("*.md")])


def run_page(page: Path, installs: Installs, server_of: ServerOf, folder: Path) -> int:
    """Run a page's commands and snippets, in order, in an empty folder; return how many there were.

    Those that need a store come last, with the address of a real one put in.
    """
    bin_folder = installs.environment(to_install(page))
    environment = bare(bin_folder, DOYEN_RUNTIME_DIR=str(folder / "run"), XDG_STATE_HOME=str(folder / "state-home"))
    if "in a checkout" in page.read_text():
        (folder / "scenarios").symlink_to(ROOT / "scenarios")
    count, together = 0, ""
    for kind, body in BLOCK.findall(page.read_text()):
        if kind == "console":
            for command in shell_commands(body):
                run_in(folder, environment, ["bash", "-c", command], f"{page.name}: {command}")
                count += 1
        elif kind == "python":
            together, count = together + body, count + 1
    if together:
        (folder / "snippets.py").write_text(f"{together}\nimport doyen; print(doyen.__file__)\n")
        said = run_in(folder, environment, [str(bin_folder / "python"), "snippets.py"], f"{page.name}: its snippets")
        assert said.splitlines()[-1].startswith(str(bin_folder.parent)), "it runs the installed code"
    for text in snippets(page, server_of):
        run_in(folder, environment, [str(bin_folder / "python"), "-c", text], f"{page.name}: {text[:200]}")
        count += 1
    return count


def run_in(folder: Path, environment: dict[str, str], command: list[str], what: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0 and done.stdout.strip(), f"{what}\n{done.stdout[-500:]}\n{done.stderr[-1500:]}"
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_says_what_to_install(page: Path) -> None:
    assert any(re.match("doyen", package) for package in to_install(page)), page.name


@pytest.mark.live
def test_one_page_runs_on_a_plain_install(installs: Installs, server_of: ServerOf, tmp_path: Path) -> None:
    assert run_page(HOW_TO / "discover.md", installs, server_of, tmp_path) >= 1


@pytest.mark.soak
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_runs_on_a_plain_install(
    page: Path, installs: Installs, server_of: ServerOf, tmp_path: Path
) -> None:
    assert run_page(page, installs, server_of, tmp_path) >= 1
