"""Answers in the clear are paid for: twice what came, whatever is asked; and two nodes still say all that they have."""

from collections.abc import Callable
from random import Random

import pytest

from doyen.core.ids import Address
from doyen.net.credit import (
    ADDRESSES_MAX,
    CREDIT_MAX,
    FEE,
    FREE_EVERY_S,
    HEAD_BYTES,
    HELD_FOR_S,
    HELD_MAX,
    RATIO,
    ROOM_MAX,
    Credit,
    is_room,
)
from doyen.net.credit import room as room_of

A, B = Address("10.0.0.1", 1), Address("10.0.0.2", 2)


class Side:
    """One node's credit, and what it sent."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.sent: list[bytes] = []
        self.credit = Credit(lambda: self.now, lambda data, to: self.sent.append(data))

    def answer(self, data: bytes) -> None:
        if self.credit.lets_answer(A, data):
            self.sent.append(data)

    def taken(self) -> list[bytes]:
        sent, self.sent = self.sent, []
        return sent


def hear(side: Side, data: bytes) -> None:
    if is_room(data):
        side.credit.on_room(data, A)
    else:
        side.credit.earn(A, len(data))


def converse(asked: Side, asking: Side, lost: Callable[[], bool] = lambda: False) -> list[bytes]:
    """Carry what two sides send to each other until both are silent; return what the asking one got but rooms."""
    got: list[bytes] = []
    while asked.sent or asking.sent:
        for data in asked.taken():
            if not lost():
                got += [] if is_room(data) else [data]
                hear(asking, data)
        for data in asking.taken():
            if not lost():
                hear(asked, data)
    return got


@pytest.mark.parametrize("sizes", [(100,), (600,), (1400,) * 8, (50,) * 5])
def test_whoever_pays_gets_the_whole_answer(sizes: tuple[int, ...]) -> None:
    asked, asking = Side(), Side()
    asked.credit.earn(A, 60)
    for size in sizes:
        asked.answer(bytes([1]) * size)
    assert sorted(map(len, converse(asked, asking))) == sorted(sizes)


def test_whoever_does_not_pay_gets_twice_what_it_sent_whatever_it_says() -> None:
    rng = Random(1)
    for _ in range(300):
        side, spent, got = Side(), 0, 0
        for _ in range(rng.randrange(1, 40)):
            side.now += rng.choice([0.0, 0.01, 0.5])
            data = rng.choice(
                [bytes([7]) * rng.randrange(17, 200), room_of(rng.randrange(10**6), rng.randrange(5, 90))]
            )
            spent += len(data)
            hear(side, data)
            for _ in range(rng.randrange(4)):
                side.answer(bytes([1]) * rng.randrange(1, 1400))
            if rng.random() < 0.5 and side.credit.lets_listen(A, told := bytes([2]) * rng.randrange(1, 1400)):
                side.sent.append(told) if spent < FEE else None
            got += sum(map(len, side.taken()))
            assert got <= RATIO * spent + HEAD_BYTES * (side.now - 1000) / FREE_EVERY_S


def test_a_listener_pays_its_fee_once_and_then_gets_all() -> None:
    asked, asking = Side(), Side()
    asked.credit.earn(A, 60)
    for _ in range(5):  # Every message comes, at the latest after an exchange of rooms.
        asked.now += 1
        if not asked.credit.lets_listen(A, bytes(500)):
            assert converse(asked, asking) == [bytes(500)]
    for _ in range(1000):
        assert asked.credit.lets_listen(A, bytes(1000))


def test_a_listener_without_any_credit_is_asked_by_five_bytes_now_and_then() -> None:
    side = Side()
    for _ in range(1000):
        side.now += 0.1
        assert not side.credit.lets_listen(A, bytes(100))
    assert {len(data) for data in side.sent} == {HEAD_BYTES} and len(side.sent) in (9, 10)
    asking = Side()
    asking.credit.earn(A, 1000)  # It hears others of that node's messages.
    assert converse(side, asking), "it pays, and gets what is held"
    assert side.credit.lets_listen(A, bytes(1400))


def test_what_is_held_for_too_long_or_is_too_much_is_lost() -> None:
    side = Side()
    side.credit.earn(A, 10)
    for i in range(HELD_MAX + 5):
        side.answer(bytes([i + 1]) * 100)
    side.taken()
    side.credit.earn(A, 10_000)
    assert [data[0] for data in side.taken()] == list(range(6, HELD_MAX + 6))
    side.credit.earn(B, 10)
    assert not side.credit.lets_answer(B, bytes(1000))
    side.now += 2 * HELD_FOR_S
    side.taken()
    side.credit.earn(B, 10_000)
    assert side.taken() == []


def test_small_answers_go_at_once_while_a_long_one_waits() -> None:
    side = Side()
    side.credit.earn(A, 200)
    assert not side.credit.lets_answer(A, bytes(1000))
    assert side.credit.lets_answer(A, bytes(20))


def test_credit_is_bounded_and_so_is_memory() -> None:
    side = Side()
    side.credit.earn(A, 10**9)
    sent = 0
    while side.credit.lets_answer(A, bytes(1000)):
        sent += 1000
    assert CREDIT_MAX - 1000 < sent <= CREDIT_MAX
    for i in range(ADDRESSES_MAX + 10):
        side.credit.earn(Address("10.1.0.1", i + 1), 1000)
    assert not side.credit.lets_answer(Address("10.1.0.1", 1), bytes(100))
    assert side.credit.lets_answer(Address("10.1.0.1", 100), bytes(100))


def test_no_room_is_larger_than_a_datagram_that_passes_everywhere() -> None:
    side = Side()
    side.credit.earn(A, 5000)
    side.credit.on_room(room_of(2**31, 5), A)
    assert [len(data) for data in side.taken()] == [ROOM_MAX]


@pytest.mark.parametrize("seed", range(20))
def test_with_lost_packets_an_answer_that_is_asked_for_again_arrives(seed: int) -> None:
    rng = Random(seed)
    asked, asking = Side(), Side()
    got: set[int] = set()
    for _ in range(30):
        asked.now += 0.5
        hear(asked, bytes(60))
        for i in range(4):
            if i not in got:
                asked.answer(bytes([i + 1]) * 900)
        got |= {data[0] - 1 for data in converse(asked, asking, lambda: rng.random() < 0.3)}
    assert got == {0, 1, 2, 3}
