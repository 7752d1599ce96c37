"""`doyen up`: elects, kills its leader, elects again, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any

import pytest

pytestmark = pytest.mark.live
UP = [sys.executable, "-m", "doyen", "up"]


@contextmanager
def up(*arguments: str, within_s: float = 40) -> Iterator["subprocess.Popen[str]"]:
    """Without a terminal, in a process group of its own; killed if it takes too long.  Nobody may be left of it."""
    process = subprocess.Popen(
        [*UP, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    guard = Timer(within_s, process.kill)
    guard.start()
    try:
        with process:
            yield process
    finally:
        guard.cancel()
        guard.join()
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def is_gone(pid: int) -> bool:
    return not os.path.exists(f"/proc/{pid}")


def test_json_lines_tell_of_election_and_takeover_and_ctrl_c_ends_it() -> None:
    told: list[dict[str, Any]] = []
    with up("--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            told.append(json.loads(line))
            if told[-1]["event"] == "elected" and len(told) > 2:  # The takeover.
                process.send_signal(signal.SIGINT)
        assert process.wait() == 0
        assert process.stderr.read() == ""
    started, first, killed, second, stopped = told
    assert [said["event"] for said in told] == ["started", "elected", "sigkill", "elected", "stopped"]
    pids = started["pids"]
    leader, heir = first["leader"], second["leader"]
    assert len(set(pids.values())) == 5
    assert leader in pids and first["members"] == 5
    assert killed["victim"] == leader
    assert heir in pids and heir != leader and second["members"] == 4
    assert 0 < second["after_s"] < 3
    assert first["term"] < second["term"]  # Never two leaders of one term.
    # Each line has the time of what happened, not of when it was shown.
    assert second["at"] - killed["at"] == pytest.approx(second["after_s"], abs=0.02)
    assert first["at"] - started["at"] == pytest.approx(first["after_s"], abs=0.02)
    assert stopped["codes"] == {name: -9 if name == leader else 0 for name in pids}
    assert all(is_gone(pid) for pid in pids.values())


def test_it_ends_by_itself_when_its_time_is_over() -> None:
    began = time.monotonic()
    with up("--for", "4s", "--nodes", "3") as process:
        out, error = process.communicate()
    assert process.returncode == 0
    assert error == ""
    assert time.monotonic() - began >= 4
    assert "3 processes on loopback" in out
    assert "packets are NOT authenticated" in out
    assert "election gossip (hybrid)" in out
    assert "elected" in out and " · term " in out
    started = next(line for line in out.splitlines() if "started" in line)
    pids = [int(word.strip("()")) for word in started.split() if word.startswith("(")]
    assert len(set(pids)) == 3
    assert all(is_gone(pid) for pid in pids)
    assert out.splitlines()[-1].endswith("ant exit 0  bee exit 0  cat exit 0")


def test_sigterm_while_it_is_still_starting_leaves_nobody() -> None:
    with up("--nodes", "5", "--json") as process:
        agents: list[str] = []
        deadline = time.monotonic() + 20
        while not agents and time.monotonic() < deadline:  # As soon as there is one agent.
            with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
                agents = file.read().split()
        process.terminate()
        _, error = process.communicate()
        assert "Traceback" not in error
        assert process.returncode == 0
