"""A test on real time that fails on a quiet machine is forgiven once per worker, and told."""

import os
import subprocess
import sys
from pathlib import Path

HELPERS = Path(__file__).parents[1] / "helpers"
CONFTEST = """
import sys
sys.path.insert(0, {helpers!r})
import stalls
stalls.STALL_MAX_NS, stalls.BUSY_MAX = {stall_max}, {busy_max}

def pytest_runtest_protocol(item, nextitem):
    stalls.run_and_repeat(item, nextitem)
    return True

def pytest_runtest_logreport(report):
    for _, text in report.user_properties:
        print("TOLD", text)
"""
TESTS = """
seen = {"first": 0, "second": 0}

def test_first():
    seen["first"] += 1
    assert seen["first"] == 2

def test_second():
    seen["second"] += 1
    assert seen["second"] == 2

def test_never():
    assert False
"""


def outcome(folder: Path, stall_max: int, busy_max: float) -> str:
    (folder / "conftest.py").write_text(CONFTEST.format(helpers=str(HELPERS), stall_max=stall_max, busy_max=busy_max))
    (folder / "test_it.py").write_text(TESTS)
    env = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(folder)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, cwd=folder).stdout


def test_a_quiet_machine_forgives_one_test_of_a_worker(tmp_path: Path) -> None:
    said = outcome(tmp_path, stall_max=10**12, busy_max=10**6)
    assert "2 failed, 1 passed" in said
    assert (
        "TOLD failed and repeated: test_it.py::test_first (the machine was QUIET, look into it: assert 1 == 2)" in said
    )
    assert "test_second (the machine" not in said


def test_a_machine_that_stalls_forgives_each_test_and_never_one_that_always_fails(tmp_path: Path) -> None:
    said = outcome(tmp_path, stall_max=-1, busy_max=10**6)
    assert "1 failed, 2 passed" in said
    assert "test_second (the machine stalled for" in said
