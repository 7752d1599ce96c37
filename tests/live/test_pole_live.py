"""Elections by score among real processes: on loopback, and over the paper's round trips.  [POLE]"""

import asyncio
import shutil
from pathlib import Path

import pytest

from doyen.core.clock import ms
from doyen.core.ids import NodeId
from doyen.election.pole import PoleConfig
from doyen.score.oracles import ORACLES
from doyen_lab.cli.bench.pole import layout
from doyen_lab.pole_group import PoleGroup, on_loopback
from doyen_lab.pole_takeover import heritage, kill_leaders, rightful, succeed
from doyen_lab.pole_witness import Ledger

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


def test_who_lost_its_file_has_no_vote() -> None:
    """Two of three are left, and one of them has lost its file: nobody can lead until the third is back."""
    config = PoleConfig(lease=ms(500), heartbeat_interval=ms(100), election_timeout=ms(100), score_timeout=0)

    async def play() -> None:
        async with PoleGroup(on_loopback(["p1", "p2", "p3"]), config) as group:
            await group.start_all()
            leader, _ = await group.until_agreed()
            other = next(name for name in group.names if name != leader)
            group.kill(other)
            await group.voters[other].process.wait()
            shutil.rmtree(Path(group._folder.name) / other)
            await group.start(other)
            await group.until(lambda: group.voters[other].leader == leader, "it follows")
            group.kill(leader)
            await group.voters[leader].process.wait()
            acted = len(group.first_acts)
            await group.until(lambda: all(voter.leader is None for voter in group.living().values()), "nobody leads")
            await asyncio.sleep(1.5)
            assert len(group.first_acts) == acted
            await group.start(leader)
            await group.until(lambda: len(group.first_acts) > acted, "somebody acts")
            await group.until_agreed()
            assert group.first_acts[-1].leader != other

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
@pytest.mark.parametrize(("name", "oracle", "leader"), [("1", "latency", "p3"), ("2", "rotating", "p1")])
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


def test_the_witness_sees_what_is_wrong() -> None:
    ledger = Ledger()
    for leader, epoch, at in (("a", 1, 10), ("a", 1, 50), ("b", 2, 40), ("b", 2, 60)):
        ledger.note(leader, epoch, at)
    seen = ledger.seen()
    assert (seen.overlap, seen.epochs_back, seen.leaders_per_epoch_max, seen.reigns) == (10, 1, 1, 2)
    ledger.note("c", 2, 70)
    assert ledger.seen().leaders_per_epoch_max == 2
