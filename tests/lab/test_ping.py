"""The ping/ack detector, step by step."""

from random import Random

import pytest

from doyen.core import ConfigError, Emit, NodeId, Send, SetTimer, ms
from doyen.testing import RecordingOut
from doyen_lab.simulators.ping import Ack, AckOverdue, MemberSilent, PeriodBegins, Ping, PingConfig, Pinger

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
CONFIG = PingConfig(period=ms(1000), ack_timeout=ms(300))


def pinger(members: list[NodeId], me: int = 0) -> tuple[Pinger, RecordingOut]:
    out = RecordingOut()
    return Pinger(members, me, CONFIG, out, Random(7)), out


def test_the_first_period_begins_within_one_so_that_a_group_does_not_ping_in_step() -> None:
    machine, out = pinger([A, B])
    machine.start(now=ms(5000))
    (first,) = out.effects
    assert isinstance(first, SetTimer) and first.timer == PeriodBegins()
    assert ms(5000) <= first.at < ms(6000)


def test_who_is_alone_pings_nobody() -> None:
    machine, out = pinger([A])
    machine.start(now=0)
    assert out.effects == []


def test_swim_3_1_each_period_pings_one_member() -> None:
    machine, out = pinger([A, B])
    machine.on_timer(PeriodBegins(), now=ms(10_000))
    assert out.take() == [
        Send(B, Ping(1)),
        SetTimer(AckOverdue(1), at=ms(10_300)),
        SetTimer(PeriodBegins(), at=ms(11_000)),
    ]


def test_everybody_else_is_pinged_alike_and_never_oneself() -> None:
    machine, out = pinger([A, B, C], me=1)
    for period in range(3000):
        machine.on_timer(PeriodBegins(), now=period * ms(1000))
    pinged = [effect.to for effect in out.effects if isinstance(effect, Send)]
    assert set(pinged) == {A, C} and 1400 < pinged.count(A) < 1600


def test_a_ping_is_answered_with_its_number() -> None:
    machine, out = pinger([A, B])
    machine.on_message(B, Ping(41), now=0)
    assert out.take() == [Send(B, Ack(41))]


def test_a_member_that_answers_in_time_is_not_silent() -> None:
    machine, out = pinger([A, B])
    machine.on_timer(PeriodBegins(), now=0)
    machine.on_message(B, Ack(1), now=ms(200))
    out.take()
    machine.on_timer(AckOverdue(1), now=ms(300))
    assert out.effects == []


def test_a_member_that_does_not_is_told_of_once() -> None:
    machine, out = pinger([A, B])
    machine.on_timer(PeriodBegins(), now=0)
    out.take()
    machine.on_timer(AckOverdue(1), now=ms(300))
    machine.on_timer(AckOverdue(1), now=ms(300))
    assert out.take() == [Emit(MemberSilent(B))]


def test_a_late_ack_says_nothing_about_this_probe_nor_does_one_of_another_member() -> None:
    machine, out = pinger([A, B])
    machine.on_timer(PeriodBegins(), now=0)
    machine.on_timer(PeriodBegins(), now=ms(1000))
    machine.on_message(B, Ack(1), now=ms(1100))
    machine.on_message(C, Ack(2), now=ms(1100))
    out.take()
    machine.on_timer(AckOverdue(1), now=ms(1200))
    assert out.effects == []  # Set for a probe that is over.
    machine.on_timer(AckOverdue(2), now=ms(1300))
    assert out.take() == [Emit(MemberSilent(B))]


@pytest.mark.parametrize(("period", "ack_timeout"), [(1000, 1000), (1000, 0), (300, 1000)])
def test_an_ack_has_to_come_within_the_period(period: int, ack_timeout: int) -> None:
    with pytest.raises(ConfigError, match="ack_timeout"):
        PingConfig(period=ms(period), ack_timeout=ms(ack_timeout))
