"""A voter is replaced while processes run: the commands, the leader's death, and what it handed on."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.live
DOYEN = [sys.executable, "-m", "doyen"]
VOTERS = "ant,bee,cat"
PROGRAM = """
import asyncio, sys, doyen

async def main(name, state, *seeds):
    node = doyen.join("stock", name=name, election="quorum", voters=["ant", "bee", "cat"], newcomer=True, state=state,
                      seeds=seeds)
    async with node:
        print(node.address, flush=True)
        async for term in node.terms():
            async with term:
                before = term.baton.decode()
                await term.pass_on(f"{before}{name} ".encode())
                print("leads", before, flush=True)
                await asyncio.sleep(3600)

asyncio.run(main(*sys.argv[1:]))
"""


@contextmanager
def member(name: str, folder: Path, seeds: list[str]) -> Iterator["subprocess.Popen[str]"]:
    """Start a node; its address is its first line."""
    line = [sys.executable, "-c", PROGRAM, name, str(folder / "state"), *seeds]
    with (folder / f"{name}.out").open("w") as out, (folder / f"{name}.err").open("w") as errors:
        process = subprocess.Popen(line, stdout=out, stderr=errors, text=True)
    try:
        until(lambda: (folder / f"{name}.out").read_text().count("\n"))
        yield process
    finally:
        process.kill()
        process.wait()


def until(holds: Callable[[], Any], within_s: float = 20) -> Any:
    deadline = time.monotonic() + within_s
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def doyen(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*DOYEN, *arguments], capture_output=True, text=True, timeout=60)


def leader(name: str) -> str | None:
    found: str | None = json.loads(doyen("leader", "--group", "stock", "--name", name, "--json").stdout)["leader"]
    return found


def test_a_fourth_replaces_a_voter_and_the_baton_outlives_the_leader(tmp_path: Path) -> None:
    before = os.environ["DOYEN_RUNTIME_DIR"]
    os.environ["DOYEN_RUNTIME_DIR"] = str(tmp_path / "r")
    try:
        with ExitStack() as stack:
            running: dict[str, subprocess.Popen[str]] = {}
            for name in ("ant", "bee", "cat", "dog"):
                seeds = [(tmp_path / f"{other}.out").read_text().split()[0] for other in running]
                running[name] = stack.enter_context(member(name, tmp_path, seeds))
            first = until(lambda: leader("dog"))
            until(lambda: "leads" in (tmp_path / f"{first}.out").read_text())
            last = next(name for name in ("ant", "bee", "cat") if name != first)

            elsewhere = doyen("voters", "add", "dog", "--group", "stock", "--name", "dog")
            assert elsewhere.returncode != 0 and f"{first} leads stock" in elsewhere.stderr
            missing = doyen("voters", "add", "elk", "--group", "stock")
            assert missing.returncode != 0 and "elk does not answer" in missing.stderr

            done = doyen("voters", "replace", last, "dog", "--group", "stock")
            assert done.returncode == 0 and "1 more may fail" in done.stdout, done.stderr
            assert "--voters says ant, bee, cat" in done.stdout
            told = json.loads(doyen("voters", "list", "--group", "stock", "--json").stdout)
            assert told["voters"] == sorted({"ant", "bee", "cat", "dog"} - {last}) and told["number"] == 2
            assert told["configured"] == ["ant", "bee", "cat"] and told["earlier"] == []

            running.pop(last).send_signal(signal.SIGKILL)  # It may be ended: two of three are left.
            running.pop(first).send_signal(signal.SIGKILL)
            stays = next(name for name in running if name != "dog")
            second = until(lambda: leader("dog") not in (None, first) and leader("dog"))
            assert second in ("dog", stays)
            until(lambda: f"leads {first} " in (tmp_path / f"{second}.out").read_text())
            assert json.loads(doyen("leader", "--group", "stock", "--name", "dog", "--json").stdout)["baton_bytes"] == 8
    finally:
        os.environ["DOYEN_RUNTIME_DIR"] = before
