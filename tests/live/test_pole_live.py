"""Elections by score among real processes: on loopback, and over the paper's round trips.  [POLE]"""

import asyncio
import shutil
from pathlib import Path

import pytest

from doyen.core.clock import ms
from doyen.core.ids import NodeId
from doyen.score.oracles import ORACLES
from doyen_lab.cli.bench.pole import layout
from doyen_lab.contest.pole import Seen, heritage, kill_leaders, rightful, succeed, timers, voters
from doyen_lab.proving.history import Life, Record
from doyen_lab.switch import Loopback

pytestmark = pytest.mark.alone


def test_the_next_leader_acts_soon_and_alone() -> None:
    found = asyncio.run(kill_leaders(nodes=3, kills=2))
    assert (found.leaders_per_epoch_max, found.overlap_s, found.epochs_back) == (1, 0.0, 0)
    assert found.acts > 50 and found.reigns >= 3
    assert found.median_s < 1.0 + 2 * found.lateness_worst_s


@pytest.mark.soak
def test_fifty_kills() -> None:
    found = asyncio.run(kill_leaders(kills=50))
    assert found.holds, found


def test_who_lost_its_file_has_no_vote(tmp_path: Path) -> None:
    """Two of three are left, and one of them has lost its file: nobody can lead until the third is back."""

    async def play() -> None:
        async with voters(Loopback(3), str(tmp_path), ["p1", "p2", "p3"], pole=timers(ms(500))) as group:
            await group.start_all()
            leader = await group.settled()
            other = next(name for name in group.labels if name != leader)
            await group.kill(other)
            shutil.rmtree(tmp_path / "state" / other)
            await group.start(other)
            await group.until(lambda: group.running[other].life.names == leader, 20)  # It follows.
            killed_at = await group.kill(leader)
            await group.until(lambda: not any(running.life.names for running in group.running.values()), 20)
            await asyncio.sleep(1.5)
            assert group.next_act("", killed_at) is None  # Nobody leads.
            await group.start(leader)
            life, _ = await group.act_of_another(other, killed_at)
            assert await group.settled() == life.label != other

    asyncio.run(play())


@pytest.mark.parametrize(
    ("oracle", "leaders"),
    [
        ("request", "444"),
        ("latency", "344"),
        ("worst-case", "344"),
        ("consensus", "444"),
        ("history", "444"),
        ("rotating", "111"),
    ],
)
def test_the_right_ones_are_the_papers(oracle: str, leaders: str) -> None:
    """With the dead leader's clients counted to its data centre."""
    for name, last in zip("123", leaders, strict=True):
        assert rightful(layout(name), oracle, NodeId("p5"), 6)[-1] == f"p{last}"
        assert heritage(layout(name), NodeId("p4")) == {"p5": layout(name).rates[NodeId("p5")]}
        assert heritage(layout(name), NodeId("p1")) == {}


@pytest.mark.root
@pytest.mark.parametrize(
    ("name", "oracle", "leader"), [("1", "latency", "p3"), pytest.param("2", "rotating", "p1", marks=pytest.mark.soak)]
)
def test_the_right_successor_over_the_papers_round_trips(name: str, oracle: str, leader: str) -> None:
    found = asyncio.run(succeed(layout(name), oracle))
    assert found.leader_before == "p5"
    assert leader in found.right
    assert found.holds, found


@pytest.mark.root
@pytest.mark.soak
@pytest.mark.parametrize("name", ["1", "2", "3"])
@pytest.mark.parametrize("oracle", list(ORACLES))
def test_the_right_successor_by_each_oracle(name: str, oracle: str) -> None:
    found = asyncio.run(succeed(layout(name), oracle))
    assert found.holds, found


def test_what_is_wrong_is_seen() -> None:
    lives = {name: Life(name, name) for name in "abc"}
    for leader, epoch, at in (("a", 1, 10), ("a", 1, 50), ("b", 2, 40), ("b", 2, 60)):
        lives[leader].add(Record(kind="act", at=at, term=epoch))
    seen = Seen.of(list(lives.values()))
    assert (seen.overlap, seen.epochs_back, seen.leaders_per_epoch_max, seen.reigns) == (10, 1, 1, 2)
    lives["c"].add(Record(kind="act", at=70, term=2))
    assert Seen.of(list(lives.values())).leaders_per_epoch_max == 2
