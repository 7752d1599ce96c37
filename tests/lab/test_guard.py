"""Runner, guard and shadow of a command are killed in any pair: the third ends what the kernel does not."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from doyen_lab.proving.beater import identity
from doyen_lab.proving.singleton import parent_of

pytestmark = pytest.mark.alone
SCRIPT = "sleep 61 & a=$!; setsid sleep 62 & echo $PPID $$ $a $! > {}; wait"


def until(holds: Callable[[], bool], within_s: float = 15) -> None:
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize(
    ("stopped", "killed"),
    [
        ("runner", "guard"),
        pytest.param("", "runner guard", marks=pytest.mark.soak),
        ("", "runner shadow"),
        ("", "guard shadow"),
    ],
)
def test_of_runner_guard_and_shadow_any_one_ends_all_that_the_command_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: str, killed: str
) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path / "run"))
    pids_file = tmp_path / "pids"
    line = [sys.executable, "-m", "doyen", "run", "--group", "g", "--preset", "local", "--grace", "200ms"]
    with subprocess.Popen([*line, "--", "sh", "-c", SCRIPT.format(pids_file)], stderr=subprocess.DEVNULL) as runner:
        try:
            until(lambda: pids_file.exists() and len(pids_file.read_text().split()) == 4)
            guard, *begun = (int(pid) for pid in pids_file.read_text().split())
            assert all(identity(pid) for pid in begun)
            watch = {"runner": runner.pid, "guard": guard, "shadow": parent_of(guard)}
            if stopped:
                os.kill(watch[stopped], signal.SIGSTOP)
            for name in killed.split():
                os.kill(watch[name], signal.SIGKILL)
            until(lambda: not any(identity(pid) for pid in begun), 3)
        finally:
            runner.kill()
