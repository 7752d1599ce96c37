"""Points, keys and neighbours."""

from random import Random

import pytest
from msgspec.structs import replace

from doyen.core.ids import NodeId
from doyen.membership.ring.geometry import (
    POINTS,
    Roster,
    Seat,
    around,
    distance,
    group,
    hop_bound,
    joined_neighbours,
    neighbours,
    next_hop,
    owner,
    seat,
)
from doyen.membership.ring.view import RosterView


def at(*points: int) -> list[Seat]:
    return [Seat(point, NodeId(f"n{point}")) for point in points]


def points(seats: object) -> set[int]:
    return {s.point for s in seats}  # type: ignore[attr-defined]


def test_arb_figure_5_the_neighbours_of_a_joiner() -> None:
    (joiner,) = at(16)
    (key_owner,) = at(17)
    assert points(joined_neighbours(joiner, key_owner, at(11, 13, 19, 23), 2)) == {11, 13, 17, 19}


def test_arb_figure_3_groups_have_their_union() -> None:
    """The figure misprints N_Q: it is {N,O,P,R,S,T}, and the group M to T."""
    ring = at(*range(10, 20))  # K … T
    p, q = ring[5], ring[6]
    n_p, n_q = neighbours(p, ring, 3), neighbours(q, ring, 3)
    assert points(n_q) == {13, 14, 15, 17, 18, 19}
    assert points(group(p, n_p, q, n_q)) == set(range(12, 20))


@pytest.mark.parametrize(("apart", "size"), [(1, 8), (2, 9), (3, 10)])
def test_a_group_has_2k_plus_2_to_3k_plus_1_members(apart: int, size: int) -> None:
    ring = at(*range(0, 400, 10))
    p, q = ring[20], ring[20 + apart]
    assert len(group(p, neighbours(p, ring, 3), q, neighbours(q, ring, 3))) == size


def test_a_key_is_owned_by_the_closest_and_ties_go_to_the_predecessor() -> None:
    ring = at(10, 20, 40)
    assert owner(14, ring) == ring[0]
    assert owner(15, ring) == ring[0]
    assert owner(16, ring) == ring[1]
    assert owner(POINTS - 5, ring) == ring[0]  # Round the end: 15 to point 10.


def test_two_at_one_point_have_an_order() -> None:
    a, b, c = Seat(5, NodeId("a")), Seat(5, NodeId("b")), Seat(9, NodeId("c"))
    assert around(a, [b, c]) == [b, c]
    assert around(b, [a, c]) == [c, a]


def test_routing_by_neighbours_keeps_to_its_hop_bound() -> None:
    rng = Random(1)
    for size in (1, 2, 7, 30, 101):
        ring = sorted(seat(NodeId(f"n{i}")) for i in range(size))
        hoods = {s: neighbours(s, ring, 3) for s in ring}
        for _ in range(30):
            key, here, hops = rng.randrange(POINTS), rng.choice(ring), 0
            while (onward := next_hop(key, here, hoods[here])) is not None:
                assert distance(onward.point, key) <= distance(here.point, key)
                here, hops = onward, hops + 1
            assert here == owner(key, ring)
            assert hops <= hop_bound(size, 3) + 1  # Where seats are uneven, the last hop may cross the key.


def test_a_roster_walks_over_its_base_and_what_changed() -> None:
    base = tuple(at(*range(0, 100, 10)))
    roster = Roster(base)
    me = base[5]
    assert points(roster.near(me, 2)) == {30, 40, 60, 70}
    assert roster.remove(base[6], left=False) and not roster.remove(base[6], left=True)
    assert roster.add(Seat(55, NodeId("new")))
    assert not roster.add(base[6])  # Who is gone stays gone.
    assert points(roster.near(me, 2)) == {30, 40, 55, 70}
    assert points(roster.near(me, 2, without={base[4].name})) == {20, 30, 55, 70}
    assert len(roster) == 10 and Seat(55, NodeId("new")) in roster


def test_near_is_what_sorting_gives() -> None:
    rng = Random(2)
    for _ in range(50):
        base = tuple(sorted(seat(NodeId(f"n{rng.random()}")) for _ in range(rng.randint(1, 20))))
        roster = Roster(base)
        for gone in rng.sample(base, rng.randint(0, len(base) - 1)):
            roster.remove(gone, left=False)
        for i in range(rng.randint(0, 3)):
            roster.add(seat(NodeId(f"j{i}")))
        me = rng.choice(base)
        assert roster.near(me, 3) == neighbours(me, roster, 3)


def test_an_earlier_incarnation_is_not_shown_and_what_else_changed_is() -> None:
    (one,), (two,) = at(10), at(20)
    later = replace(one, incarnation=2)
    view = RosterView(Roster([later, two]), ())
    view.update([later])
    told = view.update([one, two])
    assert told is not None and told.changed == (two.node,)
    assert told.view[one.node].incarnation == 2
