"""Chance: cheap at first, fast later, and never stuck in between."""

from collections import Counter
from collections.abc import Callable
from random import Random
from statistics import fmean
from typing import Any

import pytest

from doyen.sim.streams import CHEAP_DRAWS, Stream, Streams

#: A use of a stream, and whether what it gives is of the kind that it should be.
USES: tuple[tuple[Callable[[Random], Any], Callable[[Any], bool]], ...] = (
    (lambda r: r.randrange(5), lambda got: got in range(5)),
    (lambda r: shuffled(r, 7), lambda got: sorted(got) == list(range(7))),
    (lambda r: r.sample(range(100), 10), lambda got: len(set(got)) == 10 and set(got) <= set(range(100))),
    (lambda r: r.normalvariate(0, 1), lambda got: -6 < got < 6),
    (lambda r: r.gauss(0, 1), lambda got: -6 < got < 6),
    (lambda r: r.randbytes(10), lambda got: isinstance(got, bytes) and len(got) == 10),
    (lambda r: r.choice("abc"), lambda got: got in "abc"),
)


def shuffled(stream: Random, count: int) -> list[int]:
    found = list(range(count))
    stream.shuffle(found)
    return found


@pytest.mark.parametrize("drawn", [0, 1, CHEAP_DRAWS - 1, CHEAP_DRAWS, CHEAP_DRAWS + 1])
def test_every_method_of_random_works_from_the_first_draw(drawn: int) -> None:
    for use, fits in USES:
        results = []
        for key in range(50):
            one, same = Stream(key * 7919), Stream(key * 7919)
            for stream in (one, same):
                for _ in range(drawn):
                    stream.random()
            got = [use(one) for _ in range(3)]
            assert all(map(fits, got)), (key, got)
            assert got == [use(same) for _ in range(3)]  # The same key, the same draws.
            results.append(repr(got))
        assert len(set(results)) > 20  # And another key, others.


def test_draws_are_uniform_before_and_after_the_upgrade() -> None:
    """Every single draw of a stream, over many streams: its mean, its spread, and nothing that comes twice."""
    streams = [Stream(key * 7919) for key in range(4000)]
    seen: set[float] = set()
    for number in range(CHEAP_DRAWS + 6):
        draws = [stream.random() for stream in streams]
        assert abs(fmean(draws) - 1 / 2) < 4.5 * (1 / 12 / 4000) ** 0.5, number
        assert abs(fmean((x - 0.5) ** 2 for x in draws) - 1 / 12) < 4.5 * (1 / 180 / 4000) ** 0.5, number
        tenths = Counter(int(10 * x) for x in draws)
        assert max(abs(tenths[i] - 400) for i in range(10)) < 4.5 * (400 * 0.9) ** 0.5, number
        seen.update(draws)
    assert len(seen) == len(streams) * (CHEAP_DRAWS + 6)
    stream = Streams(1).of("x")
    later = [stream.random() for _ in range(4000)]
    assert abs(fmean(later) - 0.5) < 4.5 * (1 / 12 / 4000) ** 0.5
    assert len(set(later)) == 4000


@pytest.mark.parametrize("use", range(len(USES)))
def test_the_very_first_draw_of_every_method_depends_on_the_key(use: int) -> None:
    assert len({repr(USES[use][0](Stream(key * 7919))) for key in range(50)}) > 2


def test_a_stream_in_demand_is_a_mersenne_twister_at_its_full_speed() -> None:
    stream = Stream(7919)
    for _ in range(CHEAP_DRAWS + 1):
        stream.random()
    twister = Random()
    twister.setstate(stream.getstate())
    assert [stream.random() for _ in range(100)] == [twister.random() for _ in range(100)]
    assert "random" in vars(stream) and "getrandbits" in vars(stream)  # Those of C, with nothing in between.


def test_streams_of_other_purposes_nodes_and_seeds_are_others() -> None:
    firsts = {Streams(seed).of(purpose, node).random() for seed in range(5) for purpose in "ab" for node in range(50)}
    assert len(firsts) == 500


def test_a_stream_is_a_random() -> None:
    assert isinstance(Streams(1).of("x"), Random)
