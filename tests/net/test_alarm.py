"""The driver's alarm: one call of the loop, for the next timer that is due."""

import asyncio
from typing import Any, ClassVar

import pytest
from test_bad_input import NoSocket

from doyen.core.clock import Instant, ms
from doyen.core.codec import Codec
from doyen.core.effects import Out
from doyen.core.ids import Incarnation, NodeId
from doyen.core.machine import Hears
from doyen.net.driver import ALARM_MAX_S, Driver
from doyen.net.udp import UdpConfig


class Waits:
    """Sets timers at its start."""

    MESSAGES: ClassVar[Any] = int
    HEARS: ClassVar[Hears] = {}

    def __init__(self, out: Out, at: tuple[Instant, ...]) -> None:
        self._out, self._at = out, at

    def start(self, now: Instant) -> None:
        for at in self._at:
            self._out.set_timer(at, at)

    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None: ...

    def on_timer(self, timer: Instant, now: Instant) -> None: ...


@pytest.mark.parametrize(
    ("at_ms", "waits_s"),
    [((250,), 0.25), ((900, 250, 400), 0.25), ((5_000,), ALARM_MAX_S), ((-50,), 0.0)],
    ids=["soon", "the first of three", "far away", "past"],
)
def test_the_loop_is_asked_for_the_next_timer_and_never_for_long(at_ms: tuple[int, ...], waits_s: float) -> None:
    async def main() -> None:
        loop, asked = asyncio.get_running_loop(), list[float]()
        later, now = loop.call_later, ms(1000)

        def noted(wait_s: float, call: Any, *given: Any, **named: Any) -> asyncio.TimerHandle:
            if getattr(call, "__self__", None) is driver:
                asked.append(wait_s)
                return later(3600, call, *given, **named)
            return later(wait_s, call, *given, **named)

        driver = Driver(NodeId("a"), Incarnation(1), Codec("group"), NoSocket(UdpConfig()), clock=lambda: now)
        driver.add("election", lambda port: Waits(port, tuple(now + ms(at) for at in at_ms)))
        loop.call_later = noted  # type: ignore[method-assign, assignment]
        await driver.start()
        assert asked and asked[-1] == pytest.approx(waits_s)
        driver.close()

    asyncio.run(main())


def test_a_driver_is_behind_from_the_instant_on_at_which_its_first_timer_is_due() -> None:
    now = [ms(1000)]

    async def main() -> None:
        for at_ms in ((), (250,), (400, 250, 900)):
            driver = Driver(NodeId("a"), Incarnation(1), Codec("group"), NoSocket(UdpConfig()), clock=lambda: now[0])
            at = tuple(ms(1000 + after) for after in at_ms)
            driver.add("election", lambda port, at=at: Waits(port, at))  # type: ignore[misc]
            assert not driver.is_behind
            await driver.start()
            for now[0], behind in ((ms(1250) - 1, False), (ms(1250), bool(at_ms))):
                assert driver.is_behind == behind
            now[0] = ms(1000)
            driver.close()

    asyncio.run(main())
