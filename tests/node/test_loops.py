"""The API's tests on other event loops, ways to run Python, and versions of it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LOOPS = {
    "default": ({}, []),
    "uvloop": ({"DOYEN_LOOP": "uvloop"}, []),
    "eager": ({"DOYEN_LOOP": "eager"}, []),
    "debug": ({"PYTHONASYNCIODEBUG": "1"}, []),
    "-O": ({}, ["-O"]),
}
API = ["test_join.py", "test_leader.py", "test_life.py", "test_sync.py", "test_singleton.py", "test_baton.py"]
FEW = "test_the_last_cooldown_counts or test_what_ends_a_body"
# uvloop reports a connection that ends with its loop as unclosed, and cannot close where that is an error; pytest -O
# reports that it does not hear other modules' asserts.
HARMLESS = ["-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestConfigWarning"]


def run_with(python: str, loop: str, *chosen: str) -> None:
    variables, flags = LOOPS[loop]
    paths = [str(HERE / name) for name in API]
    # uvloop hangs in its own close() where a server was cancelled while it was made.
    unfit = ["--deselect", "tests/node/test_life.py::test_a_join_may_be_cancelled_at_any_step"] * (loop == "uvloop")
    line = [python, *flags, "-m", "pytest", "-q", "-p", "loops", *HARMLESS, *unfit, *paths, *chosen]
    environment = os.environ | variables | {"PYTHONPATH": str(HERE.parent / "helpers")}
    done = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=600, cwd=HERE.parents[1])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]  # 5: there was no such test.


@pytest.mark.live
@pytest.mark.parametrize("loop", ["uvloop", "eager"])
def test_leadership_is_given_up_again_and_again_on_any_loop(loop: str) -> None:
    pytest.importorskip("uvloop", reason="pip install doyen[uvloop]") if loop == "uvloop" else None
    run_with(sys.executable, loop, "-k", FEW)


@pytest.mark.soak
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_the_api_works_with_any_python_on_any_loop(
    version: str, loop: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    python = found(version)
    if python is None:
        pytest.skip(f"Python {version} is not on this machine")
    venv = tmp_path_factory.getbasetemp() / f"venv-{version}"
    if not venv.exists():
        subprocess.run([python, "-m", "venv", venv], check=True)
        packages = ["-e", f"{HERE.parents[1]}[secure,uvloop]", "pytest", "hypothesis"]
        subprocess.run([venv / "bin/pip", "install", "--quiet", *packages], check=True)
    run_with(str(venv / "bin/python"), loop)


def found(version: str) -> str | None:
    """Return an interpreter of that version: one of pyenv's, or in the path; pyenv's shims there may be of no use."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    installed = sorted(pyenv.glob(f"{version}.*/bin/python"))
    return str(installed[-1]) if installed else shutil.which(f"python{version}")
