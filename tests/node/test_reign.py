"""What a node knows of an election: the lease of a quorum's leader, which watchdogs live by."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

import doyen
from doyen.core.clock import ms, seconds
from doyen.core.ids import Incarnation, NodeId, Term
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.election.churn.kind import HYBRID
from doyen.election.churn.messages import (
    AttemptBegan,
    ElectionId,
    Leader,
    LeaderHeld,
    NotifyLeader,
    Record,
    ResponseCounted,
)
from doyen.errors import LeadershipLost
from doyen.node.reign import Reign


def alone(**fields: object) -> doyen.Node:
    return doyen.join("g", name="a", **fields)  # type: ignore[arg-type]


def quorum_of_one() -> doyen.Node:
    return alone(election="pole", voters=["a"], volatile=True)


def test_a_quorums_leader_has_a_lease_and_others_have_none() -> None:
    async def main() -> None:
        async with quorum_of_one() as node, node.lead(timeout=5):
            until = node.own_election.lease_until()
            assert until is not None
            assert 0 < until - node.clock() <= node.config.tables["pole"].lease
        async with alone(election="le-s") as node, node.lead(timeout=5):
            assert node.own_election.lease_until() is None

    asyncio.run(main())


def test_a_lease_that_lapses_ends_leadership_by_the_clock_alone() -> None:
    async def main() -> None:
        async with quorum_of_one() as node, node.lead(timeout=5) as term:
            until = node.own_election.lease_until()
            assert until is not None
            node.agent.driver.clock = lambda: until
            assert term.lost
            assert not node.is_leader
            with pytest.raises(LeadershipLost, match="lease over"):
                term.check()
            node.agent.driver.clock = lambda: until - 1
            assert not term.lost

    asyncio.run(main())


def test_a_takeover_lasts_from_the_loss_of_a_leader_to_the_next() -> None:
    reign = Reign("", "election", HYBRID, NodeId("a"))
    reign.note(LeaderElected(Term(1, NodeId("b"))), seconds(1))  # The first leader takes over from nobody.
    reign.note(LeaderElected(Term(2, NodeId("c"))), seconds(2))  # Outranked: nobody was missed.
    reign.note(LeaderLost(Term(1, NodeId("b")), "silent"), seconds(3))  # It was not the leader any more.
    reign.note(LeaderLost(Term(2, NodeId("c")), "outranked"), seconds(4))
    reign.note(LeaderElected(Term(3, NodeId("c"))), seconds(5))
    assert reign.takeovers.count == 0
    reign.note(LeaderLost(Term(3, NodeId("c")), "silent"), seconds(10))
    reign.note(LeaderElected(Term(4, NodeId("a"))), seconds(10) + ms(300))
    assert (reign.takeovers.count, reign.takeovers.sum) == (1, ms(300))


def test_a_tentative_leader_that_becomes_final_is_explained_so() -> None:
    ant, bee = NodeId("ant"), NodeId("bee")
    reign = Reign("", "election", HYBRID, ant)
    machine: Any = SimpleNamespace(me=ant, point=SimpleNamespace(handed_over=None))
    reign.machine = machine
    for final in (False, True):
        machine.held = Record(ElectionId(1, bee, Incarnation(1)), 1 + final, final, bee, Incarnation(1))
        reign.note(LeaderHeld(machine.held), 0)
        if not final:
            reign.note(LeaderElected(machine.held.term), 0)
        assert ("not final yet" in str(reign.why)) is not final


def test_a_body_begins_when_the_tentative_leader_is_final() -> None:
    async def main() -> None:
        async with alone(election="gossip") as node:
            async with node.lead(timeout=10):
                number = node.term.number + 1 if node.term is not None else 1
            host, bee = node.agent.driver.host, NodeId("bee")
            election = ElectionId(number, bee, Incarnation(1))
            by_bee = Record(election, 1, False, bee, Incarnation(1))
            host.on_message("election", bee, Leader(by_bee), node.clock())
            host.on_message("election", bee, NotifyLeader(election, 2, False), node.clock())
            assert node.leader is not None and node.leader.name == "a" and not node.is_leader
            assert (
                "waiting",
                "named leader, but does not act yet: its election is not final yet",
            ) in node.explain().lines
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(node.own_election.won(), 0.05)
            waits = asyncio.create_task(node.own_election.won())
            await asyncio.sleep(0)
            host.on_message("election", bee, NotifyLeader(election, 3, True), node.clock())
            assert (await asyncio.wait_for(waits, 5)).number == number

    asyncio.run(main())


def test_what_was_counted_in_an_earlier_election_is_not_said_of_a_later_one() -> None:
    ant, bee = NodeId("ant"), NodeId("bee")
    reign = Reign("", "election", HYBRID, ant)
    machine: Any = SimpleNamespace(me=ant, leader_count=1)
    reign.machine = machine

    def elect(number: int, initiator: NodeId, now: int) -> None:
        machine.held = Record(ElectionId(number, initiator, Incarnation(1)), 1, True, bee, Incarnation(1))
        machine.point = SimpleNamespace(handed_over=None, rank=lambda name: 0, tie=None)
        reign.note(LeaderHeld(machine.held), now)
        reign.note(LeaderElected(machine.held.term), now)

    mine = ElectionId(1, ant, Incarnation(1))
    reign.note(AttemptBegan(mine, 1), seconds(1))
    reign.note(ResponseCounted(bee, (), (ant, bee), ()), seconds(1))
    elect(1, ant, seconds(2))
    assert reign.account.candidates == (ant, bee) and reign.took == seconds(1)
    reign.note(LeaderLost(Term(1, bee), "silent"), seconds(5))
    elect(2, bee, seconds(6))
    assert (reign.account.candidates, reign.account.answered, reign.took) == ((), (), None)
