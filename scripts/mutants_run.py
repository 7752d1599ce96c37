"""Runs tests on a mutant: in a fork of a process that has collected all tests already, or in one that imports doyen anew.

The first way costs the tests alone: pytest, doyen and the tests are loaded once, and in each fork the mutated
function gets its new code.  It does not see what runs at import (constants, defaults, tables of parameters): the
second way does, and costs some seconds more.
"""

import gc
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from mutants_sites import Mutant

CPU_S, WALL_S = 60, 240  # Of one mutant.
MEMORY = 2 << 30  # That a mutant may use beyond what is loaded.
QUIET = ["-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
CHOSEN = ["-m", "not soak and not live and not alone"]
ON_REAL_TIME = ("tests/net/", "tests/node/")


class End(NamedTuple):
    """How a run ended: `survived`, `killed` (a test failed), `time` (one ran on and on), `wall` (one waited for ever)."""

    how: str
    by: str
    told: str
    cpu_s: float


def tests_cpu_max(seconds: float) -> float:
    """Return how much processor a test may use, given what it takes alone: a loop without an end is found soon."""
    return 2 + 5 * seconds


class Changed:
    """A mutant's source in the place of the original, for as long as the block lasts."""

    count = 0

    def __init__(self, tree: Path, kept: Path, mutant: Mutant) -> None:
        self.path, self.kept, self.mutant = tree / mutant.path, kept, mutant
        self.source = self.path.read_bytes()
        self.changed = self.source[: mutant.start] + mutant.text.encode() + self.source[mutant.end :]

    def __enter__(self) -> "Changed":
        self.stat = self.path.stat()
        # For a run that is ended meanwhile.
        self.kept.write_text(json.dumps([self.mutant.path, self.source.decode(), self.stat.st_mtime]))
        self.path.write_bytes(self.changed)
        Changed.count += 1
        unlike = self.stat.st_mtime + 100_000 + Changed.count * 10
        os.utime(self.path, (unlike, unlike))  # Bytecode of the file as it was must not pass for this one's.
        return self

    def __exit__(self, *_: object) -> None:
        self.path.write_bytes(self.source)
        os.utime(self.path, (self.stat.st_atime, self.stat.st_mtime))
        self.kept.unlink()


def restore(tree: Path, kept: Path) -> None:
    """Put the source back that a run which was ended has left changed."""
    if kept.exists():
        path, source, at = json.loads(kept.read_text())
        (tree / path).write_text(source)
        os.utime(tree / path, (at, at))
        kept.unlink()


# In a process that has collected all tests.


class Loaded:
    """A pytest plugin: once all is collected, it runs chosen tests on one mutant after the other, each in a fork."""

    def __init__(self, tree: Path, seconds: dict[str, float], work: Any) -> None:
        self.tree, self.seconds, self.work = tree, seconds, work
        self.functions: dict[str, list[FunctionType]] = {}

    def pytest_runtestloop(self, session: Any) -> bool:
        import doyen

        assert Path(doyen.__file__).is_relative_to(self.tree), doyen.__file__
        self.items = {item.nodeid: item for item in session.items}
        gc.unfreeze()
        for found in gc.get_objects():
            if isinstance(found, FunctionType) and found.__code__.co_filename.startswith(str(self.tree / "src")):
                self.functions.setdefault(found.__code__.co_filename, []).append(found)
        gc.collect()
        gc.freeze()
        self.work(self)
        return True

    def replacements(self, changed: Changed | None) -> list[tuple[FunctionType, CodeType]] | None:
        """Return the functions around the mutant's line, each with its new code; None: none of them runs it."""
        if changed is None:
            return []
        path, mutant = str(changed.path), changed.mutant
        try:
            before, after = _codes(changed.source, path), _codes(changed.changed, path)
        except SyntaxError:
            return None
        lines = range(mutant.line, changed.source[: mutant.end].count(b"\n") + 2)
        found = []
        for function in self.functions.get(path, []):
            old = function.__code__
            within = [line for _, _, line in old.co_lines() if line is not None]
            if not within or lines.stop <= min(within) or lines.start > max(within):
                continue
            alike, others = before.get(old.co_qualname, []), after.get(old.co_qualname, [])
            place = next((i for i, code in enumerate(alike) if code.co_firstlineno == old.co_firstlineno), None)
            if place is None or len(alike) != len(others) or others[place].co_freevars != old.co_freevars:
                return None
            if others[place] != old:
                found.append((function, others[place]))
        return found or None

    def run(self, changed: Changed | None, tests: list[str], cpu_max: float = CPU_S) -> End:
        """Run tests in a fork, with the mutant in place where one is given, until so much processor is used."""
        new = self.replacements(changed)
        assert new is not None
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            try:
                os.setpgid(0, 0)
                for function, code in new:
                    function.__code__ = code
                self._run_in_child(writing, tests, cpu_max)
            finally:
                os._exit(99)
        os.close(writing)
        how, status, used = _wait(child, 40 + 30 * sum(self.seconds.get(test, 1.0) for test in tests))
        words = b""
        while part := os.read(reading, 1 << 16):
            words += part
        os.close(reading)
        lines = words.decode(errors="replace").splitlines()
        at = [line for line in lines if line.startswith("begins ")]
        by = at[-1].split(" ", 1)[1] if at else ""
        failed = [line.split(" ", 1)[1] for line in lines if line.startswith("failed ")]
        if failed:
            return End("killed", by, failed[0], used)
        if how == "wall":
            return End("wall", by, "", used)
        if os.WIFSIGNALED(status):
            return End(
                "time" if os.WTERMSIG(status) == signal.SIGPROF else "killed", by, f"signal {os.WTERMSIG(status)}", used
            )
        code = os.WEXITSTATUS(status)
        return End("survived", "", "", used) if code == 0 else End("killed", by, f"exit {code}", used)

    def _run_in_child(self, writing: int, tests: list[str], cpu_max: float) -> None:
        from _pytest.runner import runtestprotocol

        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        items, cpu_max = [self.items[test] for test in tests], cpu_max + time.process_time()
        for item, following in zip(items, [*items[1:], None], strict=True):
            if time.process_time() > cpu_max:
                break
            os.write(writing, f"begins {item.nodeid}\n".encode())
            signal.setitimer(signal.ITIMER_PROF, tests_cpu_max(self.seconds.get(item.nodeid, 2.0)))
            reports = runtestprotocol(item, nextitem=following, log=False)
            failed = next((report for report in reports if report.failed), None)
            if failed is not None:
                told = [line for line in failed.longreprtext.splitlines() if line.startswith("E ")] or [""]
                os.write(writing, f"failed {told[-1][:300]}\n".encode())
                os._exit(1)
        os._exit(0)


def _codes(source: bytes, path: str) -> dict[str, list[CodeType]]:
    """Return the code objects of a file by their qualified names, in the order of the source."""
    found: dict[str, list[CodeType]] = {}

    def walk(code: CodeType) -> None:
        found.setdefault(code.co_qualname, []).append(code)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                walk(constant)

    walk(compile(source, path, "exec"))
    return found


def _wait(child: int, wall_s: float) -> tuple[str, int, float]:
    """Wait for a child; end it and what it has started when it takes too long."""
    ends_at = time.monotonic() + min(wall_s, WALL_S)
    how, pause = "", 0.002
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > ends_at:
            how = "wall"
            os.killpg(child, signal.SIGKILL)
            _, status, usage = os.wait4(child, 0)
            break
        time.sleep(pause)
        pause = min(0.05, pause * 1.3)
    try:
        os.killpg(child, signal.SIGKILL)  # Processes that tests have left behind.
    except ProcessLookupError:
        pass
    return how, status, usage.ru_utime + usage.ru_stime


# In a process without doyen.


def run_anew(tests: list[str], output: Path) -> End:
    """Run tests in a fork that imports doyen and collects these tests only."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
        opened = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, 1)
        os.dup2(opened, 2)
        code = 99
        try:
            import pytest

            code = int(pytest.main(["-x", "--tb=line", *QUIET, *tests]))
        finally:
            sys.stdout.flush()
            os._exit(code)
    how, status, used = _wait(child, WALL_S)
    told = output.read_text(errors="replace")
    if how == "wall":
        return End("wall", "", "", used)
    if os.WIFSIGNALED(status):
        return End("time" if os.WTERMSIG(status) in (9, 24) else "killed", "", f"signal {os.WTERMSIG(status)}", used)
    code = os.WEXITSTATUS(status)
    if code == 0:
        return End("survived", "", "", used)
    gone = [line.partition("[")[0].strip() for line in told.splitlines() if line.startswith("ERROR: not found: ")]
    left = [test for test in tests if not any(line.endswith(test.partition("[")[0]) for line in gone)]
    if gone and len(left) < len(tests):  # The mutant is a parameter of these tests, so they have another name now.
        return run_anew(left, output) if left else End("survived", "", "", used)
    noticed = [line for line in told.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if not noticed and "rror" not in told:
        raise RuntimeError(f"pytest ended with {code} and no word: look into {output}")
    by = noticed[0].split(" - ")[0].split(" ", 1)[1] if noticed else "pytest cannot begin"
    return End("killed", by, noticed[0].partition(" - ")[2] if noticed else "", used)
