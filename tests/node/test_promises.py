"""What is promised is said of the very combination that runs."""

from typing import get_args

import pytest

from doyen.node.config import ElectionKind
from doyen.node.promises import PROMISES, promise_of


def test_every_election_has_a_promise() -> None:
    assert set(PROMISES) == {kind for kind in get_args(ElectionKind) if kind != "none"}


@pytest.mark.parametrize("kind", PROMISES)
def test_only_a_quorum_stops_its_leader_by_the_clock_alone(kind: str) -> None:
    assert promise_of(kind).strong == (kind == "pole")
    assert promise_of(kind).sort == {"pole": "quorum", "by-key": "timed"}.get(kind, "weak")


def test_a_ring_that_splits_promises_no_more_than_a_weak_election() -> None:
    assert promise_of("by-key", partition="majority").sort == "timed"
    split = promise_of("by-key", partition="split")
    assert split.sort == "weak" and "across a partition two may lead" in split.in_short
    assert promise_of("pole", partition="split").sort == "quorum"
