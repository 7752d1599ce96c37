"""POLE's hand-over to a better voter: when, to whom, and after which question."""

import pytest
from msgspec.structs import replace

from doyen.core import NodeId, Send, ms, seconds
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.messages import ScoreQuery
from doyen.election.pole.resignation import ASKED_LEASES, Rivals
from doyen.testing import RecordingOut

B, C = NodeId("b"), NodeId("c")
CONFIG = PoleConfig(
    election_timeout=ms(100),
    lease=seconds(1),
    resign_interval=seconds(5),
    resign_rounds=1,
    cool_down=seconds(30),
    connected=True,
)


def asked(config: PoleConfig = CONFIG) -> tuple[Rivals, RecordingOut]:
    """Return a reign's rivals that have been asked at 0: B is clearly better than 1, C is not."""
    out = RecordingOut()
    rivals = Rivals(config, out)
    number = rivals.ask(0)
    rivals.reply(B, number, (9.0,))
    rivals.reply(C, number, (0.5,))
    return rivals, out


def test_an_heir_is_asked_whether_it_reaches_a_majority_before_the_leader_lets_go() -> None:
    rivals, out = asked()
    assert rivals.compare((1.0,), seconds(30), seconds(5)) is None
    assert out.take() == [Send(B, ScoreQuery(2, True))]
    assert not rivals.reply(B, 1, (9.0,), connected=True)  # An answer to an earlier question.
    assert not rivals.reply(B, 2, (9.0,))  # It answers, and reaches no majority.
    assert not rivals.reply(C, 2, (0.5,), connected=True)  # C was not asked.
    assert rivals.reply(B, 2, (9.0,), connected=True)


def test_as_printed_the_better_one_takes_over_unasked() -> None:
    rivals, out = asked(replace(CONFIG, connected=False))
    assert rivals.compare((1.0,), seconds(30), seconds(5)) == B
    assert out.take() == []


@pytest.mark.parametrize("connected", [True, False])
def test_a_leader_does_not_hand_over_within_the_cool_down_or_to_a_lesser_one(connected: bool) -> None:
    for mine, led_for in (((1.0,), seconds(30) - 1), ((10.0,), seconds(60))):
        rivals, out = asked(replace(CONFIG, connected=connected))
        assert rivals.compare(mine, led_for, seconds(5)) is None
        assert out.take() == []
        assert rivals.number == 2 and rivals.is_asking  # The next heartbeat asks anew.
        assert not rivals.reply(B, 2, (9.0,), connected=True)


def test_comparisons_are_due_an_interval_after_the_last_one() -> None:
    rivals, _ = asked()
    assert not rivals.is_due(seconds(5) - 1) and rivals.is_due(seconds(5))
    rivals.compare((10.0,), 0, seconds(7))
    assert not rivals.is_due(seconds(12) - 1) and rivals.is_due(seconds(12))


def test_a_leader_that_compares_rarely_asks_for_scores_all_the_same() -> None:
    rivals, _ = asked()
    rivals.refresh(ASKED_LEASES * seconds(1) - 1)
    assert rivals.number == 1 and rivals.best == B
    rivals.refresh(ASKED_LEASES * seconds(1))
    assert rivals.number == 2 and rivals.best == B  # Until there are new answers.
    rivals.refresh(2 * ASKED_LEASES * seconds(1))
    assert rivals.number == 3 and rivals.best is None


def test_who_does_not_answer_is_forgotten_at_the_next_question() -> None:
    rivals = Rivals(CONFIG, RecordingOut())
    rivals.told(B, (5.0,))
    rivals.told(C, (4.0,))
    assert rivals.best == B
    rivals.ask(seconds(1), {B})
    assert rivals.best == C
    printed, _ = asked(replace(CONFIG, connected=False))
    printed.refresh(seconds(100))
    assert printed.number == 1
