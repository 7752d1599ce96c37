"""What a person sees on a terminal: lines and colour there, JSON and no colour elsewhere."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

pytestmark = pytest.mark.live
DOYEN = [sys.executable, "-m", "doyen"]
GREEN, YELLOW = "\x1b[32m", "\x1b[33m"


@contextmanager
def on_terminal(*arguments: str, **variables: str) -> Iterator[Iterator[str]]:
    """Run a command whose output is a terminal; yield its lines."""
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
    process = subprocess.Popen([*DOYEN, *arguments], stdout=theirs, stderr=theirs, env=environment | variables)
    os.close(theirs)

    def lines() -> Iterator[str]:
        with suppress(OSError), open(ours, errors="replace", closefd=False) as file:  # EIO: the other end is closed.
            yield from (line.rstrip("\r\n") for line in file)

    try:
        yield lines()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        os.close(ours)


def test_agent_speaks_to_people_on_a_terminal_and_colour_carries_meaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path))
    agent = ("agent", "--group", "seen", "--preset", "local", "--election", "hybrid", "--bind", "127.0.0.1:0")
    with on_terminal(*agent, "--name", "ant") as said:
        first = next(said)
        assert "started" in first and "seen as ant" in first and "NOT authenticated" in first
        lines = [next(said)]
        while not all(any(word in line for line in lines) for word in ("elected", "alone")):
            lines.append(next(said))
        (elected,) = (line for line in lines if "elected" in line)
        assert f"{GREEN}elected" in elected and "ant (term 1)" in elected
        alone = [line for line in lines if "leads 'seen' alone" in line]
        assert len(alone) == 1 and f"{YELLOW}warning" in alone[0]  # Said once.

        def members(**variables: str) -> str:
            with on_terminal("members", **variables) as shown:
                return "\n".join(shown)

        coloured = members()
        assert f"{GREEN}ant has led" in coloured and f"{GREEN}ant★" in coloured
        for plain in (members(NO_COLOR="1"), members(TERM="dumb")):
            assert "ant has led" in plain and "\x1b" not in plain
        piped = subprocess.run([*DOYEN, "members"], capture_output=True, text=True, timeout=30)
        assert "ant has led" in piped.stdout and "\x1b" not in piped.stdout
    with on_terminal(*agent, "--name", "bee", "--json") as said:
        assert json.loads(next(line for line in said if '"started"' in line))["name"] == "bee"
    line = [*DOYEN, *agent, "--name", "cat", "--text"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        told = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert "started" in told and "\x1b" not in told
        assert process.stdout.read().splitlines()[-1].endswith("stopped   cat")
