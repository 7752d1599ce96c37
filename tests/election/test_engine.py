"""Elections by a store: when a candidate claims after the leader has said that it stopped."""

from typing import Any

import msgspec
import pytest

from doyen.core.clock import ms, seconds
from doyen.core.effects import Emit, SetTimer
from doyen.core.ids import Incarnation, NodeId
from doyen.core.outside import Answered
from doyen.core.rank import ScoreGiven
from doyen.core.view import Member, ViewChanged, ViewEditor
from doyen.election.engine.config import EngineConfig
from doyen.election.engine.machine import Engine
from doyen.election.engine.messages import ClaimIsDue, Found, Record, Stands, ToStore, Vacated
from doyen.testing import RecordingOut

A, B, C = (NodeId(name) for name in "abc")
CONFIG = EngineConfig(lease=seconds(1), renew_interval=ms(200), stand_time=ms(100))
HELD = Record(epoch=4, node=C, incarnation=Incarnation(9), serial=3, phase="acting", lease=seconds(1), free=True)


class Candidate:
    """The member b of a, b and c; c leads."""

    def __init__(self) -> None:
        self.out = RecordingOut()
        self.machine = Engine(B, Incarnation(7), CONFIG, self.out)
        self.machine.start(0)
        editor = ViewEditor()
        for node in (A, B, C):
            editor.put(Member(node=node))
        self.machine.on_view_changed(ViewChanged(editor.view, (A, B, C)), 0)
        self.answer(HELD)

    def answer(self, record: Record | None) -> None:
        number = self.asked[-1].number
        self.machine.on_answered(Answered(number, found=msgspec.msgpack.encode(Found(False, record))), ms(1))

    @property
    def asked(self) -> list[ToStore]:
        return [e.fact for e in self.out.effects if isinstance(e, Emit) and isinstance(e.fact, ToStore)]

    @property
    def claimed(self) -> bool:
        return self.asked[-1].wanted is not None

    def told(self, sender: NodeId, message: Any) -> None:
        self.machine.on_message(sender, message, ms(10))

    def score(self, value: float) -> None:
        self.machine.on_score_given(ScoreGiven(5, value), ms(10))


def test_the_best_claims_as_soon_as_all_that_are_present_stand() -> None:
    it = Candidate()
    it.told(C, Vacated(4, Incarnation(9)))
    it.score(5)
    assert not it.claimed, "a may be better"
    it.told(A, Stands(5, 4.0))
    assert it.claimed and it.asked[-1].expected == HELD


def test_a_score_that_comes_last_is_waited_for() -> None:
    it = Candidate()
    it.told(C, Vacated(4, Incarnation(9)))
    it.told(A, Stands(5, -1.0))
    assert not it.claimed
    it.score(5)
    assert it.claimed


@pytest.mark.parametrize(
    ("vacated", "stands"),
    [
        (Vacated(4, Incarnation(9)), Stands(5, 6.0)),  # A better one stands.
        (Vacated(4, Incarnation(9)), Stands(4, 4.0)),  # An earlier epoch's.
        (Vacated(4, Incarnation(9), A), Stands(5, 4.0)),  # Another is the heir.
    ],
)
def test_otherwise_it_waits(vacated: Vacated, stands: Stands) -> None:
    it = Candidate()
    it.told(C, vacated)
    it.score(5)
    it.told(A, stands)
    assert not it.claimed
    due = [e for e in it.out.effects if isinstance(e, SetTimer) and isinstance(e.timer, ClaimIsDue)]
    assert due[0].at == ms(10) + CONFIG.stand_time * (3 if vacated.heir else 1)


def test_a_vacancy_that_nobody_announced_is_not_hurried() -> None:
    """At a start, members may not know each other yet."""
    it = Candidate()
    alone = Engine(B, Incarnation(7), CONFIG, it.out)
    alone.start(0)
    it.machine = alone
    it.answer(None)
    alone.on_score_given(ScoreGiven(1, 5), ms(10))
    assert not it.claimed


def test_a_look_that_is_under_way_is_waited_for() -> None:
    it = Candidate()
    it.told(A, Stands(5, 4.0))  # It has heard the will first.
    looks = len(it.asked)
    it.told(C, Vacated(4, Incarnation(9)))
    it.score(5)
    assert len(it.asked) == looks and not it.claimed
    it.answer(HELD)
    assert it.claimed
