"""Scores count in every election that can use them, and a leader hands over to a member that is lastingly better."""

import asyncio
from random import Random
from typing import Any

import pytest

import doyen
from doyen.core import NodeId
from doyen.core.clock import FOREVER, seconds
from doyen.election.churn.challengers import Challengers, clearly_better
from doyen.election.churn.config import CTolerantConfig
from doyen.node.layers import from_tables
from doyen.testing import Cluster

BEE, CAT = NodeId("bee"), NodeId("cat")


@pytest.mark.parametrize(
    ("score", "than", "better"),
    [
        (0.9, 0.05, True),
        (900_000.0, 50_000.0, True),  # Whatever the unit is.
        (0.55, 0.5, False),
        (-1.0, -2.0, True),  # A load, with its sign turned.
        (-1.9, -2.0, False),
        (0.001, 0.0, True),  # Somebody gives a score, the leader none.
        (0.0, 0.0, False),
        (1.0, -1.0, True),
    ],
)
def test_the_margin_is_a_share_of_the_larger_score(score: float, than: float, better: bool) -> None:
    assert clearly_better(score, than, 0.2) is better


def test_a_challenger_that_falls_back_begins_anew() -> None:
    weighed = Challengers(0.2, seconds(10), seconds(10))
    assert weighed.weigh(0.5, {BEE: 0.9}, seconds(1)) == ([], seconds(11))
    assert weighed.weigh(0.5, {BEE: 0.5, CAT: 0.9}, seconds(6)) == ([], seconds(16))
    assert weighed.weigh(0.5, {BEE: 0.9, CAT: 0.9}, seconds(11)) == ([], seconds(16))
    assert weighed.weigh(0.5, {BEE: 0.9, CAT: 0.9}, seconds(16)) == ([CAT], seconds(26))
    assert weighed.weigh(0.5, {BEE: 0.9, CAT: 0.9}, seconds(17)) == ([], seconds(26))  # The world is at it.
    assert weighed.weigh(0.5, {}, seconds(18)) == ([], None)


def test_in_the_papers_nobody_hands_over() -> None:
    assert CTolerantConfig().better_for == FOREVER
    assert all(made.better_for < FOREVER for made in (CTolerantConfig.lan(5), CTolerantConfig.wan(5)))


@pytest.mark.parametrize("election", ["base", "optimistic", "preferred", "gossip"])
def test_a_score_counts_without_a_word_on_the_others_and_a_fallen_leader_is_replaced(election: str) -> None:
    cluster = Cluster(4, election=election, membership="swim", preset="lan", seed=3)
    cluster.run_until_leader()
    best = next(name for name in cluster.names if name != cluster.leader())
    cluster.set_score(best, 0.9)
    took = cluster.run_until(lambda: cluster.leader() == best, within="20s")
    assert 10 <= took < 12
    other = next(name for name in cluster.names if name != best)
    cluster.set_score(other, 0.5)
    cluster.run_for("60s")
    assert cluster.leader() == best
    cluster.set_score(best, 0.05)
    took = cluster.run_until(lambda: cluster.leader() == other, within="20s")
    assert 10 <= took < 12
    lost = [seen for seen in cluster.history if seen.kind == "lost" and seen.leader == seen.node == best]
    assert [seen.reason for seen in lost] == [f"{other} was better by 0.45 for 10s"]
    why = {str(cluster.stack(name).reigns[""].why) for name in cluster.names}
    assert why == {f"{best} handed over: {other} was better by 0.45 for 10s"}
    assert cluster.acting_leaders_at_once() == 1


@pytest.mark.parametrize("seed", range(3))
def test_scores_that_are_noise_do_not_make_leadership_flap(seed: int) -> None:
    cluster, rng = Cluster(5, election="gossip", preset="lan", seed=seed), Random(seed)
    for name in cluster.names:
        cluster.set_score(name, 0.5)
    first = cluster.run_until_leader()
    before = len(cluster.history)
    for _ in range(600):  # Any two differ by up to 0.4, far beyond the margin; but none for 10 s on end.
        for name in cluster.names:
            cluster.set_score(name, 0.5 + 0.2 * (2 * rng.random() - 1))
        cluster.run_for("1s")
    assert cluster.history[before:] == [] and cluster.leader() == first


def test_a_leader_does_not_hand_over_to_a_member_that_it_suspects() -> None:
    cluster = Cluster(3, election="gossip", preset="lan", seed=1)
    leader = cluster.run_until_leader()
    best, other = (name for name in cluster.names if name != leader)
    cluster.set_score(best, 1.0)
    cluster.set_score(other, 0.5)
    cluster.run_for("8s")
    cluster.crash(best)
    cluster.run_until(lambda: cluster.leader() == other, within="60s")
    assert not any(seen.leader == best for seen in cluster.history)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"election": "local"}, "the score counts for nothing: the election local goes by other things"),
        ({"election": "by-key", "membership": "ring"}, "the election by-key goes by other things"),
        ({"election": "le-m"}, "the election le-m goes by other things"),
        ({"election": "gossip", "rank": "hash"}, "the election gossip (hybrid) goes by hashes alone"),
        ({"election": "quorum", "voters": ["a"], "volatile": True, "oracle": "latency"}, "goes by the oracle latency"),
    ],
)
def test_a_score_that_would_count_for_nothing_is_complained_about(fields: dict[str, Any], said: str) -> None:
    assert said in from_tables({"group": "g", "standing": 0.9, **fields}).unused_score()
    assert from_tables({"group": "g", **fields, "elections": ["mail=fast"]}).unused_score() == ""


def test_the_complaint_is_logged_once_when_the_node_starts(caplog: pytest.LogCaptureFixture) -> None:
    async def main(**fields: Any) -> None:
        async with doyen.join("g", preset="local", control=False, **fields):
            pass

    asyncio.run(main(election="local", score=lambda: 1.0))
    assert [line.message for line in caplog.records if "score" in line.message] == [
        "g: the score counts for nothing: the election local goes by other things; gossip, fast and quorum go by scores"
    ]
    caplog.clear()
    asyncio.run(main(election="local"))
    asyncio.run(main(election="gossip", standing=0.5))
    assert not [line for line in caplog.records if "score" in line.message]


def test_voters_without_a_quorum_are_complained_about(caplog: pytest.LogCaptureFixture) -> None:
    async def main(**fields: Any) -> None:
        async with doyen.join("g", preset="local", control=False, voters=["a"], **fields):
            pass

    asyncio.run(main())
    assert [line.message for line in caplog.records if "voters" in line.message] == [
        "g: voters count for nothing: the election gossip (hybrid) has no votes; quorum has (election = quorum)"
    ]
    quorum = {"election": "quorum", "voters": ["a"], "volatile": True}
    assert from_tables({"group": "g", **quorum}).unused_voters() == ""


@pytest.mark.parametrize(("shared", "wanted"), [("redis://127.0.0.1", "engine"), ("/mnt/x", "directory")])
def test_a_store_that_no_election_asks_is_complained_about(
    shared: str, wanted: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with doyen.join("g", preset="local", control=False, shared=shared):
            pass

    asyncio.run(main())
    assert [line.message for line in caplog.records if "shared" in line.message] == [
        f"g: shared counts for nothing: the election gossip (hybrid) asks no store; give election = {wanted}"
    ]
    assert from_tables({"group": "g", "shared": shared, "elections": [f"mail={wanted}"]}).unused_shared() == ""
