"""Real processes on links of a delay and a loss of their own: the one that observes the best links leads."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from doyen.core.clock import ms
from doyen_lab.switch import Link, Switch

pytestmark = [pytest.mark.live, pytest.mark.root]
NAMES = ("ant", "bee", "cat", "dog")  # By name, the dog would lead.
PORT = 7600
PATIENCE_S = 60.0

PROGRAM = """
import asyncio, pathlib, sys
import doyen

async def main(rank, name, folder, bind, *seeds):
    election = doyen.Announce(
        announce_interval="500ms", listen_timeout="3s", suppress_interval="200ms",
        observed_rank=rank, observe_interval="200ms",
    )
    async with doyen.join("field", name=name, seeds=seeds, bind=bind, membership=None, election=election) as node:
        while True:
            leader = "" if node.leader is None else node.leader.name
            part = pathlib.Path(folder) / f"{name}.part"
            part.write_text(leader)
            part.rename(pathlib.Path(folder) / name)
            await asyncio.sleep(0.1)

asyncio.run(main(*sys.argv[1:]))
"""


def prefer(network: Switch, best: int, by: str) -> None:
    """Give that host good links to all, and the others bad ones among each other."""
    for a in range(len(NAMES)):
        for b in range(a):
            good = best in (a, b)
            change: dict[str, Any] = {"delay": ms(2) if good else ms(80)} if by == "delay" else {}
            network.set(a, b, **(change or {"loss": 0.0 if good else 0.4}))


def follow(folder: Path, leader: str) -> None:
    """Wait until all name that leader."""
    deadline, said = time.monotonic() + PATIENCE_S, {}
    while time.monotonic() < deadline:
        said = {name: (folder / name).read_text() if (folder / name).exists() else "" for name in NAMES}
        if set(said.values()) == {leader}:
            return
        time.sleep(0.1)
    raise AssertionError(f"{leader} should lead, and is named by few: {said}")


@pytest.fixture
def network() -> Iterator[Switch]:
    with Switch(len(NAMES), link=Link(delay=ms(2))) as made:
        yield made


@pytest.mark.parametrize("by", ["delay", "loss"])
def test_leadership_follows_the_links(by: str, network: Switch, tmp_path: Path) -> None:
    prefer(network, 0, by)
    seeds = [f"{node.ipv4}:{PORT}" for node in network.nodes]
    with ExitStack() as stack:
        for node, name, bind in zip(network.nodes, NAMES, seeds, strict=True):
            line = [*node.wrap, sys.executable, "-c", PROGRAM, by, name, str(tmp_path), bind, *seeds]
            process = stack.enter_context(subprocess.Popen(line))
            stack.callback(process.kill)
        follow(tmp_path, "ant")
        prefer(network, 2, by)
        follow(tmp_path, "cat")
