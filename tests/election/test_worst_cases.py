"""The figures that each kind states: how long a death may go unnoticed, and a group be without a leader."""

from typing import Any, get_args

import pytest
from msgspec.structs import replace

from doyen.core.clock import FOREVER, ms, seconds
from doyen.core.kinds import Around, Detection, Network
from doyen.election.announce.config import AnnounceConfig
from doyen.election.engine.config import EngineConfig
from doyen.membership.heartbeat.config import HeartbeatConfig
from doyen.membership.heartbeat.kind import HEARTBEAT
from doyen.membership.medley.config import MedleyConfig
from doyen.membership.swim.config import SwimConfig
from doyen.node.registry import ELECTIONS, MEMBERSHIPS, find_election, find_membership

FIELDS = ("detection", "failover", "settling")
NETWORKS = get_args(Network)


def figures(name: str, network: Any, size: int = 5, **more: Any) -> tuple[int, ...]:
    kind = find_election(name)
    members = find_membership("ring" if name == "by-key" else "swim")
    found = members.detection(members.table.preset(network, size), size)
    around = Around(**({"delay": ms(5), "group_size": size, "detection": found} | more))
    worst = kind.worst_case(kind.table.preset(network, size), around)
    return tuple(getattr(worst, field) for field in FIELDS)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", ELECTIONS)
def test_a_death_is_noticed_before_another_leads_and_all_times_are_bounded(name: str, network: Any) -> None:
    detection, failover, settling = figures(name, network)
    assert 0 < detection <= failover < FOREVER and 0 < settling < FOREVER


@pytest.mark.parametrize("name", ELECTIONS)
def test_no_time_gets_shorter_on_a_slower_network(name: str) -> None:
    quick, slow = figures(name, "lan"), figures(name, "lan", delay=ms(500))
    assert all(one <= other for one, other in zip(quick, slow, strict=True))
    assert slow[1] > quick[1] or name in ("local", "spanning")  # A view alone; hop_delay bounds the network.


@pytest.mark.parametrize("name", [name for name in ELECTIONS if find_election(name).needs.disk])
def test_a_slow_disk_costs_time(name: str) -> None:
    assert figures(name, "lan", disk=seconds(1))[1] >= figures(name, "lan")[1] + seconds(1)


@pytest.mark.parametrize("name", MEMBERSHIPS)
def test_members_notice_more_slowly_where_there_are_more_or_the_network_is_slower(name: str) -> None:
    kind = find_membership(name)
    found = {
        (network, size): kind.detection(kind.table.preset(network, size), size)
        for network in NETWORKS
        for size in (3, 300)
    }
    for network in NETWORKS:
        few, many = found[network, 3], found[network, 300]
        assert 0 < few.duration <= many.duration < FOREVER and 0 < few.merging <= many.merging < FOREVER
    for size in (3, 300):
        assert found["local", size].duration <= found["lan", size].duration <= found["wan", size].duration


def test_heartbeats_meet_again_within_three_tries() -> None:
    config = HeartbeatConfig(period=seconds(2), reconnect_periods=10)
    assert HEARTBEAT.detection(config, 4).merging == seconds(60)
    longer = replace(config, fail_periods=config.fail_periods + 1)
    difference = HEARTBEAT.detection(longer, 1).duration - HEARTBEAT.detection(config, 1).duration
    assert difference == 2 * config.period  # Until the last beat is old, twice.


NEEDS = {
    "announce le-a le-s le-m": "",
    "base optimistic preferred hybrid local": "members",
    "spanning": "members",
    "pole": "voters disk",
    "by-key": "members",
    "directory": "shared",
    "engine": "members shared",
}


@pytest.mark.parametrize(("names", "needs"), NEEDS.items())
def test_an_election_says_what_it_needs(names: str, needs: str) -> None:
    for name in names.split():
        stated = find_election(name).needs
        assert [field for field in ("members", "voters", "disk", "shared") if getattr(stated, field)] == needs.split()
    assert {name for names in NEEDS for name in names.split()} == {*ELECTIONS}


@pytest.mark.parametrize(
    ("name", "delays"),
    [("pole", (1, 6, None)), ("engine", (8, 16, 16)), ("by-key", (1, 2, 2)), ("announce", (1, 2, 0))],
)
def test_a_worst_case_counts_the_messages_that_are_waited_for(name: str, delays: tuple[int | None, ...]) -> None:
    quick, slow = figures(name, "lan", delay=ms(5)), figures(name, "lan", delay=ms(5) + 1)
    for count, one, other in zip(delays, quick, slow, strict=True):
        assert count in (None, other - one)


def test_a_store_costs_four_waits_of_candidates_and_two_renewals_beside_the_guard() -> None:
    kind = find_election("engine")
    around = Around(delay=0, group_size=3, detection=find_membership("swim").detection(SwimConfig(), 3))
    config = EngineConfig(lease=seconds(3), renew_interval=seconds(1), stand_time=ms(100))
    worst = kind.worst_case(config, around)
    assert worst.failover - worst.detection == ms(400) + seconds(2)


def test_medley_notices_within_its_longest_turn_and_two_suspicions() -> None:
    config = MedleyConfig(period=seconds(1), suspicion_timeout=seconds(3), turn_max_mult=2.0, sync_interval=seconds(9))
    found = find_membership("medley").detection(config, 11)
    assert (found.duration, found.merging) == (seconds(20 + 6), seconds(27))
    assert find_membership("medley").detection(config, 0).duration == seconds(2 + 6)


def test_everybody_knows_of_a_leaders_death_once_the_news_has_spread() -> None:
    plain = Detection(seconds(9), "as any other's")
    assert plain.of_leader_by_all() == (seconds(9), "as any other's")
    watched = Detection(seconds(9), "", of_leader=seconds(2), of_leader_because="watched", spreading=seconds(1))
    duration, because = watched.of_leader_by_all()
    assert duration == seconds(3) and because.startswith("watched")


def test_announcers_settle_once_the_dead_leader_is_given_up_and_the_lesser_of_two_has_heard_the_better() -> None:
    kind = find_election("announce")
    around = Around(delay=0, group_size=3, detection=find_membership("swim").detection(SwimConfig(), 3))
    config = AnnounceConfig(announce_interval=seconds(1), listen_timeout=seconds(3), suppress_interval=ms(500))
    assert kind.worst_case(config, around).settling == seconds(3) + ms(500) + 2 * seconds(1)
    at_once = replace(config, suppress_interval=0, query_timeout=ms(20))
    assert kind.worst_case(at_once, around).settling == seconds(3) + seconds(1) + ms(20) + 2 * seconds(1)
    assert kind.worst_case(replace(config, listen_timeout=FOREVER), around).settling == ms(500) + 2 * seconds(1)
