"""The proving ground holds what recordings tell against what witnesses wrote."""

import pytest

from doyen.postmortem.verdict import Act, judge
from doyen_lab.proving.postmortem import disagreement


@pytest.mark.parametrize(
    ("together_s", "agrees"), [(2.0, True), (1.93, True), (2.07, True), (1.85, False), (2.2, False), (0.0, False)]
)
def test_they_agree_within_the_time_of_acts_and_the_machines_lateness(together_s: float, agrees: bool) -> None:
    seen = judge([Act("a", 1, 0, 5, 5), Act("b", 2, 3, 9, 9)], lambda one, other: 0.0)
    assert seen.together_s == 2
    assert (disagreement(seen, together_s, 0.045) == ()) == agrees


def test_two_that_the_recordings_do_not_know_of_are_a_disagreement() -> None:
    seen = judge([Act("a", 1, 0, 5, 5), Act("b", 2, 6, 9, 9)], lambda one, other: 0.0, sort="quorum")
    assert disagreement(seen, 0.0, 0.025) == ()
    assert "the witnesses 0.400 s" in disagreement(seen, 0.4, 0.025)[0]
