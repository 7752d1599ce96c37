"""The contest's arithmetic: who acts, what a takeover costs, and what is held against which aim."""

import asyncio
import json
from pathlib import Path

import pytest

from doyen.errors import TransportError
from doyen.net.driver import boot_time_ns
from doyen.testing.ledger import Ledger
from doyen_lab.cli.bench.peers import batches
from doyen_lab.contest.entrant import Entrant
from doyen_lab.contest.entrants import OURS, PEERS, entrant, missing
from doyen_lab.contest.figures import Idle, MeasuredProcess
from doyen_lab.contest.peers import Check, Figures, KnownTakeovers, Loss, checks, price, price_ratio
from doyen_lab.contest.trial import check_distinct, phase
from doyen_lab.netns import Counters
from doyen_lab.usage import Mean


def loss(fault: str, acts_s: float | None, known_s: float | None = None) -> Loss:
    return Loss(fault=fault, member="a", pid=1, acts_s=acts_s, known_s=known_s)  # type: ignore[arg-type]


def figures(
    system: str,
    nodes: int = 16,
    *,
    sent: float = 100.0,
    kill: tuple[float | None, ...] = (1.0,),
    cut: tuple[float | None, ...] = (3.0,),
    cpu: float = 1.0,
    rss: float = 20e6,
) -> Figures:
    mean = {name: Mean(value, None) for name, value in (("bytes_per_s", sent), ("cpu_percent", cpu), ("rss_each", rss))}
    return Figures(
        system=system,
        nodes=nodes,
        servers=0,
        formed_s=1.0,
        idle=Idle(seconds=1, packets_per_s=Mean(1, None), pss_each=Mean(1, None), **mean),
        kill=KnownTakeovers.of_losses([loss("kill", value) for value in kill]),
        cut=KnownTakeovers.of_losses([loss("cut", value) for value in cut]),
        join_s=None,
        losses=[],
        processes=[],
    )


# Who acts.


def test_one_acts_alone_since_the_last_other_stopped() -> None:
    ledger = Ledger()
    ledger.say("a", "a", 10)
    ledger.say("b", "b", 12)
    assert ledger.sole(["a", "b"]) is None
    ledger.say("a", "b", 17)
    assert ledger.sole(["a", "b"]) == ("b", 17)
    ledger.say("a", None, 30)  # It never acted in between: no news of who acts.
    assert ledger.sole(["a", "b"]) == ("b", 17)


def test_a_leader_is_known_once_the_last_names_it_and_only_if_it_is_one_of_those_left() -> None:
    ledger = Ledger()
    for name in "abc":
        ledger.say(name, "c", 5)
    assert ledger.known("abc") == ("c", 5)
    assert ledger.known("ab") is None  # They still name the one that is gone.
    ledger.say("a", "b", 8)
    ledger.say("b", "b", 7)
    assert ledger.known("ab") == ("b", 8) and ledger.sole("ab") == ("b", 7)


def test_a_member_that_never_spoke_names_nobody() -> None:
    ledger = Ledger()
    ledger.say("a", "a", 5)
    assert ledger.known(["a", "b"]) is None and ledger.sole(["a", "b"]) == ("a", 5)


def test_what_is_waited_for_must_last() -> None:
    async def story() -> tuple[str, int]:
        ledger = Ledger()
        ledger.say("a", "a", boot_time_ns())

        def change() -> None:
            ledger.say("a", None, boot_time_ns())
            ledger.say("b", "b", boot_time_ns())

        asyncio.get_running_loop().call_later(0.02, change)
        return await ledger.steady(lambda: ledger.sole(["a", "b"]), 0.1, 5)

    assert asyncio.run(story())[0] == "b"


def test_waiting_ends() -> None:
    ledger = Ledger()
    with pytest.raises(TimeoutError):
        asyncio.run(ledger.steady(lambda: ledger.sole(["a"]), 0.0, 0.05))


# What members' lines mean.


def told(group: Entrant, name: str, line: str) -> str | None:
    group.hear(name, line, 7)
    return group.ledger.named_by(name)


def test_an_agent_of_ours_names_whom_it_elected(tmp_path: Path) -> None:
    group = entrant("unicast", 3, tmp_path)
    line = {"event": "elected", "name": "n00", "at": 0.0, "clock": 5, "leader": "n02"}
    assert told(group, "n00", json.dumps(line)) == "n02"
    assert told(group, "n00", json.dumps(line | {"event": "status", "leader": "n01"})) == "n02"
    assert told(group, "n00", json.dumps(line | {"event": "lost"})) is None


def test_over_serf_the_lowest_name_that_is_there_leads(tmp_path: Path) -> None:
    group = entrant("serf", 3, tmp_path)
    words = "    2026/11/16 02:00:00 [INFO] serf: {}: {} 198.18.0.1"
    for event, member, named in (
        ("EventMemberJoin", "s01", "s01"),
        ("EventMemberJoin", "s00", "s00"),
        ("EventMemberJoin", "s02", "s00"),
        ("EventMemberFailed", "s00", "s01"),
        ("EventMemberJoin", "s00", "s00"),
        ("EventMemberLeave", "s00", "s01"),
    ):
        group.hear("s01", words.format(event, member), 7)
        assert group.ledger.named_by("s01") == named, event


def test_an_etcdctl_acts_once_it_says_its_proposal(tmp_path: Path) -> None:
    group = entrant("etcd", 3, tmp_path)
    assert told(group, "e01", "contest/694d81a2b7") is None
    assert told(group, "e01", "e01") == "e01"


def test_a_candidate_of_kazoo_acts_until_it_stops(tmp_path: Path) -> None:
    group = entrant("zookeeper", 3, tmp_path)
    assert told(group, "k01", '{"event": "candidate", "clock": 3}') is None
    assert asyncio.run(group.is_candidate("k01")) and not asyncio.run(group.is_candidate("k02"))
    assert told(group, "k01", '{"event": "acts", "clock": 4}') == "k01"
    assert told(group, "k01", '{"event": "stops", "clock": 5}') is None


def test_members_over_swim_protocol_are_named_by_their_addresses(tmp_path: Path) -> None:
    group = entrant("swim-protocol", 3, tmp_path)
    address = group.network.nodes[2].ipv4
    assert told(group, "w00", json.dumps({"leader": f"{address}:7947", "clock": 4})) == "w02"


def test_each_is_told_how_to_reach_the_others(tmp_path: Path) -> None:
    for system in OURS:
        group = entrant(system, 3, tmp_path)
        command = group.command("n01")
        if system.startswith("will"):
            given = json.loads(command[-1])
            assert len(given["voters"]) == 3 and "key" in given and "state" in given
            assert ("multicast" in given) == ("seeds" not in given) == (system == "will-multicast+key")
            continue
        seeds = {"gossip": 1, "quorum": 1, "quorum-multicast": 0, "multicast": 0, "unicast": 2}
        assert command.count("--seed") == seeds[system.removesuffix("+key")], system
        assert ("--voters" in command) == system.startswith("quorum")
        assert ("--multicast" in command) == ("multicast" in system)
        assert ("--key-file" in command) == ("--http" in command) == system.endswith("+key")


def test_who_is_not_here_is_named_with_what_would_bring_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doyen_lab.contest.asking.shutil.which", lambda name: None)
    assert "apt-get install etcd-server etcd-client" in missing("etcd")
    assert "apt-get install serf" in missing("serf")
    assert {peer for peer in PEERS if not missing(peer)} == {"swim-protocol"}  # A dependency.


# Figures.


def test_a_takeover_is_the_median_and_one_that_never_came_is_counted() -> None:
    losses = [loss("kill", 3.0, 4.0), loss("kill", None), loss("kill", 1.0, 1.5), loss("kill", 2.0, 6.0)]
    found = KnownTakeovers.of_losses(losses)
    assert found == KnownTakeovers(seconds=[3.0, 1.0, 2.0], median_s=2.0, known_median_s=4.0, never=1)
    assert KnownTakeovers.of_losses([]).median_s is None


def test_the_price_is_takeover_by_traffic_and_its_ratio_has_the_spread_of_takeovers() -> None:
    ours = figures("doyen unicast", sent=100, kill=(0.4, 0.5, 0.8))
    theirs = figures("serf", sent=400, kill=(4.0, 6.0, 8.0))
    assert price(ours.kill, ours.idle) == pytest.approx(50)
    ratio = price_ratio(ours, theirs, "kill")
    assert ratio is not None
    assert (ratio.ratio, ratio.low, ratio.high) == pytest.approx((48, 20, 80))
    assert price_ratio(ours, figures("serf", kill=(None,)), "kill") is None


def by(found: list[Check], what: str, peer: str = "") -> Check:
    (one,) = [check for check in found if check.what == what and check.peer == peer]
    return one


def test_aims_differ_by_reach_and_size() -> None:
    theirs = figures("etcd", sent=100, kill=(5.0,), cut=(5.0,))
    found = checks([figures("doyen unicast", kill=(1.0,), cut=(2.0,)), theirs])
    assert by(found, "kill × traffic", "etcd").aim == 3 and by(found, "kill × traffic", "etcd").holds is True
    assert by(found, "cut × traffic", "etcd").aim == 3 and by(found, "cut × traffic", "etcd").holds is False
    found = checks([figures("doyen multicast+key", kill=(1.0,)), theirs])
    assert by(found, "kill × traffic", "etcd").aim == 10 and by(found, "kill × traffic", "etcd").holds is False
    small = checks([figures("doyen unicast", 5, cut=(2.0,)), figures("etcd", 5, cut=(5.0,))])
    assert by(small, "cut × traffic", "etcd").aim is None and by(small, "cut × traffic", "etcd").holds is None


def test_a_takeover_of_ours_that_never_came_is_a_miss_and_one_of_theirs_gives_no_figure() -> None:
    found = checks([figures("doyen unicast", kill=(0.1, None)), figures("etcd", kill=(50.0,))])
    assert by(found, "kill × traffic", "etcd").holds is False
    found = checks([figures("doyen unicast"), figures("etcd", kill=(None,))])
    assert by(found, "kill × traffic", "etcd").value is None and by(found, "kill × traffic", "etcd").holds is None


def test_memory_is_held_to_its_bound_with_a_key_and_cpu_to_serfs() -> None:
    systems = [figures("doyen unicast", cpu=3.0, rss=30e6), figures("serf", cpu=2.0), figures("etcd", cpu=1.0)]
    found = checks(systems)
    assert by(found, "CPU", "serf").holds is False and not [c for c in found if c.what == "RSS"]
    found = checks([figures("doyen unicast+key", cpu=2.0, rss=26.1e6), figures("serf", cpu=2.0)])
    assert by(found, "CPU", "serf").holds is True and by(found, "RSS").holds is False


def test_systems_are_held_against_peers_of_their_own_size() -> None:
    assert checks([figures("doyen unicast", 5), figures("serf", 16)]) == []


def test_processes_that_share_a_namespace_are_refused() -> None:
    def process(pid: int, namespace: str, inode: int) -> MeasuredProcess:
        return MeasuredProcess(
            system="a",
            name="b",
            pid=pid,
            namespace=namespace,
            namespace_inode=inode,
            interface="veth0",
            address="",
            counters=Counters(0, 0, 0, 0),
        )

    check_distinct([process(1, "a", 1), process(2, "b", 2)])
    with pytest.raises(TransportError, match="namespace_inode"):
        check_distinct([process(1, "a", 1), process(2, "b", 1)])


def test_faults_are_spread_evenly_over_phases() -> None:
    phases = sorted(phase(number, 0.3) for number in range(8))
    gaps = [b - a for a, b in zip(phases, [*phases[1:], phases[0] + 1], strict=True)]
    assert max(gaps) < 0.25 and min(gaps) > 0.05


def test_small_sizes_are_measured_together() -> None:
    assert batches([5, 16, 64]) == [[5, 16], [64]]
    assert batches([64, 32, 3]) == [[3], [32], [64]]


def test_servers_that_elect_among_themselves_have_aims_of_their_own() -> None:
    theirs = figures("zookeeper-servers", 5, kill=(0.5,), cut=(4.0,))
    found = {
        check.what: check for check in checks([figures("doyen will-multicast+key", 5, kill=(0.2,), cut=(2.0,)), theirs])
    }
    assert (found["kill × traffic"].aim, found["cut × traffic"].aim) == (3.0, 1.5)
    assert (found["kill × traffic"].holds, found["cut × traffic"].holds) == (False, True)  # 2.5 and 2 times better.
    assert found["killed, slowest"].holds and found["cut off, slowest"].holds and found["traffic"].aim == 600
    found = {check.what: check for check in checks([figures("doyen will+key", 3, kill=(0.4,), cut=(2.6,)), theirs])}
    assert not (found["killed, slowest"].holds or found["cut off, slowest"].holds) and found["traffic"].aim == 600
    beside = checks([figures("doyen quorum+key", 5, kill=(2.0,)), theirs])
    assert any(check.what == "kill × traffic" and check.aim is None for check in beside)  # Without a will: published.
    assert not any(check.peer for check in checks([figures("doyen gossip", 5, kill=(0.2,)), theirs]))
