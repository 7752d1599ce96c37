"""A deadline that moves, and its one timer."""

from doyen.core import SetTimer
from doyen.core.clock import FOREVER
from doyen.core.deadline import Deadline
from doyen.testing import RecordingOut


def test_a_deadline_that_moves_on_is_waited_for_again_by_one_timer() -> None:
    deadline, out = Deadline(), RecordingOut()
    for at in (10, 20, 30):
        deadline.move(at, "timer", out)
    assert out.take() == [SetTimer("timer", at=10)]
    assert not deadline.is_over("timer", 10, out)
    assert out.take() == [SetTimer("timer", at=30)]
    assert deadline.is_over("timer", 30, out)
    assert out.take() == []


def test_an_earlier_deadline_sets_another_timer_and_numbers_tell_them_apart() -> None:
    deadline, out = Deadline(), RecordingOut()
    deadline.move(20, "first", out)
    deadline.move(10, "second", out)
    assert out.take() == [SetTimer("first", at=20), SetTimer("second", at=10)]
    assert deadline.number == 2


def test_forever_is_never_scheduled() -> None:
    deadline, out = Deadline(), RecordingOut()
    deadline.move(FOREVER, "timer", out)
    deadline.move(7 + FOREVER, "timer", out)
    assert out.take() == [] and deadline.number == 0


def test_a_timer_that_is_overdue_does_not_count_where_the_time_is_given() -> None:
    deadline, out = Deadline(), RecordingOut()
    deadline.move(10, "timer", out)
    deadline.move(20, "timer", out)
    deadline.move(20, "timer", out, now=9)
    assert out.take() == [SetTimer("timer", at=10)]
    deadline.move(20, "timer", out, now=10)
    assert out.take() == [SetTimer("timer", at=20)]


def test_a_clock_before_its_zero_needs_no_more_timers_than_any_other() -> None:
    deadline, out = Deadline(), RecordingOut()
    for at in (-30, -20, -10):
        deadline.move(at, "timer", out)
    assert out.take() == [SetTimer("timer", at=-30)]
