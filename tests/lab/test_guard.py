"""The guard of a command is killed when nobody else can help: its shadow ends what the kernel does not."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from doyen.lab.proving.beater import identity

pytestmark = pytest.mark.live
SCRIPT = "sleep 61 & echo $PPID $$ $! > {}; wait"


def until(holds: Callable[[], bool], within_s: float = 15) -> None:
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("runner_signal", [signal.SIGSTOP, signal.SIGKILL])
def test_a_killed_guard_takes_the_commands_children_with_it_whatever_became_of_the_runner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner_signal: signal.Signals
) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path / "run"))
    pids_file = tmp_path / "pids"
    line = [sys.executable, "-m", "doyen", "run", "--group", "g", "--preset", "local", "--grace", "60s"]
    with subprocess.Popen([*line, "--", "sh", "-c", SCRIPT.format(pids_file)], stderr=subprocess.DEVNULL) as runner:
        try:
            until(lambda: pids_file.exists() and len(pids_file.read_text().split()) == 3)
            guard, command, child = (int(pid) for pid in pids_file.read_text().split())
            assert identity(command) and identity(child)
            runner.send_signal(runner_signal)
            os.kill(guard, signal.SIGKILL)
            until(lambda: not identity(command) and not identity(child), 3)
        finally:
            runner.kill()
