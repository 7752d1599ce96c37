"""Programs of users in made-up time: the how-to's FastAPI scheduler, and a singleton with a rare bug."""

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from starlette.applications import Starlette

import doyen
from doyen.contrib.starlette import Leadership
from doyen.testing import Cluster

# The scheduler of docs/how-to/fastapi.md: nothing of it knows that time is made up.


class Web:
    """Three workers, each with the application's lifespan; `ran` is what their schedulers did."""

    def __init__(self) -> None:
        self.ran: list[tuple[float, str, int]] = []
        self.refused: list[str] = []

    async def worker(self, name: str) -> None:
        async def refresh_caches(term: doyen.Term) -> None:
            while True:
                self.ran.append((asyncio.get_running_loop().time(), name, term.number))
                await asyncio.sleep(0.05)

        url = f"http://{name}:8000"
        leadership = Leadership("web", work=refresh_caches, url=url, preset="local", bind="127.0.0.1:0", name=name)
        async with leadership.lifespan(Starlette()):
            await asyncio.Event().wait()


def test_the_scheduler_of_the_how_to_runs_on_one_worker_and_moves_when_it_is_killed() -> None:
    web = Web()
    with Cluster(["w1", "w2", "w3"], seed=7, main=web.worker, delay="1ms", jitter="1ms") as cluster:
        cluster.run_until(lambda: len(web.ran) > 10)
        first = web.ran[-1][1]
        cluster.run_until(lambda: all(cluster.node(name).leader for name in cluster.names))
        cluster.kill(first)
        killed_s = cluster.now_s
        cluster.run_until(lambda: web.ran[-1][1] != first)
        assert cluster.now_s - killed_s < 3.0
        cluster.run_for("2s")
        after = [(at, name) for at, name, _ in web.ran if at > killed_s]
        assert len({name for _, name in after}) == 1
        assert {leader.name for name in cluster.up() if (leader := cluster.node(name).leader)} == {after[0][1]}


# A wrong singleton: it asks whether it leads, awaits something, and acts.


class Numbers:
    """Gives invoices consecutive numbers, kept in a table that a reply takes a moment to come from."""

    def __init__(self, reply_s: float, *, careful: bool) -> None:
        self.reply_s, self.careful = reply_s, careful
        self.table: list[tuple[int, str]] = []

    async def service(self, node: doyen.Node) -> None:
        await asyncio.sleep(random.random() * 0.1)  # Nobody starts at the same instant.
        while True:
            if self.careful:
                async for term in node.terms():
                    async with term:
                        while True:
                            await self._one(node)
                            await asyncio.sleep(0.1)
            elif node.is_leader:
                await self._one(node)
            await asyncio.sleep(0.1)

    async def _one(self, node: doyen.Node) -> None:
        number = len(self.table) + 1
        await asyncio.sleep(self.reply_s)  # The wrong one may lose leadership here, and goes on.
        self.table.append((number, node.name))


def twice(seed: int, reply_s: float, *, careful: bool) -> bool:
    """Whether a number was given twice in a run in which leadership is handed on."""
    numbers = Numbers(reply_s, careful=careful)
    with Cluster(3, seed=seed, program=numbers.service, jitter="500us") as cluster:
        first = cluster.run_until_leader()
        cluster.run_for(0.5 + (seed % 997) / 9970)  # Any instant of a period.
        cluster.resign(first)
        cluster.run_until_leader(other_than=first)
        cluster.run_for("500ms")
    given = [number for number, _ in numbers.table]
    return len(given) > len({*given})


def test_a_wrong_singleton_is_caught_by_some_of_a_few_seeds_and_the_right_one_by_none() -> None:
    assert any(twice(seed, 0.06, careful=False) for seed in range(60))
    assert not any(twice(seed, 0.06, careful=True) for seed in range(20))


@pytest.mark.soak
def test_the_right_singleton_is_right_in_500_seeds() -> None:
    assert not any(twice(seed, 0.06, careful=True) for seed in range(500))


# A failing seed says how to run it again.

FAILING = """
import asyncio
import pytest

async def service(node):
    async for term in node.terms():
        async with term:
            await asyncio.sleep(60)

@pytest.mark.doyen_seeds(4)
def test_it(doyen_cluster, doyen_seed):
    cluster = doyen_cluster(3, seed=doyen_seed, program=service)
    cluster.run_until_leader()
    assert doyen_seed != 2
"""


def test_a_failing_seed_prints_its_command_and_its_lane_picture(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(FAILING)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "doyen.testing.plugin", "test_mine.py"]
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=alone)
    assert "1 failed, 3 passed" in ran.stdout, ran.stdout
    assert "run it again: pytest 'test_mine.py::test_it[2]' --doyen-seed 2" in ran.stdout
    picture = next(line for line in ran.stdout.splitlines() if line.startswith("lane picture: ")).split(": ")[1]
    svg = Path(picture).read_text()
    assert svg.startswith("<svg") and "is elected, term 1" in svg
    film = next(line for line in ran.stdout.splitlines() if line.startswith("to look at: ")).split(": ")[1]
    assert "leads, term 1" in Path(film).read_text()
