"""Three processes, six named elections and their scores: leadership spreads, and follows a score that falls."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from doyen.core.ids import NodeId
from doyen.election.churn.standpoint import salted
from doyen.node.control import ask, find_node

pytestmark = pytest.mark.live
NAMES = ("ant", "bee", "cat")
JOBS = ("mail", "cron", "pay", "index", "audit", "sweep")

PROGRAM = f"""
import asyncio, pathlib, sys
import doyen

async def main(name, folder, bind, *seeds):
    score = lambda: float((pathlib.Path(folder) / name).read_text())
    async with doyen.join(
        "jobs", name=name, seeds=seeds, bind=bind, preset="local",
        election=doyen.Hybrid(better_for="500ms", bootstrap_after="3s"),  # All are here before the first election.
        elections=dict.fromkeys({JOBS!r}, "gossip"), score=score, score_every="100ms",
    ) as node:
        await node.ended.wait()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Three processes of one group, each with its score in a file of its name."""
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path / "r"))
    at = [f"127.0.0.1:{free_port()}" for _ in NAMES]
    with ExitStack() as stack:
        for name, bind in zip(NAMES, at, strict=True):
            (tmp_path / name).write_text("0")
            line = [sys.executable, "-c", PROGRAM, name, str(tmp_path), bind, *at]
            process = stack.enter_context(subprocess.Popen(line))
            stack.callback(process.kill)
        yield tmp_path


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0))
        port: int = made.getsockname()[1]
        return port


def leaders(job: str = "") -> set[Any]:
    return {ask(find_node("jobs", name), "leader", election=job)["leader"] for name in NAMES}


def within(limit_s: float, holds: Any) -> float:
    began = time.monotonic()
    while not holds():
        assert time.monotonic() < began + limit_s
        time.sleep(0.05)
    return time.monotonic() - began


def test_six_elections_spread_over_three_members_and_a_leader_whose_score_falls_is_replaced(group: Path) -> None:
    def members(name: str) -> int:
        try:
            return len(ask(find_node("jobs", name), "members")["members"])
        except Exception:  # It has not begun yet.
            return 0

    within(15, lambda: all(members(name) == 3 for name in NAMES))
    within(15, lambda: all(len(found := leaders(job)) == 1 and None not in found for job in ("", *JOBS)))
    led_by = {job: next(iter(leaders(job))) for job in JOBS}
    assert led_by == {job: min(map(NodeId, NAMES), key=salted("jobs", job)) for job in JOBS}
    assert {*led_by.values()} == {*NAMES}

    (group / "bee").write_text("0.9")
    within(10, lambda: all(leaders(job) == {"bee"} for job in ("", *JOBS)))
    (group / "cat").write_text("0.5")
    (group / "bee").write_text("0.05")
    took = within(10, lambda: all(leaders(job) == {"cat"} for job in ("", *JOBS)))
    assert took > 0.3
    for name in NAMES:
        told = ask(find_node("jobs", name), "explain", election="")
        assert dict(told["lines"])["decided"] == "bee handed over: cat was better by 0.45 for 500ms"
