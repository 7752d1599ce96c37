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
soak.PAGE = soak.HERE / "page.md"
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
FLAKY = """
    from pathlib import Path
    assert not Path("fails").exists()
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


def test_what_fails_anew_is_struck_out_and_counted(tree: Path) -> None:
    ran(tree)
    (tree / "tests/test_long.py").write_text(LONG.replace("assert not answer.value()", "pass"))
    assert ran(tree) == ["answer", "fails", "skipped"]
    assert [*kept(tree)["passed"]] == ["test_answer", "test_fails"] and kept(tree)["failed"] == {}
    (tree / "fails").touch()
    (tree / "tests/test_long.py").write_text(LONG.replace("assert not answer.value()", FLAKY))
    ran(tree)
    (tree / "fails").unlink()
    assert kept(tree)["failed"] == {"test_fails": 1} and ran(tree) == ["fails", "skipped"]
    assert [*kept(tree)["passed"]] == ["test_answer", "test_fails"]
    (tree / "fails").touch()
    assert ran(tree, "anew") == ["answer", "fails", "skipped"]
    assert [*kept(tree)["passed"]] == ["test_answer"] and kept(tree)["failed"] == {"test_fails": 2}


def test_what_ran_on_code_that_changed_meanwhile_is_not_written_down(tree: Path) -> None:
    changes = 'open("pack/answer.py", "a").write("OTHER = 1\\n")'
    (tree / "tests/test_long.py").write_text(LONG.replace('note("answer")', f'note("answer"); {changes}'))
    assert ran(tree) == ["answer", "fails", "skipped"]
    assert not (tree / "passed.json").exists() or "test_answer" not in kept(tree)["passed"]


@pytest.mark.parametrize("name", ["tests/beside.py", "tests/conftest.py", "pack/spec.tla", "pyproject.toml"])
def test_other_files_beside_it_are_its_code(tree: Path, name: str) -> None:
    ran(tree)
    assert "answer" not in ran(tree)
    (tree / name).write_text("# Words.\nX = 1\n" if name.endswith("py") else "")
    assert "answer" in ran(tree)


def test_another_file_of_tests_beside_it_is_not_its_code(tree: Path) -> None:
    ran(tree)
    (tree / "tests/test_other.py").write_text("X = 1\n")
    assert "answer" not in ran(tree)


def test_the_code_of_a_file_is_what_all_of_its_tests_imported(tree: Path) -> None:
    for folder in ("pack/other", "pack/third"):
        (tree / folder).mkdir()
        (tree / folder / "__init__.py").write_text("X = 1\n")
    loads = 'from pack import other; note("answer")'
    long = LONG.replace('note("answer")', loads).replace("assert not answer.value()", "import pack.third" + FLAKY)
    (tree / "tests/test_long.py").write_text(long)
    (tree / "fails").touch()
    ran(tree)
    (tree / "fails").unlink()
    assert ran(tree) == ["fails", "skipped"]  # In a process that never imports `pack.other`.
    assert kept(tree)["folders"] == ["pack", "pack.other", "pack.third"]
    (tree / "pack/other/__init__.py").write_text("X = 2\n")
    assert "answer" in ran(tree)


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
    assert kept(tree)["passed"] == {}


def script() -> Any:
    spec = importlib.util.spec_from_file_location("soak_script", SCRIPT)
    assert spec is not None and spec.loader is not None
    soak = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(soak)
    return soak


def test_files_that_start_programs_depend_on_what_they_name_and_on_what_a_node_may_import() -> None:
    soak = script()

    def has(file: str, *imported: str) -> set[str]:
        folders = {str(path.parent.relative_to(soak.HERE)) for path in soak._files(file, imported)}
        return {folder for folder in soak.UNSEEN if any(name.endswith(folder.replace(".", "/")) for name in folders)}

    assert has("tests/engines/test_engine.py") == {*soak.UNSEEN} - {"doyen_papers"}  # It runs what pages say.
    assert has("tests/lab/test_singleton.py", "doyen.core") == set()
    assert has("tests/lab/test_singleton.py", "doyen.core", "doyen.audit") == {"doyen.audit"}
    assert has("tests/lab/test_audit.py", "doyen.core") >= {"doyen.audit"}
    assert has("tests/sim/test_churn.py", "doyen.core") == set()
    assert has("tests/papers/test_items.py") >= {"doyen_papers"}


def test_no_node_and_no_runner_imports_what_a_file_need_not_depend_on() -> None:
    starts = "import doyen.cli.agent, doyen.cli.run, doyen.node, doyen.runner, doyen.sync, doyen.singletons, sys"
    shown = f"{starts}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True).stdout.split()
    assert "doyen.node.node" in loaded and not [name for name in loaded if name.startswith((*script().UNSEEN,))]


def test_files_on_real_time_are_told_apart() -> None:
    soak = script()
    assert soak.is_on_real_time("tests/lab/test_will.py") and soak.is_on_real_time("tests/docs/test_plain_hosts.py")
    assert not soak.is_on_real_time("tests/sim/test_pole_chaos.py")
    assert soak.starts_programs("tests/net/test_recording_fuzz.py") and not soak.starts_programs(
        "tests/sim/test_churn.py"
    )
    names = soak.files("")
    assert "tests/sim/test_ring_storm.py" in names and "tests/core/test_clock.py" not in names
