"""Processes on hosts that are network namespaces, with names that are looked up in a file of the test's own."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from doyen_lab.netns import Namespace

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None, reason="NOT STARTED: network namespaces need root and iproute2"
)
BIN = Path(sys.executable).parent
PATIENCE_S = 20.0


def until(holds: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:
    end = time.monotonic() + patience_s
    while not (found := holds()):
        assert time.monotonic() < end, what
        time.sleep(0.05)
    return found


class Started:
    """Processes that end with the test, each in a session of its own."""

    def __init__(self, folder: Path, base: dict[str, str]) -> None:
        self.folder, self.base = folder, base
        self.all: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: list[str], environment: dict[str, str], **more: Any) -> None:
        with self.log(name).open("wb") as log:
            self.all[name] = subprocess.Popen(
                command,
                env=self.base | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
                **more,
            )

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def saying(self, words: str) -> set[str]:
        """Return the processes whose log has these words."""
        return {name for name in self.all if words in self.log(name).read_text()}

    def kill(self, name: str) -> None:
        self.all[name].kill()
        self.all.pop(name).wait()

    def close(self) -> None:
        for process in self.all.values():
            process.terminate()
        for process in self.all.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def told(self) -> str:
        return "\n".join(f"── {log.name}\n{log.read_text()}" for log in sorted(self.folder.glob("*.log")))


@contextmanager
def processes(folder: Path, base: dict[str, str] | None = None) -> Iterator[Started]:
    """Give processes with this environment; by default the tree's own code runs."""
    tree = {"PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    running = Started(folder, tree if base is None else base)
    try:
        yield running
    except AssertionError as error:
        raise AssertionError(f"{error}\n{running.told()}") from error
    finally:
        running.close()


def named(host: Namespace, hosts: Path, command: list[str]) -> list[str]:
    """Return the command, to be run on that host, where names are looked up in `hosts`, which may change later."""
    return [*host.wrap, "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(hosts), *command]
