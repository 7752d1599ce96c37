"""A quorum while nothing happens: a majority answers, in turns, and what is missing is asked for (decision 35)."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from doyen.core.clock import Instant, ms
from doyen.core.ids import NodeId
from doyen.election.pole import messages as msg
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.connectivity import Lookout
from doyen.election.pole.electorate import Electorate
from doyen.election.pole.machine import Pole
from doyen.election.pole.reign import Lease, Turns
from doyen.score.pingpong import Ping, PingPong
from doyen.testing.cluster import Cluster

A, B, C, D, E = FIVE = ("a", "b", "c", "d", "e")
BEAT = PoleConfig.lan(5).beat_interval


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[tuple[NodeId, NodeId, Any, Instant]]:
    """Every message that a voter takes in: who, from whom, what, when."""
    found: list[tuple[NodeId, NodeId, Any, Instant]] = []
    take = Pole.on_message

    def note(self: Pole, sender: NodeId, message: Any, now: Instant) -> None:
        found.append((self.me, sender, message, now))
        take(self, sender, message, now)

    monkeypatch.setattr(Pole, "on_message", note)
    return found


def settled() -> Cluster:
    """A group that a leads."""
    cluster = Cluster(FIVE, preset="lan", seed=1, jitter="500us")
    cluster.set_score(A, 1.0)
    if (leader := cluster.run_until_leader()) != A:
        cluster.resign(leader, to=A)
    cluster.run_for("10s")
    assert cluster.acting() == {A}
    return cluster


def always_led(cluster: Cluster, seconds: int) -> bool:
    def led() -> bool:
        cluster.run_for("20ms")
        return bool(cluster.acting())

    return all(led() for _ in range(50 * seconds))


def test_two_of_four_answer_a_heartbeat_and_all_do_in_turns(heard: list[Any]) -> None:
    cluster = settled()
    heard.clear()
    cluster.run_for("30s")
    kinds = Counter(type(message) for _, _, message, _ in heard)
    beats = kinds[msg.Heartbeat] / 4
    assert 30e9 / BEAT - 2 < beats < 30e9 / BEAT + 2
    assert 2 * beats - 2 <= kinds[msg.HeartbeatAck] <= 2 * beats + 2  # Scores ride along, and need none of their own.
    assert kinds.keys() == {msg.Heartbeat, msg.HeartbeatAck}
    answers = Counter(sender for _, sender, message, _ in heard if isinstance(message, msg.HeartbeatAck))
    assert answers.keys() == {B, C, D, E} and max(answers.values()) - min(answers.values()) <= 7
    scored = Counter(sender for _, sender, message, _ in heard if getattr(message, "standing", None) is not None)
    assert scored.keys() == {B, C, D, E} and set(scored.values()) <= {5, 6}


def test_a_voter_that_is_gone_costs_no_further_heartbeat_and_is_noticed_when_it_is_back(heard: list[Any]) -> None:
    cluster = settled()
    cluster.crash(E)
    cluster.run_for("5s")
    heard.clear()
    cluster.run_for("20s")
    beats = sum(who == B and isinstance(message, msg.Heartbeat) for who, _, message, _ in heard)
    assert 20e9 / BEAT - 2 < beats < 20e9 / BEAT + 2
    cluster.restart(E)
    cluster.run_for("5s")
    heard.clear()
    cluster.run_for("5s")
    assert any(sender == E and isinstance(message, msg.HeartbeatAck) for _, sender, message, _ in heard)


def test_a_missing_answer_makes_the_leader_ask_all_before_the_next_heartbeat(heard: list[Any]) -> None:
    cluster = settled()
    cluster.crash(D)
    cluster.crash(E)
    heard.clear()
    cluster.run_for(4 * BEAT / 1e9)
    beats = [(message, now) for who, _, message, now in heard if who == B and isinstance(message, msg.Heartbeat)]
    early = [after for (_, at), (after, then) in pairwise(beats) if then - at < ms(150)]
    assert early and all(beat.asked == 0 for beat in early)
    assert always_led(cluster, 10)


def test_a_voter_that_misses_heartbeats_asks_and_loses_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two heartbeats in a row, or three, do not reach one voter; without its questions it would give the leader up."""
    cluster = settled()
    take = Pole.on_message
    lost: list[Instant] = []

    def deaf(self: Pole, sender: NodeId, message: Any, now: Instant) -> None:
        if self.me == B and isinstance(message, msg.Heartbeat):
            lost.append(now)
        else:
            take(self, sender, message, now)

    history = len(cluster.history)
    monkeypatch.setattr(Pole, "on_message", deaf)
    cluster.run_for("10s")
    assert len(lost) > 10 and len(cluster.history) == history and cluster.named_by(B) == A


def test_heartbeats_lost_by_the_tenth_unseat_nobody() -> None:
    cluster = Cluster(FIVE, preset="lan", seed=3, jitter="500us", loss=0.1)
    cluster.run_until_leader()
    cluster.run_for("5s")
    history = len(cluster.history)
    assert always_led(cluster, 200) and len(cluster.history) == history


def test_turns_ask_the_silent_beside_a_majority_of_the_others() -> None:
    names = [NodeId(name) for name in FIVE]
    lease, turns = Lease(Electorate(0, frozenset(names)), 1000), Turns(names[0])
    for node in names:
        lease.answered(node, 10)
    assert turns.next(lease) == {B, C}
    for node in names[1:3]:
        lease.answered(node, 20)
        turns.answered(node)
    assert turns.next(lease) == {D, E}
    turns.answered(names[3])
    lease.answered(names[3], 30)
    assert turns.next(lease) == {B, C, E}


def machine(cluster: Cluster, name: str) -> Pole:
    found = cluster.stack(name).reigns[""].machine
    assert isinstance(found, Pole)
    return found


def test_round_trips_ride_on_heartbeats_and_acks(heard: list[Any]) -> None:
    """One way takes 1 to 2 ms; a voter learns its own from the leader, in tenths of a ms."""
    cluster = settled()
    heard.clear()
    cluster.run_for("10s")
    assert {type(message) for _, _, message, _ in heard} == {msg.Heartbeat, msg.HeartbeatAck}
    for voter in (B, C, D, E):
        took = cluster.stack(A).round_trip(NodeId(voter))
        assert took is not None and ms(2) < took < ms(4)
        told = cluster.stack(voter).round_trip(NodeId(A))
        assert told is not None and abs(told - took) <= ms(0.5)
    assert cluster.stack(B).round_trip(NodeId(C)) is None


def test_an_oracle_takes_the_leaders_round_trips_and_pings_the_other_pairs_once_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pings: list[Instant] = []
    take = PingPong.on_message

    def note(self: PingPong, sender: NodeId, message: Any, now: Instant) -> None:
        if isinstance(message, Ping):
            pings.append(now)
        take(self, sender, message, now)

    monkeypatch.setattr(PingPong, "on_message", note)
    cluster = Cluster(FIVE, preset="lan", seed=1, jitter="500us", oracle="latency")
    leader = cluster.run_until_leader()
    cluster.run_for("65s")
    pings.clear()
    cluster.run_for("120s")
    assert 20 <= len(pings) <= 60  # Twenty pairs, two or three times; a second apart they were 2,400.
    samples = cluster.stack(leader).machines["oracle"].vectors.rtt
    assert samples.keys() == {*FIVE} - {leader}
    pings.clear()
    cluster.crash(leader)
    cluster.run_until_leader(other_than=leader)
    assert pings  # Before the election is over, or with it.


def test_the_heir_is_known_though_scores_are_never_compared() -> None:
    cluster = Cluster(FIVE, preset="lan", seed=1, jitter="500us", pole={"resign_interval": "inf"})
    leader = cluster.run_until_leader()
    cluster.run_for("1s")
    heirs = {machine(cluster, name).heir for name in FIVE}
    assert len(heirs) == 1 and heirs <= {*FIVE} - {leader}
    gone = heirs.pop()
    assert gone is not None
    cluster.crash(gone)
    cluster.run_for("14s")  # Two questions for scores.
    heirs = {machine(cluster, name).heir for name in FIVE if name != gone}
    assert len(heirs) == 1 and heirs <= {*FIVE} - {leader, gone}


@pytest.mark.parametrize("waits", [False, True])
def test_an_election_waits_for_no_proposal_of_a_leader_that_was_silent_for_a_guard(
    waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host is cut off; where its proposal is waited for, as before, the next leads T later."""
    if waits:
        monkeypatch.setattr(Lookout, "is_missed", lambda self, now: False)
    cluster = settled()
    cluster.partition([A], rest=True)
    while cluster.acting() == {A}:
        cluster.run_for("1ms")
    lost_s = cluster.now_s
    cluster.run_until(lambda: cluster.acting() - {A})
    config = PoleConfig.lan(5)
    assert (cluster.now_s - lost_s > 1e-9 * config.election_timeout) is waits
