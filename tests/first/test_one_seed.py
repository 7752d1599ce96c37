"""One seed is enough across hosts also where an election keeps no list of members."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from doyen.node.config import NodeConfig
from doyen_lab.netns import Namespace, Namespaces

pytestmark = pytest.mark.live
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None, reason="NOT RUN: network namespaces need root and iproute2"
)
PROGRAM = """
import asyncio, json, sys
import doyen

async def main():
    async with doyen.join(**json.loads(sys.argv[1])) as node:
        while True:
            print(json.dumps([node.leader and node.leader.name, node.is_leader]), flush=True)
            await asyncio.sleep(0.05)

asyncio.run(main())
"""


class Copy:
    """One member, and what it said last: whom it names, and whether it acts."""

    def __init__(self, wrap: list[str], runtime: Path, **fields: object) -> None:
        self.name, self._rest = str(fields["name"]), b""
        self.names, self.acts = None, False
        self.process = subprocess.Popen(
            [*wrap, sys.executable, "-c", PROGRAM, json.dumps({"preset": "local", **fields})],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"DOYEN_RUNTIME_DIR": str(runtime)},
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)

    def look(self) -> "Copy":
        assert self.process.stdout is not None
        self._rest += self.process.stdout.read() or b""
        *lines, self._rest = self._rest.split(b"\n")
        if lines:
            self.names, self.acts = json.loads(lines[-1])
        return self

    def __enter__(self) -> "Copy":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def until(holds: Callable[[], bool], what: Callable[[], str], within_s: float = 25) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)


def one_acts(copies: list[Copy]) -> bool:
    """Whether all name one of them, and that one alone acts."""
    seen = [copy.look() for copy in copies]
    acting = [copy.name for copy in seen if copy.acts]
    return len(acting) == 1 and all(copy.names == acting[0] for copy in seen)


def in_words(copies: list[Copy]) -> str:
    return ", ".join(f"{copy.name} names {copy.names}, acts: {copy.acts}" for copy in copies)


@needs_root
@pytest.mark.root
@pytest.mark.parametrize("election", ["fast", "gossip", "quorum"])
def test_three_hosts_with_one_seed_have_one_leader_also_when_the_seed_is_gone(election: str, tmp_path: Path) -> None:
    """The seed is the least by name, so that in `fast` it is the two others that must know of each other."""
    more = {"voters": ["ant", "bee", "cat"], "volatile": True} if election == "quorum" else {}
    with Namespaces(3) as network, ExitStack() as stack:

        def start(name: str, host: Namespace, **fields: object) -> Copy:
            fields |= {"group": "one", "name": name, "election": election, **more}
            return stack.enter_context(Copy([*host.wrap], tmp_path / name, **fields))

        seed, *others = network.nodes
        copies = [start(name, host, seeds=[seed.ipv4]) for name, host in zip(("bee", "cat"), others, strict=True)]
        time.sleep(1.0)  # The seed comes late.
        copies.append(start("ant", seed, bind="0.0.0.0:7600"))
        until(lambda: one_acts(copies), lambda: in_words(copies))
        time.sleep(2.0)  # The seed introduces the two to each other when they call next, which they do every second.
        copies.pop().process.kill()
        time.sleep(1.0)
        until(lambda: one_acts(copies), lambda: in_words(copies))


@needs_root
@pytest.mark.root
def test_another_group_may_have_the_usual_port_on_each_host(tmp_path: Path) -> None:
    """As where an agent runs on each host, and a cron job of another group."""
    with Namespaces(2) as network, ExitStack() as stack:
        seeds = {"seeds": [node.ipv4 for node in network.nodes], "alone_after": "inf"}
        for group in ("theirs", "mine"):
            copies = [
                stack.enter_context(Copy([*host.wrap], tmp_path / f"{group}-{name}", group=group, name=name, **seeds))
                for name, host in zip(("ant", "bee"), network.nodes, strict=True)
            ]
            until(partial(one_acts, copies), partial(in_words, copies))


@pytest.mark.parametrize("seed", ["localhost", "127.0.0.1"])
def test_the_usual_port_may_be_another_groups(seed: str, tmp_path: Path) -> None:
    """Two users' processes, say, which do not find each other by themselves."""
    assert (
        NodeConfig(group="mine", seeds=(seed,)).group_port() != NodeConfig(group="theirs", seeds=(seed,)).group_port()
    )
    with ExitStack() as stack:
        within: list[str] = []
        if os.geteuid() == 0:
            network = stack.enter_context(Namespaces(1))
            within = [*network.nodes[0].wrap]
        common = {"seeds": [seed], "find_local": False, "alone_after": "inf"}
        stack.enter_context(Copy(within, tmp_path / "0", group="theirs", name="elk", **common | {"alone_after": "1s"}))
        copies = [
            stack.enter_context(Copy(within, tmp_path / name, group="mine", name=name, **common))
            for name in ("ant", "bee")
        ]
        until(lambda: one_acts(copies), lambda: in_words(copies))
