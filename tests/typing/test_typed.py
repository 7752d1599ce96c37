"""A type checker refuses what a node would refuse, before anything runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

GOOD = """\
import doyen
import doyen.sync


async def main() -> None:
    async with doyen.join(
        "g",
        election=doyen.Hybrid(missing_max=3, response_timeout="100ms"),
        membership=doyen.Swim(period=0.5),
        elections={"mail": "le-s", "cron": doyen.Pole(lease="2s")},
        voters=["a"],
        volatile=True,
        swim={"helper_count": 2},
        meta={"zone": "eu"},
        score=lambda: 1.0,
    ) as node:
        async with node.lead(timeout="3s") as term:
            print(term.number + 1)
        print([member.name for member in node.members()])
        if node.leader is not None:
            print(node.leader.name.upper(), (node.leader.address or "").upper(), node.leader.meta["url"].upper())
            print(node.leader.since + 1.0, node.leader.term + 1)


with doyen.sync.join("g", election="pole", voters=["a"], volatile=True) as node:
    with node.lead(timeout=3) as term:
        term.check()
    leader: doyen.LeaderInfo | None = node.leader


@doyen.singleton("g", preset="local")
async def count(to: int, *, by: int = 1) -> list[int]:
    doyen.current_term().check()
    return list(range(0, to, by))


@doyen.singleton("g", election=doyen.Hybrid(missing_max=3))
def total(numbers: list[int]) -> int:
    return sum(numbers) + doyen.current_term().number


async def use() -> int:
    async with doyen.join("g", on_elected=lambda term: print(term.number), on_lost=print):
        return total(await count(3, by=2))
"""

BAD = {
    "a field that is not there": 'doyen.join("g", election=doyen.Hybrid(mising_max=3))',
    "a field of the wrong type": 'doyen.join("g", election=doyen.Hybrid(missing_max="many"))',
    "a duration of the wrong type": 'doyen.join("g", election=doyen.Pole(lease=["2s"]))',
    "an election that is not there": 'doyen.join("g", election="hybird")',
    "a membership for an election": 'doyen.join("g", election=doyen.Swim())',
    "an argument that is not there": 'doyen.join("g", sedes=["a"])',
    "an argument of the wrong type": 'doyen.join("g", group_size="ten")',
    "a preset that is not there": 'doyen.join("g", preset="moon")',
    "a leader that may be nobody": 'doyen.sync.join("g").leader.name',
    "one of threads": 'doyen.sync.join("g", election="hybird")',
    "a singleton's argument of the wrong type": 'doyen.singleton("g")(len)(3)',
    "a singleton's field that is not there": 'doyen.singleton("g", sedes=["a"])',
    "a callback that is no function": 'doyen.join("g", on_elected=3)',
}


CHECKERS = {
    "mypy": ["mypy", "--strict", "--disable-error-code=import-untyped", f"--cache-dir={ROOT}/.mypy_cache/typed"],
    "pyright": ["pyright", "--pythonpath", sys.executable],
}


def programs(folder: Path) -> Path:
    """Write a good and a bad program, and every example.

    The snippets of a page are one program; a package among the examples is another.
    """
    (folder / "good.py").write_text(GOOD)
    (folder / "bad.py").write_text(
        "import doyen\nimport doyen.sync\n\n" + "".join(f"{line}\n" for line in BAD.values())
    )
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        snippets = re.findall(r"^```python[^\n]*\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        if snippets:
            name = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
            (folder / f"{name}.py").write_text("\n".join(snippets))
    shutil.copytree(ROOT / "examples/bully/src/bully", folder / "bully")
    assert len([*folder.glob("*.py")]) > 12
    return folder


@pytest.fixture(scope="module", params=CHECKERS)
def complaints(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return what a type checker complains about, by file."""
    folder = programs(tmp_path_factory.mktemp("typed"))
    paths = str(ROOT / "src")
    done = subprocess.run(
        [sys.executable, "-m", *CHECKERS[request.param], str(folder)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": paths, "MYPYPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        where = re.search(r"([\w/]+\.py):\d+:.*error", line)
        if where:
            found.setdefault(Path(where[1]).name, []).append(line)
    return found


def test_a_type_checker_refuses_bad_programs(complaints: dict[str, list[str]]) -> None:
    said = "\n".join(complaints["bad.py"])
    for number, what in enumerate(BAD, start=4):
        assert f"bad.py:{number}:" in said, f"{what} is taken\n{said}"


def test_good_programs_and_every_example_are_taken(complaints: dict[str, list[str]]) -> None:
    assert complaints.keys() == {"bad.py"}, complaints
