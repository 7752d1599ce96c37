"""The long tests go on where they stopped: what has passed on the same code is left out, and nothing else."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/soak.py"
RUN = """
import importlib.util, sys
from pathlib import Path

spec = importlib.util.spec_from_file_location("soak", sys.argv[1])
soak = importlib.util.module_from_spec(spec)
spec.loader.exec_module(soak)
soak.HERE = Path.cwd()
soak.LEDGER, soak.LOCK = soak.HERE / "passed.json", soak.HERE / "build/lock"
soak.PACKAGES = {"pack": soak.HERE / "pack"}
soak._git = lambda *words: "abc"
sys.path.insert(0, str(soak.HERE))
sys.exit(soak.run_one("tests/test_long.py", len(sys.argv) > 2))
"""
LONG = """
import pytest
from pack import answer


def note(name):
    with open("ran", "a") as file:
        file.write(name + " ")


@pytest.mark.soak
def test_answer(record_property):
    note("answer")
    record_property("told", "7 seeds")
    assert answer.value() == 42


@pytest.mark.soak
def test_fails():
    note("fails")
    assert not answer.value()


@pytest.mark.soak
def test_is_skipped():
    note("skipped")
    pytest.skip("no machine for it")


def test_short():
    note("short")
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for folder in ("pack", "unused", "tests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "pack/__init__.py").write_text("")
    (tmp_path / "pack/answer.py").write_text("def value():\n    return 42\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = soak: long\n")
    (tmp_path / "tests/test_long.py").write_text(LONG)
    return tmp_path


def ran(tree: Path, *more: str, **environment: str) -> list[str]:
    """Return the tests that one call of the script ran."""
    (tree / "ran").write_text("")
    command = [sys.executable, "-c", RUN, str(SCRIPT), *more]
    surroundings = {name: value for name, value in os.environ.items() if name != "DOYEN_SEEDS"}
    subprocess.run(command, cwd=tree, env=surroundings | environment, capture_output=True, check=False)
    return (tree / "ran").read_text().split()


def kept(tree: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tree / "passed.json").read_text())["tests/test_long.py"]
    return found


def test_what_passed_is_left_out_and_what_failed_or_was_skipped_is_not(tree: Path) -> None:
    assert ran(tree) == ["answer", "fails", "skipped"]
    assert [*kept(tree)["passed"]] == ["test_answer"] and kept(tree)["told"] == {"test_answer": ["7 seeds"]}
    assert kept(tree)["folders"] == ["pack"]
    assert ran(tree) == ["fails", "skipped"]
    assert ran(tree, "anew") == ["answer", "fails", "skipped"]


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ('"""It knows."""\n\n\ndef value():\n    """Return it."""\n    return 42  # Of course.\n', False),
        ("def value():\n    return 41 + 1\n", True),
    ],
    ids=["words", "code"],
)
def test_other_code_is_run_again_and_other_words_are_not(tree: Path, text: str, again: bool) -> None:
    ran(tree)
    (tree / "pack/answer.py").write_text(text)
    assert ("answer" in ran(tree)) is again
    assert [*kept(tree)["passed"]] == ["test_answer"]


def test_a_test_that_no_longer_passes_is_forgotten_with_its_code(tree: Path) -> None:
    ran(tree)
    (tree / "pack/answer.py").write_text("def value():\n    return 0\n")
    assert ran(tree) == ["answer", "fails", "skipped"]
    assert [*kept(tree)["passed"]] == ["test_fails"]


def test_fewer_seeds_do_not_count(tree: Path) -> None:
    ran(tree, DOYEN_SEEDS="100")
    assert not (tree / "passed.json").exists()


def test_files_on_real_time_depend_on_everything() -> None:
    spec = importlib.util.spec_from_file_location("soak_script", SCRIPT)
    assert spec is not None and spec.loader is not None
    soak = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(soak)
    assert soak.is_on_real_time("tests/lab/test_will.py") and soak.is_on_real_time("tests/docs/test_plain_hosts.py")
    assert not soak.is_on_real_time("tests/sim/test_pole_chaos.py")
    names = soak.files("")
    assert "tests/sim/test_ring_storm.py" in names and "tests/core/test_clock.py" not in names
