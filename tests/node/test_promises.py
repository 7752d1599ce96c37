"""What is promised is said of the very combination that runs."""

import pytest

from doyen.core.kinds import Promise
from doyen.membership.ring.config import ArbitrationConfig
from doyen.node.registry import election_names, find_election


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
