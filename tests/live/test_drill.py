"""`doyen drill` on real agents: what it predicts is what happens, and what it must not do it refuses."""

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.live
DOYEN = [sys.executable, "-m", "doyen"]
VOTES = ("--election", "quorum", "--volatile", "--voters", "ant,bee,cat")


@contextmanager
def agents(*flags: str) -> Iterator[dict[str, "subprocess.Popen[bytes]"]]:
    """Three agents that agree on a leader."""
    with ExitStack() as stack:
        found = {}
        for name in ("ant", "bee", "cat"):
            line = [*DOYEN, "agent", "--group", "g", "--name", name, "--preset", "local", *flags]
            found[name] = stack.enter_context(subprocess.Popen(line, stdout=subprocess.DEVNULL))
            stack.callback(found[name].kill)
        deadline = time.monotonic() + 30
        while len({leader(name) for name in found}) != 1 or leader("ant") is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield found


def leader(name: str) -> str | None:
    done = subprocess.run([*DOYEN, "leader", "--group", "g", "--name", name, "--json"], capture_output=True, timeout=30)
    told = json.loads(done.stdout) if done.stdout else {}
    return None if told.get("acts") is False else told.get("leader")


def drill(folder: Path, *flags: str) -> tuple[int, Any, str]:
    line = [*DOYEN, "drill", "--group", "g", "--json", "--simulate", "5", *flags]
    done = subprocess.run(line, capture_output=True, text=True, timeout=90, cwd=folder, stdin=subprocess.DEVNULL)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def test_a_leader_is_stopped_and_killed_and_the_report_is_kept(tmp_path: Path) -> None:
    with agents() as processes:
        code, told, said = drill(tmp_path)
        assert code == 2 and "--yes" in said
        refused_by_a_person(tmp_path)
        assert all(process.poll() is None for process in processes.values()) and not list(tmp_path.iterdir())
        for how in ("freeze", "kill"):
            code, told, said = drill(tmp_path, "--how", how, "--yes", "--report", f"{how}.json")
            assert told is not None, said
            assert told["next"] != told["leader"] and told["next"] in told["named_s"]
            assert told["measured_s"] > told["predicted_min_s"] / 2, "nobody follows before the protocol can"
            assert (code == 0) == told["held"] == (told["measured_s"] <= told["bound_s"]), told
            assert told["held"], "on a machine that has time for it"
            assert json.loads((tmp_path / f"{how}.json").read_text()) == {
                key: value for key, value in told.items() if key != "report"
            }
            is_dead = processes[told["leader"]].poll() is not None
            assert is_dead == (how == "kill")
            assert how == "kill" or state(processes[told["leader"]].pid) != "T", "it goes on"
        assert told["predicted_max_s"] < told["bound_s"] / 2, "a connection that ends is noticed at once"


def test_a_quorum_is_not_put_at_risk(tmp_path: Path) -> None:
    with agents(*VOTES) as processes:
        code, told, said = drill(tmp_path, "--how", "kill", "--yes")
        assert told is not None, said
        next_one, deadline = told["next"], time.monotonic() + 20
        while "would lose its quorum" not in said:
            assert time.monotonic() < deadline, said
            code, told, said = drill(tmp_path, "--how", "freeze", "--yes") if risky(next_one) else (0, None, "")
        assert code == 2 and told is None and sum(process.poll() is None for process in processes.values()) == 2


def risky(name: str) -> bool:
    """Return whether the leader knows that a voter is gone: before, it would take the drill."""
    line = [*DOYEN, "voters", "--group", "g", "--name", name, "--json"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=30)
    return bool(done.stdout) and json.loads(done.stdout)["may_fail"] == 0


def refused_by_a_person(folder: Path) -> None:
    """Answer no, in a terminal."""
    ours, theirs = pty.openpty()
    line = [*DOYEN, "drill", "--group", "g", "--how", "kill", "--simulate", "3"]
    with subprocess.Popen(line, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder) as it:
        os.write(ours, b"n\n")
        said, _ = it.communicate(timeout=90)
    os.close(ours)
    os.close(theirs)
    assert it.returncode == 130 and b"Go on?" in said


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
