"""Majorities of one set of voters, and of two while voters are being replaced."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from doyen.core.ids import NodeId
from doyen.election.pole.electorate import Electorate

NAMES = [NodeId(name) for name in "abcdefg"]
some = st.frozensets(st.sampled_from(NAMES), min_size=1)


@given(some, some)
def test_two_majorities_meet_before_during_and_after_a_change(old: frozenset[NodeId], new: frozenset[NodeId]) -> None:
    steps = [Electorate(1, old), Electorate(2, new, old), Electorate(3, new)]
    subsets = [set(chosen) for size in range(len(NAMES) + 1) for chosen in combinations(NAMES, size)]
    for one, other in ((0, 0), (0, 1), (1, 1), (1, 2), (2, 2)):
        majorities = [s for s in subsets if steps[other].is_majority(s)]
        for subset in subsets:
            if steps[one].is_majority(subset):
                assert all(subset & majority for majority in majorities)


@given(some, st.one_of(st.just(frozenset[NodeId]()), some), st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9)))
def test_the_instant_reached_is_the_latest_one_that_a_majority_has(
    voters: frozenset[NodeId], earlier: frozenset[NodeId], instants: dict[NodeId, int]
) -> None:
    electorate = Electorate(1, voters, earlier)
    held = [at for at in range(10) if electorate.is_majority([n for n, i in instants.items() if i >= at])]
    assert electorate.reached(instants) == max(held, default=None)
