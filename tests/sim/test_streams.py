"""Chance: cheap at first, fast later, and never stuck in between."""

from random import Random

import pytest

from doyen.sim.streams import Stream, Streams


@pytest.mark.parametrize("key", range(50))
def test_every_method_of_random_works_from_the_first_draw(key: int) -> None:
    for use in (
        lambda r: r.randrange(5),
        lambda r: r.shuffle(list(range(7))),
        lambda r: r.sample(range(100), 10),
        lambda r: r.normalvariate(0, 1),
        lambda r: r.gauss(0, 1),
        lambda r: r.randbytes(10),
        lambda r: r.choice("abc"),
    ):
        use(Stream(key))


def test_draws_are_uniform_before_and_after_the_upgrade() -> None:
    draws = [Stream(key * 7919).random() for key in range(4000)]
    assert abs(sum(draws) / 4000 - 0.5) < 4 * (1 / 12 / 4000) ** 0.5
    stream = Streams(1).of("x")
    later = [stream.random() for _ in range(4000)]
    assert abs(sum(later) / 4000 - 0.5) < 4 * (1 / 12 / 4000) ** 0.5
    assert len(set(later)) == 4000


def test_streams_of_other_purposes_nodes_and_seeds_are_others() -> None:
    firsts = {Streams(seed).of(purpose, node).random() for seed in range(5) for purpose in "ab" for node in range(50)}
    assert len(firsts) == 500


def test_a_stream_is_a_random() -> None:
    assert isinstance(Streams(1).of("x"), Random)
