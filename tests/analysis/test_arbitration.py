"""Closed forms of [ARB]."""

import pytest

from doyen.core.ids import NodeId
from doyen.membership.ring.geometry import group, neighbours, seat
from doyen_papers.analysis import arbitration as form


def test_consistency_under_drift() -> None:
    """[2T_l + (2T_l+T_a)(1+r)/(1−r)]/(1−r), and T_a + 4T_l without."""
    assert form.consistency_bound(1, 0.5) == 4.5
    assert form.consistency_bound(1, 0.5, 0.01) == pytest.approx((2 + 2.5 * 1.01 / 0.99) / 0.99)


def test_detection_with_a_delay() -> None:
    assert form.detection_range(1, 0.1) == (0.9, 1.9)


@pytest.mark.parametrize("each_side", [1, 2, 3, 5])
def test_how_many_groups_a_node_is_in_by_counting_them(each_side: int) -> None:
    ring = sorted(seat(NodeId(f"n{i}")) for i in range(8 * each_side + 1))
    hoods = {s: neighbours(s, ring, each_side) for s in ring}
    groups = [group(p, hoods[p], q, hoods[q]) for p in ring for q in hoods[p] if p < q]
    for node in ring[:3]:
        assert sum(node in members for members in groups) == form.arbitrator_sets(each_side)
    assert form.arbitrator_sets(each_side) <= form.arbitrator_sets_bound(each_side)
    assert sum(map(len, groups)) * 2 / len(ring) == form.requests_per_failure(each_side)


def test_overhead_in_small_rings() -> None:
    assert form.overhead(1, 3, 5) == 8
    assert form.overhead(0.5, 3) == 24
