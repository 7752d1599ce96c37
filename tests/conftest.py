"""For all tests."""

import signal
from collections.abc import Callable
from typing import Any

import pytest

# A shell that runs the suite in the background has made it deaf to Ctrl-C, and the processes that tests start and
# interrupt would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def tell(record_property: Callable[[str, Any], None]) -> Callable[[str], None]:
    """A figure that was measured, for the end of the suite's output, whichever process ran the test."""
    return lambda text: record_property("told", text)


@pytest.fixture(scope="session")
def as_mutant() -> Callable[[type[Any]], Any]:
    """What makes of a class that is broken on purpose the argument `tamper` of `simulate`.

    Every machine of the class that the mutant derives from becomes a mutant.  A mutant overrides methods; it has no
    slots and no `__init__` of its own, for the machine has been made already.
    """

    def tampering(mutant: type[Any]) -> Any:
        def tamper(node: Any, channel: str, port: Any, machine: Any) -> Any:
            if issubclass(mutant, type(machine)):
                machine.__class__ = mutant
            return machine

        return tamper

    return tampering


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
