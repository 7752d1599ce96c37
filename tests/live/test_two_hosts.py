"""Two hosts and a witness as real processes, each in a network namespace: exactly one host acts, the witness never."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from doyen.testing.processes import Process, Processes
from doyen_lab.iproute import batch
from doyen_lab.netns import Namespace, Namespaces

DOYEN = [sys.executable, "-m", "doyen"]
HOSTS = ("ant", "bee")
STATE_MAX = 4096  # Bytes that a witness keeps.
RSS_MAX = 32 << 20
# Writes when it acted, by the clock that all processes of a machine share.
ACT = """
import os, sys, time
with open(sys.argv[1], "a", buffering=1) as file:
    while True:
        print(os.environ["DOYEN_TERM"], time.clock_gettime_ns(time.CLOCK_BOOTTIME), file=file)
        time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def network() -> Iterator[Namespaces]:
    with Namespaces(3) as made:
        yield made


class Group:
    """The two hosts run a command while they lead; the third votes."""

    def __init__(self, processes: Processes, network: Namespaces, folder: Path) -> None:
        self.processes, self.network, self.folder = processes, network, folder
        self.at = dict(zip((*HOSTS, "wit"), network.nodes, strict=True))
        self.witness_said: list[dict[str, object]] = []

    def flags(self, name: str) -> list[str]:
        given = {"group": "money", "name": name, "voters": "ant,bee,wit", "state": self.folder / "state"}
        given |= {"preset": "local", "bind": f"{self.at[name].ipv4}:7600"}
        flags = [part for flag, value in given.items() for part in (f"--{flag}", str(value))]
        others = [node.ipv4 for other, node in self.at.items() if other != name]
        return [*flags, "--newcomer", *(part for address in others for part in ("--seed", address))]

    async def start(self, name: str) -> Process:
        line = [*self.at[name].wrap, *DOYEN]
        if name == "wit":
            line += ["witness", *self.flags(name), "--status-every", "0.2"]
            return await self.processes.launch(name, line, on_line=lambda text, _: self._hear(text))
        line += [
            "run",
            "--election",
            "quorum",
            *self.flags(name),
            "--",
            sys.executable,
            "-c",
            ACT,
            str(self.file(name)),
        ]
        return await self.processes.launch(name, line, log=self.folder / f"{name}.log")

    def _hear(self, line: bytes) -> None:
        self.witness_said.append(json.loads(line))

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.acts"

    def acts(self, name: str) -> list[tuple[int, int]]:
        """Return the terms and instants in which that host acted."""
        text = self.file(name).read_text() if self.file(name).exists() else ""
        return [(int(term), int(at)) for term, at in (line.split() for line in text.splitlines() if " " in line)]

    async def until(self, holds: Callable[[], bool], timeout_s: float = 20.0) -> None:
        async with asyncio.timeout(timeout_s):
            while not holds():
                await asyncio.sleep(0.05)

    async def actor(self, *, since: int = 0) -> str:
        """Return which host acts after that instant."""

        def acting() -> list[str]:
            return [name for name in HOSTS if any(at > since for _, at in self.acts(name)[-1:])]

        await self.until(lambda: bool(acting()))
        return acting()[0]

    def spans(self) -> list[tuple[int, int, str]]:
        """Return from when to when each term was acted in, and by whom, in order."""
        found: dict[tuple[int, str], list[int]] = {}
        for name in HOSTS:
            for term, at in self.acts(name):
                found.setdefault((term, name), []).append(at)
        return sorted((min(instants), max(instants), name) for (_, name), instants in found.items())


def cut_between(one: Namespace, other: Namespace) -> None:
    """Cut the link between two hosts, both ways; everybody else still reaches both."""
    for here, there in ((one, other), (other, one)):
        batch([f"route add blackhole {there.ipv4}/32"], namespace=here.name)


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@pytest.mark.root
@pytest.mark.alone
def test_two_hosts_and_a_witness(network: Namespaces, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path / "run"))

    async def play() -> None:
        async with Processes() as processes:
            group = Group(processes, network, tmp_path)
            for name in ("wit", *HOSTS):
                await group.start(name)
            first = await group.actor()
            # The hosts no longer reach each other; each reaches the witness.
            cut_between(group.at["ant"], group.at["bee"])
            await asyncio.sleep(3)
            last = await group.actor(since=now())
            # One host dies, and the other one has a majority with the witness.
            other = next(name for name in HOSTS if name != last)
            killed_at = processes.started[last].kill()
            assert await group.actor(since=killed_at + 500_000_000) == other
            witness = processes.started["wit"]
            assert first in HOSTS and witness.alive
            said = [line for line in group.witness_said if line["event"] in ("status", "elected")]
            assert said and not any(line["status"] == "leading" or line.get("leader") == "wit" for line in said)
            pages = int(Path(f"/proc/{witness.pid}/statm").read_text().split()[1])
            assert pages * os.sysconf("SC_PAGE_SIZE") < RSS_MAX
        kept = [path for path in (tmp_path / "state" / "wit").rglob("*") if path.is_file()]
        assert 0 < sum(path.stat().st_size for path in kept) <= STATE_MAX
        spans = group.spans()
        assert len(spans) >= 2
        for (_, ended, one), (began, _, two) in pairwise(spans):
            assert ended < began, (one, two, spans)

    asyncio.run(play())
