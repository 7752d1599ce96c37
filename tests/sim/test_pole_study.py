"""The replicated service over the paper's deployments: leaders and latencies as predicted, exactly.  [POLE §4]"""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from doyen.cli import app
from doyen.core.ids import NodeId
from doyen.errors import ConfigError
from doyen_papers.score.oracles import score_all
from doyen_papers.studies.pole import CHOICES, Run, ServiceSetting, simulate
from doyen_papers.studies.pole_places import Deployment, deployment
from doyen_papers.studies.service import NIC_BITS_PER_S, tcp_bits_per_s

P5 = NodeId("p5")
ORACLES = [name for name in CHOICES if name != "rotating"]


def predicted(place: Deployment, leader: NodeId, dead: NodeId | None) -> dict[str, float]:
    """Latency per data centre: there and back, and a quorum's round trip."""
    others = [server for server in place.servers if server not in (dead, leader)]
    consensus = sorted([0.0, *(place.between(leader, other) for other in others)])[len(place.servers) // 2]
    return {name: consensus + place.between(leader, servers[0]) for name, servers in place.centres}


def check(run: Run, place: Deployment, dead: NodeId | None, leader: NodeId) -> None:
    found = run.before if dead is None else run.after
    expected = predicted(place, leader, dead)
    sending = [name for (name, _), share in zip(place.centres, place.shares, strict=True) if share]
    for name in sending:
        assert found[name].mean == pytest.approx(expected[name], abs=1e-9), name
        assert found[name].worst == pytest.approx(expected[name], abs=1e-9), name
    mean = sum(share * expected[name] for (name, _), share in zip(place.centres, place.shares, strict=True))
    assert found["overall"].mean == pytest.approx(mean, abs=1e-9)
    assert found["overall"].worst == pytest.approx(max(expected[name] for name in sending), abs=1e-9)


@pytest.mark.parametrize("name", ["1", "2", "3", "two-dc"])
@pytest.mark.parametrize("oracle", ORACLES)
def test_leaders_and_latencies_are_as_predicted(name: str, oracle: str) -> None:
    place = deployment(name)
    run = simulate(ServiceSetting(deployment=name, oracle=oracle, requests_per_s=2), 1)
    wanted = score_all(CHOICES[oracle], place.matrix(), place.rates(), exclude=P5, reattribute=True)
    assert (run.leader_before, run.leader_after) == (P5, wanted.leader)
    check(run, place, None, P5)
    check(run, place, P5, wanted.leader)


@pytest.mark.parametrize("name", ["1", "2", "3", "two-dc"])
def test_rotating_elects_the_next_id(name: str) -> None:
    run = simulate(ServiceSetting(deployment=name, oracle="rotating", requests_per_s=2), 1)
    assert run.leader_after == "p1"
    check(run, deployment(name), P5, NodeId("p1"))


@pytest.mark.parametrize(
    ("name", "share", "leader"),
    [
        *[("1", 0.0, "p4"), ("1", 0.01, "p3"), ("1", 0.9128, "p3"), ("1", 0.913, "p1"), ("1", 1.0, "p1")],
        *[("3", 0.5306, "p4"), ("3", 0.5308, "p3"), ("3", 1.0, "p3")],
        *[("two-dc", 0.4999, "p2"), ("two-dc", 0.5, "p4")],
    ],
)
def test_latency_follows_the_requests(name: str, share: float, leader: str) -> None:
    run = simulate(ServiceSetting(deployment=name, oracle="latency", share=share, requests_per_s=2), 2)
    assert run.leader_after == leader
    check(run, deployment(name).with_share(share), P5, NodeId(leader))


def test_pole_4_3_request_elects_a_slow_leader_in_three_data_centres() -> None:
    """All requests come to D3: p1 is the fastest in Deployment 1, p4 in 2; request elects p1 in both."""
    for name, fastest in (("1", "p1"), ("2", "p4")):
        assert simulate(ServiceSetting(deployment=name, oracle="request", share=1.0), 1).leader_after == "p1"
        assert simulate(ServiceSetting(deployment=name, oracle="latency", share=1.0), 1).leader_after == fastest


def test_pole_4_4_the_fattest_leader_recovers_in_no_time_in_two_data_centres() -> None:
    def recovery(oracle: str, megabytes: int, rtt: float) -> float:
        setting = ServiceSetting(
            deployment="two-dc",
            oracle=oracle,
            outdated=("p1",),
            snapshot_bytes=megabytes * 10**6,
            rtt_ms=rtt,
            requests_per_s=2,
        )
        run = simulate(setting, 1)
        assert run.recovery_time is not None and run.leader_after == ("p4" if oracle == "history" else "p1")
        return run.recovery_time

    assert recovery("history", 250, 77.06) == recovery("history", 0, 77.06) == pytest.approx(0.07706)
    times = [recovery("rotating", 100, rtt) for rtt in (0.0, 20.75, 53.26, 77.06)]
    assert times == sorted(times) and times[0] == pytest.approx(8e8 / 940e6)
    assert times[3] == pytest.approx(8e8 / tcp_bits_per_s(77.06) + 2 * 0.07706)  # Learn, pull, transfer.
    assert recovery("rotating", 200, 77.06) - times[3] == pytest.approx(8e8 / tcp_bits_per_s(77.06))


def test_pole_4_4_in_three_data_centres_another_recovers_faster_than_the_fattest() -> None:
    p4 = simulate(ServiceSetting(deployment="recovery", oracle="history", snapshot_bytes=10**8), 1)
    p1 = simulate(ServiceSetting(deployment="recovery", oracle="rotating", snapshot_bytes=10**8), 1)
    assert (p4.leader_after, p1.leader_after) == ("p4", "p1")
    assert p1.recovery_time is not None and p4.recovery_time is not None
    assert p1.recovery_time < p4.recovery_time


def test_jitter_moves_the_mean_by_little_and_consensus_between_equals() -> None:
    runs = [simulate(ServiceSetting(deployment="1", oracle="consensus", jitter=0.02), seed) for seed in range(6)]
    assert {run.leader_after for run in runs} <= {"p2", "p3", "p4"}
    mean = runs[0].before["overall"].mean
    assert mean is not None and mean != 38.86 and mean == pytest.approx(38.86, rel=0.02)


def test_tcp_is_limited_by_the_interface_or_by_its_window() -> None:
    assert tcp_bits_per_s(0) == NIC_BITS_PER_S == tcp_bits_per_s(1.0)
    assert tcp_bits_per_s(80.0) == 2 * tcp_bits_per_s(160.0) == 200e6


# The command.


def test_the_command_answers_with_one_object(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'leader = "c"\nshared = "east"\n'
        '[[centre]]\nname = "west"\nservers = ["a", "b"]\n[[centre]]\nname = "east"\nservers = ["c"]\n'
        '[[link]]\nbetween = ["west", "east"]\nrtt_ms = 40\n'
    )
    done = CliRunner().invoke(app, ["sim", "pole", "--deployment", str(file), "--oracle", "worst-case", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["leader_before"], found["leader_after"] == ("c", "b")
    assert found["latency"]["before"]["east"] == {"mean": 40.0, "worst": 40.0}
    assert found["latency"]["after"]["west"] == {"mean": 0.0, "worst": 0.0}
    assert {"recovery_time", "election_time", "messages"} <= set(found)
    assert found["messages"]["total"] > 1000


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--deployment"),
        (["--deployment", "9"], "--deployment"),
        (["--deployment", "1", "--share", "1.5"], "--share"),
        (["--deployment", "1", "--oracle", "best"], "--oracle"),
        (["--deployment", "1", "--outdated", "p9"], "--outdated"),
        (["--deployment", "1", "--outdated", "p5"], "--outdated"),
        (["--deployment", "1", "--outdated", "p1,p2,p3"], "--outdated"),
        (["--deployment", "1", "--snapshot", "big"], "--snapshot"),
        (["--deployment", "1", "--jitter", "50%"], "--jitter"),
        (["--deployment", "1", "--runs", "5"], "--runs"),
        (["--chaos", "--oracle", "latency"], "--oracle"),
        (["--chaos", "--nodes", "0"], "--nodes"),
        (["--chaos", "--runs", "0"], "--runs"),
        (["--chaos", "--runs", "1", "--jobs", "-1"], "--jobs"),
    ],
)
def test_whatever_is_wrong_is_named(arguments: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        CliRunner().invoke(app, ["sim", "pole", *arguments], catch_exceptions=False, standalone_mode=False)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('leader = "c"\n[[centre]]\nname = "x"\nservers = ["a"]\n', "c is in no data centre"),
        ('leader = "a"\n[[centre]]\nname = "x"\nservers = ["a"]\n[[centre]]\nname = "y"\nservers = ["b"]\n', "link"),
        ('leader = "a"\n[[centre]]\nname = "x"\nservers = ["a"]\nshare = 0.5\n', "add up to 1"),
        ('leader = "a"\n[[centre]]\nname = "x"\nservers = ["a", "a"]\n', "one data centre only"),
        ('leader = "a"\ncolour = 1\n', "colour"),
        ("leader = ", "cannot be read"),
    ],
)
def test_deployments_that_make_no_sense(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(ConfigError, match=says):
        deployment(str(tmp_path / "bad.toml"))
