"""`doyen keys rotate` changes the key of a running group, and no member is lost on the way."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from doyen.cli import main
from doyen.node.control import ask, find_node

pytestmark = pytest.mark.live
NAMES = ("ant", "bee", "cat")


def until(holds: Callable[[], bool], within_s: float = 30) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def status(name: str) -> Any:
    return ask(find_node("sealed", name), "members")


def agent(stack: ExitStack, name: str, log: Path, *flags: str) -> None:
    line = [sys.executable, "-m", "doyen", "agent", "--group", "sealed", "--name", name, "--preset", "local"]
    line += ["--election", "hybrid", "--bind", "127.0.0.1:0", *flags]
    written = stack.enter_context(log.open("w"))
    process = stack.enter_context(subprocess.Popen(line, stdout=written, stderr=subprocess.DEVNULL))
    stack.callback(process.send_signal, signal.SIGKILL)


def address(log: Path) -> str:
    """Return where an agent listens, once it does."""
    until(lambda: '"started"' in log.read_text())
    started = next(line for line in log.read_text().splitlines() if '"started"' in line)
    found: str = json.loads(started)["address"]
    return found


def test_three_steps_on_three_members_lose_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path / "r"))
    here, there = tmp_path / "here.keys", tmp_path / "there.keys"  # Of one host, and of the two others.

    def keys(*arguments: str) -> int:
        with pytest.raises(SystemExit) as ended:
            main(["keys", *arguments, "--file", str(here)])
        return int(str(ended.value.code))

    assert keys("new") == 0
    shutil.copyfile(here, there)
    logs = {name: tmp_path / f"{name}.jsonl" for name in NAMES}
    with ExitStack() as stack:
        agent(stack, "ant", logs["ant"], "--key-file", str(here))
        seed = address(logs["ant"])
        for name in ("bee", "cat"):
            agent(stack, name, logs[name], "--key-file", str(there), "--seed", seed)
        for name in ("bee", "cat"):
            address(logs[name])
        until(lambda: all(len(status(name)["members"]) == 3 for name in NAMES))
        capsys.readouterr()
        assert keys("rotate") == 0
        first = capsys.readouterr()
        assert "step 1 of 3: added" in first.out and "copy the file to every other member" in first.err
        assert keys("rotate") == 0
        assert capsys.readouterr().out == first.out  # It was done already: nothing changes.
        assert keys("rotate", "--step", "2") == 1
        assert "has not read" in capsys.readouterr().err  # bee and cat would be cut off.
        for step in ("2", "3"):
            shutil.copyfile(here, there)
            until(lambda step=step: keys("rotate", "--step", step) == 0)  # type: ignore[misc]
        shutil.copyfile(here, there)
        until(lambda: all(len(status(name)["key_ids"]) == 1 for name in NAMES))
        told = [status(name) for name in NAMES]
        assert len({said["key_ids"][0] for said in told}) == 1
        for said in told:
            assert [member["state"] for member in said["members"]] == ["alive"] * 3
            assert "key" not in said["refused"] and said["sealed"]
    ends = ("failed", "left", "forgotten")
    for log in logs.values():
        assert not [line for line in log.read_text().splitlines() if json.loads(line).get("member_status") in ends]
