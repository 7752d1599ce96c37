"""What is promised is said of the very combination that runs."""

from random import Random
from typing import Any

import pytest

from doyen.core.commands import Resign
from doyen.core.ids import Incarnation, NodeId
from doyen.core.kinds import Place, Promise
from doyen.core.rank import STANDING_MAX
from doyen.core.reasons import Remark
from doyen.errors import ConfigError
from doyen.membership.neighbours import Neighbours
from doyen.membership.ring.config import ArbitrationConfig
from doyen.node.registry import ELECTIONS, MEMBERSHIPS, election_names, find_election, find_membership
from doyen.testing import RecordingOut


def promise_of(name: str) -> Promise:
    kind = find_election(name)
    return kind.promise(kind.table.config(), "hash")


@pytest.mark.parametrize("name", election_names())
def test_only_a_quorum_stops_its_leader_by_the_clock_alone(name: str) -> None:
    assert promise_of(name).strong == (name in ("pole", "directory", "engine"))
    sorts = {"pole": "quorum", "directory": "quorum", "engine": "quorum", "by-key": "timed"}
    assert promise_of(name).sort == sorts.get(name, "weak")


def test_a_ring_that_splits_promises_no_more_than_a_weak_election() -> None:
    by_key = find_election("by-key")
    assert by_key.promise(ArbitrationConfig(partition="majority", expected_size=5), "hash").sort == "timed"
    split = by_key.promise(ArbitrationConfig(partition="split"), "hash")
    assert split.sort == "weak" and "two may lead across a partition" in split.in_short


def place(config: Any, **more: Any) -> Place:
    given = {
        "node": NodeId("me"),
        "incarnation": Incarnation(1),
        "address": None,
        "seeds": (),
        "group": "g",
        "name": "",
    }
    given |= {"channel": "election", "standing": 0.5, "eligible": True, "voters": frozenset({NodeId("me")})}
    given |= {"newcomer": True, "durable": False, "links_each_side": 1, "hops": {}, "payload_max": 1000}
    given |= {"rng": lambda channel: Random(1), "restore": lambda kind: None, "companion": lambda channel, build: None}
    return Place(**({"config": config, "rank": None, "scorer": lambda: None} | given | more))


@pytest.mark.parametrize("find", [find_election, find_membership])
def test_every_kind_builds_a_machine_of_this_node(find: Any) -> None:
    for name in ELECTIONS if find is find_election else MEMBERSHIPS:
        kind = find(name)
        machine = kind.build(place(kind.table.preset("lan", 3)))(RecordingOut())
        named = [getattr(machine, field, None) for field in ("me", "node", "seat")]
        assert NodeId("me") in (*named[:2], getattr(named[2], "node", None)), name


@pytest.mark.parametrize("name", ELECTIONS)
def test_a_kind_says_that_it_resigns_where_its_machine_hears_that(name: str) -> None:
    kind = find_election(name)
    machine = kind.build(place(kind.table.preset("lan", 3)))(RecordingOut())
    assert kind.resigns == (Resign in machine.HEARS)


def test_a_spanning_election_counts_on_and_finds_its_neighbours_and_who_may_not_lead_comes_last() -> None:
    spanning, made = find_election("spanning"), []
    config = spanning.table.preset("lan", 3)

    def companion(channel: str, build: Any) -> None:
        made.append((channel, build(RecordingOut())))

    fresh = spanning.build(place(config, companion=companion))(RecordingOut())
    assert [channel for channel, _ in made] == ["links"] and isinstance(made[0][1], Neighbours)
    assert fresh.quality.value == 0.5
    assert spanning.build(place(config, eligible=False))(RecordingOut()).quality.value == -STANDING_MAX
    out = RecordingOut()
    again = spanning.build(place(config, durable=True, restore=lambda kind: 41))(out)
    again.start(0)
    again.initiate(1)
    assert again.election.sequence > 41


def test_a_store_says_what_it_keeps() -> None:
    engine = find_election("engine")
    assert engine.store is not None and "keeps" in engine.store("shared")
    with pytest.raises(ConfigError, match="must be the address of a store"):
        engine.store("")
    assert not find_election("by-key").heeds_eligible and find_election("pole").heeds_eligible
    assert not Remark("shortage", "too few").needs_a_person
