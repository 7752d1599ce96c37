"""Whether the machine was too busy while a test on real time ran: such a failure is tried again, and told."""

import gc
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from doyen.net.driver import boot_time_ns

STALL_MAX_NS = (
    150_000_000  #: Below the shortest timeout that nodes under test wait for: ack_timeout on a LAN is 300 ms.
)
BUSY_MAX = 0.5  #: The share of the time in which some process waited for a processor.
REPEAT_MAX = 2
UNEXPLAINED_MAX = 1  #: Tests of one worker that may fail once on a quiet machine: a second one fails the suite.
PRESSURE = Path("/proc/pressure/cpu")
unexplained: set[str] = set()  # The tests of this worker that failed on a quiet machine.


def waited_s() -> float:
    """Return for how long some process of this machine has waited for a processor, ever; 0 where nobody counts it."""
    try:
        return int(PRESSURE.read_text().split("total=", 1)[1].split()[0]) / 1e6
    except OSError:
        return 0.0


class Stalls:
    """The longest time for which a thread of this process, which wants to run every 10 ms, was kept from it."""

    def __enter__(self) -> "Stalls":
        self._began, self._waited_s = time.monotonic(), waited_s()
        self.worst_ns, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.busy = (waited_s() - self._waited_s) / max(time.monotonic() - self._began, 1e-3)

    def _watch(self) -> None:
        before = boot_time_ns()
        while not self._over.wait(0.01):
            now = boot_time_ns()
            self.worst_ns, before = max(self.worst_ns, now - before), now


def forget_what_failed() -> None:
    """Collect the sockets that a failed test left open, so that no later test is blamed for them."""
    sys.last_type = sys.last_value = sys.last_traceback = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def run_and_repeat(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Run a test, and run it again if it failed and the machine stalled or was busy meanwhile; report the last run.

    One test of a worker is also repeated, once, if it failed on a quiet machine: a race worth a look.
    A test that was repeated says so in `measured`, at the end of the suite's output, with the error of its first run.
    """
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    repeated: list[str] = []
    while True:
        with Stalls() as stalls:
            # `nextitem=item` would keep fixtures of larger scope; they may be what the stall has broken.
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
        failed = next((report for report in reports if report.failed), None)
        if failed is None or len(repeated) == REPEAT_MAX:
            break
        if stalls.worst_ns > STALL_MAX_NS or stalls.busy > BUSY_MAX:
            told = f"stalled for {stalls.worst_ns / 1e9:.2f} s, processors wanted in {stalls.busy:.0%} of the time"
        elif not repeated and len(unexplained) < UNEXPLAINED_MAX:
            unexplained.add(item.nodeid)
            told = f"was QUIET, look into it: {last_line(failed)}"
        else:
            break
        repeated.append(told)
        item._initrequest()  # type: ignore[attr-defined]  # pytest's own way to run an item afresh.
        forget_what_failed()
    if failed is not None:
        forget_what_failed()
    for report in reports:
        if repeated and report.when == "call":
            text = f"failed and repeated: {item.nodeid} (the machine {'; then '.join(repeated)})"
            report.user_properties.append(("told", text))
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def last_line(report: pytest.TestReport) -> str:
    """Return the error of a failed test in one line."""
    lines = [line for line in report.longreprtext.splitlines() if line.strip()]
    errors = [line[1:] for line in lines if line.startswith("E ")]  # A group of errors has none.
    return ([report.when or "", *lines, *errors][-1]).strip()[:200]
