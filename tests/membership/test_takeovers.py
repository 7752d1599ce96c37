"""The worst case that `doyen presets` states for the default stack, beside simulated takeovers."""

from typing import get_args

import pytest

from doyen.core.clock import to_seconds
from doyen.core.kinds import Network
from doyen.node.layers import configure
from doyen.testing.takeovers import takeovers

COUNT = 200


def stated(preset: Network, size: int) -> float:
    given = {"group": "g", "election": "hybrid", "volatile": True, "preset": preset, "group_size": size}
    config = configure({(field,): value for field, value in given.items()}, environment={})
    kind = config.election_kind()
    assert kind is not None
    return to_seconds(config.worst_case(kind).failover)


@pytest.mark.parametrize("preset", ["lan", "wan"])
def test_a_leader_that_is_cut_off_is_replaced_within_the_stated_worst_case(preset: Network) -> None:
    found = takeovers(preset, 8, "hybrid", 6)
    assert max(found) <= stated(preset, 8) <= 2 * max(found)


def test_on_a_lan_a_leader_that_is_cut_off_is_replaced_within_three_and_a_half_seconds_in_the_median() -> None:
    found = sorted(takeovers("lan", 16, "hybrid", 9))
    assert found[4] <= 3.5


@pytest.mark.soak
@pytest.mark.parametrize("size", [5, 16])
@pytest.mark.parametrize("preset", get_args(Network))
def test_the_stated_worst_case_is_at_most_twice_the_longest_of_many_takeovers(preset: Network, size: int) -> None:
    found = takeovers(preset, size, "hybrid", COUNT)
    worst = stated(preset, size)
    print(f"\n{preset}, {size} members: longest {max(found):.2f} s, stated {worst:.2f} s")
    assert max(found) <= worst <= 2 * max(found)
