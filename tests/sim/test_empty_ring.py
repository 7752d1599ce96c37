"""A ring may lose its last members to each other's votes: the checker `rest` knows when that is legal."""

import pytest

from doyen.core.ids import NodeId
from doyen.membership.ring.geometry import Seat, seat
from doyen.membership.ring.messages import LeftRing
from doyen.sim.checkers.ring import RingWatch

A, B, C, D = (seat(NodeId(name)) for name in "abcd")


def why_empty(*groups: tuple[Seat, ...]) -> str | None:
    """Return the verdict on a ring whose members left one after the other, outvoted in these groups."""
    watch = RingWatch.__new__(RingWatch)
    watch.crashed_at = {}
    watch.departures = [(at, LeftRing(group[0], "outvoted", "", group)) for at, group in enumerate(groups)]
    return watch.why_empty()


@pytest.mark.parametrize("groups", [((A, B), (B, A)), ((A, B, C), (B, C, A), (C, A, B)), ((D, C, A), (A, B), (B, A))])
def test_two_or_three_last_members_may_outvote_each_other(groups: tuple[tuple[Seat, ...], ...]) -> None:
    assert why_empty(*groups) is None


@pytest.mark.parametrize(
    "groups",
    [
        ((A, B),),
        ((A, B, C), (B, C, A)),
        ((A, B, C), (B, C, D), (C, A, B)),
        ((A, B, C, D), (B, C, D, A), (C, D, A, B), (D, A, B, C)),
    ],
)
def test_otherwise_an_empty_ring_is_wrong(groups: tuple[tuple[Seat, ...], ...]) -> None:
    assert "the last to leave was outvoted" in str(why_empty(*groups))
