"""`import doyen` stays light: nothing but msgspec, and little of it."""

import statistics
import subprocess
import sys
from collections.abc import Callable

PROBE = """
import resource, sys, time
import msgspec
def rss_kb():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() // 1024
before, began, had = rss_kb(), time.perf_counter(), set(sys.modules)
import doyen
took = time.perf_counter() - began
from importlib.util import find_spec
new = {name.split(".")[0] for name in set(sys.modules) - had}
print(took * 1000, (rss_kb() - before) / 1024, ",".join(sorted(new - sys.stdlib_module_names)))
"""


def test_import_doyen_loads_nothing_but_msgspec(tell: Callable[[str], None]) -> None:
    samples = []
    for _ in range(11):
        ms, mb, others = (
            subprocess.run([sys.executable, "-c", PROBE], check=True, capture_output=True, text=True)
            .stdout.rstrip("\n")
            .split(" ")
        )
        samples.append((float(ms), float(mb)))
        assert set(others.split(",")) <= {"doyen", "msgspec"}
    took_ms = statistics.median(ms for ms, _ in samples)
    took_mb = statistics.median(mb for _, mb in samples)
    tell(f"import doyen: {took_ms:.1f} ms and {took_mb:.2f} MB above import msgspec (median of 11)")
    assert took_ms <= 15
    assert took_mb <= 3
