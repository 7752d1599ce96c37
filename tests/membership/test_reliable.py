"""Messages that are repeated: to each until it acknowledges, or to a few drawn at random."""

from random import Random
from typing import Any

from doyen.core import NodeId, Send, SetTimer, ms, seconds
from doyen.membership.reliable import (
    EVEN_MORE,
    GOSSIP_ROUNDS,
    RESEND_MAX,
    CopiesAreSent,
    GossipMulticast,
    ReliableMulticast,
)
from doyen.testing import RecordingOut

NODES = [NodeId(f"n{i}") for i in range(7)]


def gossip(to: list[NodeId] = NODES, fan_out: int = 2) -> tuple[GossipMulticast, RecordingOut]:
    out = RecordingOut()
    one = GossipMulticast(out, Random(1), ms(100), fan_out)
    one.publish(lambda number: ("news", number), to, 0)
    return one, out


def sent(effects: list[Any]) -> list[NodeId]:
    assert all(effect.message == ("news", 0) for effect in effects if isinstance(effect, Send))
    return [effect.to for effect in effects if isinstance(effect, Send)]


def test_a_gossip_goes_to_a_few_in_each_round_and_waits_for_nobody() -> None:
    one, out = gossip()
    effects = out.take()
    assert len(set(sent(effects))) == 2 and effects[-1] == SetTimer(CopiesAreSent(1, 1), ms(100))
    assert one.waiting == frozenset()
    one.on_ack(NODES[0], 1)
    one.on_timer(CopiesAreSent(1, 1), ms(100))
    assert len(set(sent(out.take()))) == 2 and one.round_count == 1


def test_rounds_become_rarer_once_all_should_have_heard_and_end() -> None:
    one, out = gossip()
    waits, now = [], 0
    timer: Any = out.take()[-1]
    while isinstance(timer, SetTimer):
        waits.append(timer.at - now)
        now = timer.at
        one.on_timer(timer.timer, now)
        timer = out.take()[-1]
    even = 3 + EVEN_MORE  # log2 of 8.
    assert len(waits) == GOSSIP_ROUNDS and set(waits[: even + 1]) == {ms(100)}
    assert waits[even + 1] == ms(150) and waits == sorted(waits) and waits[-1] <= RESEND_MAX


def test_whoever_comes_later_is_told_and_whoever_goes_is_not() -> None:
    one, out = gossip(NODES[:1])
    out.take()
    one.include(NODES[1], 5)
    one.include(NODES[1], 6)
    assert out.take() == [Send(NODES[1], ("news", 0))]
    one.forget(NODES[0])
    one.forget(NODES[5])
    one.on_timer(CopiesAreSent(1, 1), ms(100))
    assert sent(out.take()) == [NODES[1]]


def test_a_message_that_was_stopped_or_replaced_is_sent_no_more() -> None:
    one, out = gossip()
    one.amend(lambda number: ("news", number), (), 10)
    out.take()
    one.on_timer(CopiesAreSent(1, 1), ms(100))
    assert out.take() == []
    one.stop()
    one.on_timer(CopiesAreSent(2, 1), ms(110))
    one.include(NodeId("late"), ms(120))
    assert out.take() == []


def test_copies_come_at_one_pace_twelve_times_and_then_ever_more_slowly() -> None:
    out = RecordingOut()
    multicast = ReliableMulticast(out, ms(100), lambda node: "present")
    multicast.publish(lambda number: number, [NodeId("a")], 0)
    waits, now = [], 0
    for _ in range(26):
        (due,) = [effect for effect in out.take() if isinstance(effect, SetTimer)]
        waits.append(due.at - now)
        now = due.at
        multicast.on_timer(due.timer, now)
    assert waits[:13] == [ms(100)] * 13 and waits[13] == ms(150) and waits[14] == ms(225)
    assert waits[-1] == seconds(10) and waits == sorted(waits)
