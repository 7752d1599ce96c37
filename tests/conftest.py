"""For all tests."""

import atexit
import gc
import itertools
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "helpers"))  # What tests of several folders share.

from stalls import run_and_repeat

# A shell that runs the suite in the background has made it deaf to Ctrl-C, and the processes that tests start and
# interrupt would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Nodes of tests that run at the same time, and the user's own, must not find each other.
_RUNTIME = os.environ["DOYEN_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="doyen-test-")
atexit.register(shutil.rmtree, _RUNTIME, ignore_errors=True)
_numbers = itertools.count()

ON_REAL_TIME = tuple(
    f"tests/{folder}/"
    for folder in ("cli", "compat", "contrib", "deploy", "docs", "examples", "first", "lab", "net", "node")
)


@pytest.fixture(autouse=True)
def _runtime_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do those of a test that failed, and left nodes behind."""
    if os.environ["DOYEN_RUNTIME_DIR"] == _RUNTIME:  # Fixtures of larger scope may have chosen another.
        monkeypatch.setenv("DOYEN_RUNTIME_DIR", f"{_RUNTIME}/{next(_numbers)}")


@pytest.fixture
def tell(record_property: Callable[[str, Any], None]) -> Callable[[str], None]:
    """A figure that was measured, for the end of the suite's output, whichever process ran the test."""
    return lambda text: record_property("told", text)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A test on real time is repeated if it fails while the machine stalls."""
    marked = item.get_closest_marker("live") or item.get_closest_marker("alone")
    if item.get_closest_marker("soak") or not (marked or item.nodeid.startswith(ON_REAL_TIME)):
        return None
    run_and_repeat(item, nextitem)
    return True


MARKS = ("live", "alone")


def demanded(expression: str) -> list[str]:
    """Return the marks that every test of `-m "A and B and not C"` has; none of a longer expression is looked for."""
    parts = [] if " or " in expression or "(" in expression else expression.split(" and ")
    return [mark for mark in MARKS if mark in parts]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files are not imported where all of their tests would be deselected: each worker would do that again."""
    marks = demanded(config.getoption("markexpr"))
    if not marks or collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    text = collection_path.read_text()
    return True if any(f"mark.{mark}" not in text for mark in marks) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A mark from elsewhere would not be found by the search above."""
    for path, mark in {(item.path, mark.name) for item in items for mark in item.iter_markers() if mark.name in MARKS}:
        if f"mark.{mark}" not in path.read_text():
            raise pytest.UsageError(f"{path} does not write `mark.{mark}` out, so `-m {mark}` would not find its tests")


def pytest_collection_finish() -> None:
    """Thousands of collected tests are not looked through again at each collection of garbage."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    told = [
        text
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, text in getattr(report, "user_properties", ())
        if name == "told" and report.when == "call"
    ]
    if told:
        terminalreporter.section("measured")
        for text in told:
            terminalreporter.write_line(text)
