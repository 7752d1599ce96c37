"""Wake-ups of announce-listen: their distributions, and what a place in the ranking does to them."""

from random import Random
from statistics import mean

import pytest

from doyen.election.announce.wakeup import RankedPlace, draw, fraction, order_statistic
from doyen.errors import ConfigError


def test_the_perfect_map_gives_the_members_the_order_statistics_of_draws_that_they_share() -> None:
    size = 8
    for seed in range(200):
        drawn = [order_statistic(RankedPlace(place, size), Random(seed)) for place in range(size)]
        assert drawn == sorted(drawn) and 0.0 <= drawn[0] and drawn[-1] < 1.0
    for place in range(size):  # The mean of the k-th least of n uniform draws is k / (n + 1).
        found = mean(order_statistic(RankedPlace(place, size), Random(seed)) for seed in range(2000))
        assert found == pytest.approx((place + 1) / (size + 1), abs=0.02)


def test_the_exponential_shape_puts_most_wake_ups_late_and_the_uniform_one_none() -> None:
    assert [fraction("uniform", 50, u) for u in (0.0, 0.25, 0.5)] == [0.0, 0.25, 0.5]
    assert fraction("exponential", 50, 0.0) == 0.0 and fraction("exponential", 50, 1.0) == pytest.approx(1.0)
    assert fraction("exponential", 50, 0.5) > 0.8  # The median.


def test_likely_the_better_wake_earlier_and_the_middle_draws_as_without_a_map() -> None:
    def drawn(place: RankedPlace | None) -> float:
        return draw("uniform", 5, "likely", place, Random(3), seed=0)

    plain = draw("uniform", 5, "none", RankedPlace(0, 5), Random(3), seed=0)
    assert drawn(RankedPlace(2, 5)) == drawn(RankedPlace()) == drawn(None) == plain  # One of one is in the middle.
    assert drawn(RankedPlace(0, 5)) == pytest.approx(plain**2) and drawn(RankedPlace(4, 5)) == pytest.approx(plain**0.5)


def test_a_place_exists() -> None:
    assert RankedPlace() == RankedPlace(0, 1)
    for position, of in ((-1, 3), (3, 3), (0, 0)):
        with pytest.raises(ConfigError, match="does not exist"):
            RankedPlace(position, of)


def test_by_the_perfect_map_all_members_draw_from_one_seed_whatever_their_own_chance() -> None:
    drawn = [draw("uniform", 3, "perfect", RankedPlace(place, 3), Random(place), seed=7) for place in range(3)]
    assert drawn == [order_statistic(RankedPlace(place, 3), Random(7)) for place in range(3)]


class Latest(Random):
    """Every draw is the greatest there is."""

    def random(self) -> float:
        return 1.0 - 2**-53


def test_nobody_wakes_after_the_interval() -> None:
    for size in (1, 2, 50):
        assert order_statistic(RankedPlace(size - 1, size), Latest()) < 1.0
