"""Runner, guard and shadow of a command are killed or stopped in any pair: the third ends what the kernel does not."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from doyen.net.driver import boot_time_ns
from doyen.runner import guard as watchdog
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
        ("guard", "runner"),
        ("guard runner", ""),
    ],
)
def test_of_runner_guard_and_shadow_any_one_ends_all_that_the_command_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: str, killed: str
) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path / "run"))
    pids_file = tmp_path / "pids"
    line = [sys.executable, "-m", "doyen", "run", "--group", "g", "--preset", "local", "--grace", "200ms"]
    if "guard" in stopped:  # Only a lease can tell that the guard should have done something.
        line += ["--election", "quorum", "--name", "a", "--voters", "a", "--newcomer", "--state", str(tmp_path / "s")]
    with subprocess.Popen([*line, "--", "sh", "-c", SCRIPT.format(pids_file)], stderr=subprocess.DEVNULL) as runner:
        try:
            until(lambda: pids_file.exists() and len(pids_file.read_text().split()) == 4)
            guard, *begun = (int(pid) for pid in pids_file.read_text().split())
            assert all(identity(pid) for pid in begun)
            watch = {"runner": runner.pid, "guard": guard, "shadow": parent_of(guard)}
            for name in stopped.split():
                os.kill(watch[name], signal.SIGSTOP)
            for name in killed.split():
                os.kill(watch[name], signal.SIGKILL)
            until(lambda: not any(identity(pid) for pid in begun), 3)
        finally:
            runner.kill()


@pytest.mark.parametrize("stopped", [True, False])
def test_what_a_command_began_ends_with_its_lease_also_where_the_guard_is_stopped(
    tmp_path: Path, stopped: bool
) -> None:
    pids_file, end = tmp_path / "pids", boot_time_ns() + 1_500_000_000
    (orders_read, orders), (words, words_write) = os.pipe(), os.pipe()
    numbers = (orders_read, words_write, end, 200_000_000, 200_000_000, 60_000_000, -1, -1)
    line = [sys.executable, "-I", "-S", str(Path(watchdog.__file__)), *map(str, numbers)]
    line += ["sh", "-c", f"trap '' TERM; {SCRIPT.format(pids_file)}; wait; sleep 60"]
    with subprocess.Popen(line, pass_fds=(orders_read, words_write), start_new_session=True) as shadow:
        try:
            os.close(orders_read), os.close(words_write)
            until(lambda: pids_file.exists() and len(pids_file.read_text().split()) == 4)
            guard, *begun = (int(pid) for pid in pids_file.read_text().split())
            if stopped:
                os.kill(guard, signal.SIGSTOP)
            until(lambda: not any(identity(pid) for pid in begun), 5)
            assert boot_time_ns() < end
            told = b"".join(iter(lambda: os.read(words, 4096), b""))
            assert (b"term lease not renewed" in told) != stopped, told  # One that is awake is left to its work.
            assert shadow.wait(5) == 137
        finally:
            os.close(orders), os.close(words)
            shadow.kill()
