"""`doyen.testing`: groups in made-up time, by the very machines of `doyen.join`."""

import pytest

import doyen
from doyen.core import NodeId
from doyen.errors import ConfigError, LocalProtocolError
from doyen.testing import Cluster
from doyen.testing.plugin import MakeCluster, doyen_cluster

__all__ = ["doyen_cluster"]  # The fixture, also where the plugin is not installed.


def test_only_one_sends_the_mail(doyen_cluster: MakeCluster) -> None:
    cluster = doyen_cluster(5, loss=0.2, seed=7)
    first = cluster.run_until_leader()
    cluster.partition({first}, rest=True)
    cluster.run_for("10s")
    assert cluster.acting_leaders_at_once() <= 1
    assert not cluster.is_leader(first)
    cluster.heal()
    assert cluster.run_until_leader() != first


@pytest.mark.parametrize("election", ["quorum", "gossip"])
def test_the_side_without_the_leader_elects_another(doyen_cluster: MakeCluster, election: str) -> None:
    cluster = doyen_cluster(5, seed=3, election=election)
    first = cluster.run_until_leader()
    cut = cluster.partition({first}, rest=True)
    second = cluster.run_until_leader(other_than=first)
    assert second != first and cluster.is_leader(second)
    assert {cluster.named_by(name) for name in cluster.names if name != first} == {second}
    with pytest.raises(AssertionError, match="did not come to hold"):  # All, on either side, they never name.
        cluster.run_until_leader("20s")
    cluster.heal(cut)
    cluster.run_until_leader()


def test_a_weak_election_has_two_leaders_across_a_partition_and_one_after_it_heals(doyen_cluster: MakeCluster) -> None:
    cluster = doyen_cluster(4, election="hybrid", seed=3)
    cluster.run_until_leader()
    cluster.partition({"n0", "n1"}, {"n2", "n3"})
    cluster.run_until(lambda: len(cluster.acting()) == 2)
    assert cluster.acting_leaders_at_once() == 2
    cluster.heal()
    cluster.run_until_leader()
    assert len(cluster.acting()) == 1


@pytest.mark.parametrize(
    "election", ["le-a", "le-s", "le-m", "base", "optimistic", "preferred", "hybrid", "spanning", "pole", "by-key"]
)
def test_every_election_replaces_a_crashed_leader_and_takes_it_back(election: str) -> None:
    cluster = Cluster(5, election=election, seed=1)
    first = cluster.run_until_leader()
    cluster.crash(first)
    second = cluster.run_until_leader(other_than=first)
    assert second != first
    cluster.restart(first)
    cluster.run_for("5s")
    cluster.run_until_leader()
    assert first in cluster.up()
    terms = [seen.term for seen in cluster.history if seen.node == second and seen.kind == "elected"]
    assert terms == sorted(terms)


@pytest.mark.parametrize("seed", range(10))
def test_with_a_quorum_a_paused_leader_wakes_up_powerless(doyen_cluster: MakeCluster, seed: int) -> None:
    cluster = doyen_cluster(3, seed=seed, loss=0.1)
    first = cluster.run_until_leader()
    cluster.pause(first)
    cluster.run_until(lambda: cluster.acting() - {first})
    cluster.resume(first)
    assert not cluster.is_leader(first)
    cluster.run_for("5s")
    assert cluster.acting_leaders_at_once() == 1


def test_resigning_hands_over_and_the_best_score_leads(doyen_cluster: MakeCluster) -> None:
    cluster = doyen_cluster(3)
    for score, name in enumerate(cluster.names):
        cluster.set_score(name, float(score))
    first = cluster.run_until_leader()
    heir = next(name for name in cluster.names if name != first)
    cluster.resign(first, to=heir)
    assert cluster.run_until_leader(other_than=first) == heir


def test_members_are_seen_to_leave_and_to_fail(doyen_cluster: MakeCluster) -> None:
    cluster = doyen_cluster(4, election="hybrid", membership="swim")
    cluster.run_until(lambda: all(len(cluster.members(name)) == 4 for name in cluster.names))
    cluster.leave("n3")
    cluster.run_until(lambda: cluster.members("n0")["n3"] == "left")
    cluster.crash("n2")
    cluster.run_until(lambda: cluster.members("n0")["n2"] == "failed")


def test_the_same_seed_gives_the_same_run(doyen_cluster: MakeCluster) -> None:
    def run(seed: int) -> str:
        cluster = doyen_cluster(5, loss=0.2, seed=seed, election="hybrid")
        cluster.run_until_leader()
        cluster.run_for("5s")
        return cluster.sim.trace.digest()

    assert run(1) == run(1) != run(2)


def test_a_cluster_says_how_to_make_it_again_and_takes_what_join_takes(doyen_cluster: MakeCluster) -> None:
    made = doyen_cluster(
        2, duplicates=0.1, election=doyen.Hybrid(missing_max=1), membership=doyen.Swim(period=2), seed=3, preset="lan"
    )
    assert (made.config("n0").election, made.config("n0").tables["ctolerant"].missing_max) == ("hybrid", 1)
    assert made.config("n1").tables["swim"].period == 2_000_000_000  # A bare number means seconds.
    again = eval(repr(made).split(" at ")[0], {"Cluster": Cluster, "Hybrid": doyen.Hybrid, "Swim": doyen.Swim})
    for cluster in (made, again):
        cluster.run_for("5s")
    assert made.sim.trace.digest() == again.sim.trace.digest()


def test_what_cannot_work_is_refused(doyen_cluster: MakeCluster) -> None:
    with pytest.raises(ConfigError, match="election 'democracy' is not installed: one of"):
        doyen_cluster(3, election="democracy")
    with pytest.raises(ConfigError, match="at least 1"):
        doyen_cluster(0)
    with pytest.raises(ConfigError, match="several that differ"):
        doyen_cluster(["a", "a"])
    with pytest.raises(ConfigError, match="swim is a table"):
        doyen_cluster(2, swim=3)
    cluster = doyen_cluster(2)
    with pytest.raises(LocalProtocolError, match="two sides"):
        cluster.partition({"n0"})
    for ask in (cluster.crash, cluster.named_by, cluster.term, cluster.members, cluster.config):
        with pytest.raises(LocalProtocolError, match="no node 'x'"):
            ask("x")
    with pytest.raises(LocalProtocolError, match="none in common"):
        cluster.partition({"n0", "n1"}, {"n1"})
    with pytest.raises(LocalProtocolError, match="no 'partition 7' to heal: nothing is cut"):
        cluster.heal("partition 7")
    with pytest.raises(LocalProtocolError, match="kept or lost, not 'gone'"):
        cluster.crash("n0", disk="gone")  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError, match="n0 runs: crash it first"):
        cluster.restart("n0")
    with pytest.raises(AssertionError, match="did not come to hold within 1s: n0 names"):
        cluster.run_until(lambda: False, within="1s")


@pytest.mark.parametrize("oracle", ["consensus", "latency", "worst-case", "request", "rotating"])
def test_the_papers_oracles_elect_with_a_quorum(oracle: str) -> None:
    cluster = Cluster(5, oracle=oracle, seed=2, pole={"score_timeout": "3s"})
    first = cluster.run_until_leader()
    cluster.crash(first)
    assert cluster.run_until_leader(other_than=first) != first
    assert cluster.acting_leaders_at_once() == 1


def test_by_the_rotating_oracle_each_resignation_and_each_crash_is_the_next_voters_turn() -> None:
    cluster = Cluster(4, oracle="rotating", seed=3, pole={"resign_interval": "1s", "resign_rounds": 1, "cool_down": 0})
    leader = cluster.run_until_leader()
    for _ in range(5):
        cluster.run_for("5s")
        assert cluster.leader() == leader  # Its turn is no reason to resign, nor is the next one's.
        term = cluster.term(leader)
        assert term is not None and leader == f"n{(term - 1) % 4}"
        cluster.resign(leader)
        leader = cluster.run_until_leader(other_than=leader)
        assert cluster.term(leader) == term + 1 and leader == f"n{term % 4}"
    term = cluster.term(leader)
    cluster.run_for("3s")
    cluster.crash(leader)
    assert cluster.run_until_leader(other_than=leader) == f"n{term % 4}"


def test_the_voter_nearest_to_the_others_leads_by_the_consensus_oracle() -> None:
    cluster = Cluster(3, oracle="consensus", seed=2, delay="2ms")
    far = cluster.sim.by_name[NodeId("n2")]
    cluster.sim.filters.append(lambda sender, channel, to, message: 20_000_000 if far in (sender, to) else 0)
    cluster.sim.network_changed()
    assert cluster.run_until_leader() in ("n0", "n1")  # By name alone it would be n2.
