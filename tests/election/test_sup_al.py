"""The three forms of suppression before announce-listen, one step at a time.  [LE §5.7]"""

from random import Random
from typing import Any

import pytest

from doyen.core import Emit, Multicast, NodeId, SetTimer, Term, ms, seconds
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.messages import Announcement, WakeUp
from doyen.election.announce.sup_al import Form, IntervalBegins, SuppressThenAnnounce
from doyen.testing import RecordingOut

ME, OTHER = NodeId("me"), NodeId("other")
T_A, T_S, HEARD = seconds(1), ms(500), Announcement(1, 0)


class FixedChance(Random):
    def random(self) -> float:
        return 0.5


def started(form: Form) -> tuple[SuppressThenAnnounce, RecordingOut, list[Any]]:
    out = RecordingOut()
    machine = SuppressThenAnnounce(
        ME, AnnounceConfig(announce_interval=T_A, suppress_interval=T_S), out, FixedChance(), form=form
    )
    machine.start(10)
    return machine, out, out.take()


def test_by_receipt_the_first_to_wake_leads_until_it_hears_another() -> None:
    machine, out, begun = started("receipt")
    assert begun == [SetTimer(WakeUp(1), 10 + T_S // 2)] and machine.named is None and not machine.announcing
    machine.on_timer(WakeUp(1), 300)
    assert out.take() == [Emit(LeaderElected(Term(1, ME))), Multicast(HEARD), SetTimer(WakeUp(1), 300 + T_A)]
    assert machine.named == ME and machine.announcing
    machine.on_timer(WakeUp(1), 300 + T_A)  # It is elected once, and announces again and again.
    assert out.take() == [Multicast(HEARD), SetTimer(WakeUp(1), 300 + 2 * T_A)]
    machine.on_message(OTHER, HEARD, 400 + T_A)
    assert out.take() == [Emit(LeaderLost(Term(1, ME), "outranked")), Emit(LeaderElected(Term(1, OTHER)))]
    machine.on_timer(WakeUp(1), 300 + 2 * T_A)
    assert out.take() == [] and machine.named == OTHER and not machine.announcing


def test_by_receipt_who_hears_before_it_wakes_is_silent() -> None:
    machine, out, _ = started("receipt")
    machine.on_message(OTHER, HEARD, 20)
    machine.on_message(OTHER, HEARD, 30)
    machine.on_timer(WakeUp(1), 300)
    assert out.take() == [Emit(LeaderElected(Term(1, OTHER)))]


@pytest.mark.parametrize("heard", [False, True])
def test_with_a_new_draw_each_interval_who_has_heard_is_silent_in_this_one_only(heard: bool) -> None:
    machine, out, begun = started("redraw")
    assert begun == [SetTimer(WakeUp(1), 10 + T_S // 2), SetTimer(IntervalBegins(), 10 + T_A)]
    if heard:
        machine.on_message(OTHER, HEARD, 20)
    machine.on_timer(WakeUp(1), 300)
    assert out.take() == ([] if heard else [Multicast(HEARD)])
    machine.on_timer(IntervalBegins(), 10 + T_A)
    assert out.take() == [SetTimer(WakeUp(2), 10 + T_A + T_S // 2), SetTimer(IntervalBegins(), 10 + 2 * T_A)]
    machine.on_timer(WakeUp(2), 400 + T_A)
    assert out.take() == [Multicast(HEARD)] and machine.named is None and machine.announcing


def test_where_the_draw_only_spreads_everybody_announces_whatever_it_hears() -> None:
    machine, out, begun = started("spread")
    assert begun == [SetTimer(WakeUp(1), 10 + T_S // 2)]
    machine.on_message(OTHER, HEARD, 20)
    machine.on_timer(WakeUp(1), 300)
    assert out.take() == [Multicast(HEARD), SetTimer(WakeUp(1), 300 + T_A)] and machine.named is None
