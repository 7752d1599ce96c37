"""For how long two acted at once, and how sure that is."""

import re

import pytest

from doyen.postmortem.verdict import Act, judge


def act(who: str, begin: float, end: float, latest: float | None = None) -> Act:
    return Act(who, 1, begin, end, end if latest is None else latest)


def test_acts_that_overlap_are_added_once() -> None:
    acts = [act("a", 0, 10), act("b", 4, 6), act("c", 5, 7), act("a", 20, 30), act("b", 30, 40)]
    found = judge(acts, lambda one, other: 0.0)
    assert found.together_s == found.at_least_s == found.at_most_s == 3
    assert "3.00 s" in found.sentence and "allows" in found.sentence and not found.breaks


def test_one_that_leads_again_is_alone() -> None:
    assert judge([act("a", 0, 5), act("a", 4, 9)], lambda one, other: 0.0).together_s == 0


def test_the_error_of_clocks_is_part_of_the_verdict() -> None:
    found = judge([act("a", 0, 5), act("b", 5.1, 9)], lambda one, other: 0.3, sort="quorum")
    assert found.together_s == 0 and found.at_least_s == 0 and found.at_most_s == pytest.approx(0.2)
    found = judge([act("a", 0, 5.2), act("b", 5, 9)], lambda one, other: 0.3, sort="quorum")
    assert found.together_s == pytest.approx(0.2) and found.at_least_s == 0 and not found.breaks
    assert "do not tell" in found.sentence
    found = judge([act("a", 0, 7), act("b", 5, 9)], lambda one, other: 0.3, sort="quorum")
    assert found.at_least_s == pytest.approx(1.7) and found.breaks and "never" in found.sentence
    found = judge([act("a", 0, 7), act("b", 5, 9)], lambda one, other: float("inf"), sort="quorum")
    assert "by wall clocks" in found.sentence and not found.breaks


def test_a_process_that_was_killed_unseen_may_have_acted_a_little_longer() -> None:
    found = judge([act("a", 0, 5, latest=5.5), act("b", 5.2, 9)], lambda one, other: 0.0)
    assert (found.together_s, found.at_least_s) == (0, 0) and found.at_most_s == pytest.approx(0.3)


@pytest.mark.parametrize(("begin", "end", "error"), [(1, 1.0085, 0.0005), (1, 1.0095, 0.001), (1, 1.004, 0.003)])
def test_what_is_said_lies_within_its_own_bounds(begin: float, end: float, error: float) -> None:
    said = judge([act("a", 0, end), act("b", begin, 9)], lambda one, other: error).sentence
    for_, least, most = (float(word) for word in re.findall(r"[0-9]+\.[0-9]+", said))
    assert least <= for_ <= most and least < most


def test_a_verdict_says_only_what_is_known() -> None:
    """Two that act at once may be apart, or one of them may have stood still: recordings do not tell."""
    assert judge([act("a", 0, 7), act("b", 5, 9)], lambda one, other: 0.0).sentence.endswith(
        "; this election allows it"
    )


def test_two_verdicts_are_added() -> None:
    first = judge([act("a", 0, 5), act("b", 4, 9)], lambda one, other: 0.5, sort="quorum", lacks=["one is missing"])
    second = judge([act("a", 20, 25)], lambda one, other: 0.0, sort="quorum")
    both = first.and_(second)
    assert (both.together_s, both.at_least_s, both.at_most_s) == (1, 0.5, 1.5) and both.when == first.when
    assert both.breaks and both.sentence == first.sentence and both.lacks == first.lacks
