"""Scores: numbers, functions, several in order of priority."""

import asyncio
from collections.abc import Callable

import pytest

import doyen
from doyen.errors import ConfigError
from doyen.node.events import BACKLOG_MAX, Event, Subscription
from doyen.node.scoring import as_function, measured


def score(*parts: tuple[Callable[[], float], float]) -> float:
    return asyncio.run(measured(doyen.composite(*parts)))


def test_the_first_part_decides_in_classes_and_the_next_among_equals() -> None:
    def of(memory: float, cores: float) -> float:
        return score((lambda: memory, 4), (lambda: cores, 1))

    assert of(9, 2) > of(7, 64)  # 8..12 is a better class than 4..8.
    assert of(9, 2) < of(11, 3)  # One class; more cores.
    assert of(9, 2) == of(11.9, 2.9)
    assert of(-5, 1) == of(0, 1)  # What is below is 0.


def test_functions_may_be_async_and_numbers_stay() -> None:
    async def slow() -> float:
        return 3.0

    assert asyncio.run(measured(slow)) == 3.0
    fixed = as_function(7)
    assert fixed is not None
    assert asyncio.run(measured(fixed)) == 7.0
    assert as_function(None) is None
    parts = as_function([(lambda: 5.0, 1.0)])
    assert parts is not None
    assert asyncio.run(measured(parts)) == 5.0


def test_a_composite_without_sense_is_refused() -> None:
    with pytest.raises(ConfigError, match="1 to 4 parts, not 0"):
        doyen.composite()
    with pytest.raises(ConfigError, match="width must be positive"):
        doyen.composite((lambda: 1.0, 0))


def test_a_failing_score_function_does_not_stop_the_node(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> float:
        raise ZeroDivisionError

    async def main() -> None:
        joined = doyen.join("broken", name="a", preset="local", score=broken, score_every="20ms")
        async with joined as node, node.lead(timeout="10s"):
            await asyncio.sleep(0.05)
            assert node.is_leader

    asyncio.run(main())
    assert "the score function failed; the last score stands" in caplog.text


def test_a_slow_reader_loses_the_oldest_events_and_is_told_how_many() -> None:
    async def main() -> list[Event]:
        subscription = Subscription()
        for number in range(BACKLOG_MAX + 5):
            subscription.put(Event(kind="elected", at=0.0, term=number))
        subscription.close()
        return [event async for event in subscription.read()]

    events = asyncio.run(main())
    assert (len(events), events[0].term, events[0].dropped) == (BACKLOG_MAX, 5, 5)
    assert all(event.dropped == 0 for event in events[1:])
