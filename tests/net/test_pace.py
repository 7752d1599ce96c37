"""How often strangers are answered: each source, and all together, in bounded memory."""

import pytest

from doyen.net.handshake import ANSWERS_PER_S, ASK_EVERY_S, Pace


def allowed(pace: Pace, now: float, sources: int = 5000) -> int:
    """Return how many of so many new sources get an answer at that instant."""
    return sum(pace.allows((now, source), now) for source in range(sources))


def test_all_together_get_a_seconds_answers_at_once_and_then_as_many_as_time_has_passed_for() -> None:
    pace = Pace(10.0, 10_000)
    assert allowed(pace, 10.0) == ANSWERS_PER_S
    assert allowed(pace, 10.0) == 0
    assert allowed(pace, 10.1) == pytest.approx(ANSWERS_PER_S / 10, abs=1)
    assert allowed(pace, 10_000.0) == ANSWERS_PER_S, "what nobody used is not saved up"


def test_one_source_is_answered_now_and_then() -> None:
    pace = Pace(0.0, 10)
    times = [i * ASK_EVERY_S * 0.26 for i in range(40)]
    assert [now for now in times if pace.allows("one", now)] == times[::4]


def test_of_more_sources_than_are_remembered_the_one_longest_ago_is_forgotten() -> None:
    pace = Pace(0.0, 2)
    assert pace.allows("a", 0.0) and pace.allows("b", 0.1)
    assert pace.allows("a", 0.25), "a is the latest now"
    assert pace.allows("c", 0.26), "and b is forgotten"
    assert not pace.allows("a", 0.27) and pace.allows("b", 0.27)
