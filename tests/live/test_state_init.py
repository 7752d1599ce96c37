"""`doyen state init` says in a manifest what `--newcomer` says once by hand; processes, restarts and lost state."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from doyen.node.control import ask, find_node

pytestmark = pytest.mark.live
DOYEN = [sys.executable, "-m", "doyen"]
VOTERS = ("ant", "bee", "cat")


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0))
        port: int = made.getsockname()[1]
        return port


class Group:
    """Voters of one group, each with its flags."""

    def __init__(self, folder: Path) -> None:
        self.state, self.errors = folder / "state", folder
        self.at = {name: f"127.0.0.1:{free_port()}" for name in (*VOTERS, "dog")}

    def flags(self, name: str) -> list[str]:
        given = {"group": "money", "name": name, "election": "quorum", "voters": ",".join(VOTERS), "state": self.state}
        return [part for flag, value in given.items() for part in (f"--{flag}", str(value))]

    def init(self, name: str, *flags: str) -> "subprocess.CompletedProcess[str]":
        line = [*DOYEN, "state", "init", *self.flags(name), *flags]
        return subprocess.run(line, capture_output=True, text=True, timeout=30)

    @contextmanager
    def running(self, *names: str) -> Iterator[None]:
        started = []
        for name in names:
            line = [*DOYEN, "agent", *self.flags(name), "--preset", "local", "--bind", self.at[name]]
            line += [part for other in VOTERS if other != name for part in ("--seed", self.at[other])]
            with (self.errors / f"{name}.err").open("w") as errors:
                started.append(subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=errors))
        try:
            yield
        finally:
            for process in started:
                process.send_signal(signal.SIGKILL)
                process.wait()


def within(limit_s: float, holds: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + limit_s
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def term() -> int:
    """Return the term of the leader that all voters name, or 0."""
    try:
        told = [ask(find_node("money", name), "leader", election="") for name in VOTERS]
    except Exception:  # Not all have begun yet.
        return 0
    return told[0]["term"] if told[0]["leader"] and len({said["leader"] for said in told}) == 1 else 0


def test_voters_are_declared_once_restart_and_are_not_declared_again_when_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path / "r"))
    group = Group(tmp_path)
    assert json.loads(group.init("ant", "--json").stdout)["made"] == ["election"]
    assert "made: bee may vote" in group.init("bee", "--until", "2999-01-01").stdout
    assert group.init("cat").returncode == 0
    refused = group.init("dog")
    assert refused.returncode == 2 and "'dog' is not one of the voters (ant, bee, cat)" in refused.stderr

    with group.running(*VOTERS, "dog"):
        first = within(15, term)
        told = ask(find_node("money", "ant"), "members")
        assert {member["name"] for member in told["members"]} == {*VOTERS}
        shown = subprocess.run([*DOYEN, "members", "--name", "ant"], capture_output=True, text=True, timeout=30).stdout
        assert shown.startswith("money · 3 members, ") and " not heard of here · " in shown and " has led for " in shown
        again = group.init("ant")  # It runs, and has promised.
        assert again.returncode == 0 and "there already: ant keeps its promises" in again.stdout
        said = within(10, lambda: (tmp_path / "dog.err").read_text())
        assert "dog is not one of the voters (ant, bee, cat), so it follows and never leads" in said
        assert "newcomer" not in said

    shutil.rmtree(group.state / "cat")
    lost = group.init("cat", "--until", "2020-01-01")  # As a manifest says it, once the group is founded.
    assert lost.returncode == 2 and "it counts as lost" in lost.stderr and "cat-2" in lost.stderr
    assert not (group.state / "cat").exists()
    assert group.init("bee", "--until", "2020-01-01").returncode == 0
    (group.state / "bee" / "election.state").rename(tmp_path / "aside")
    assert "election.state is missing. This node must not vote as bee again" in group.init("bee").stderr
    (tmp_path / "aside").rename(group.state / "bee" / "election.state")

    with group.running(*VOTERS):  # Two of three vote.
        assert within(15, term) > first
        told = within(10, lambda: (tmp_path / "cat.err").read_text())
        assert "it does not vote" in told and "doyen state init" in told
