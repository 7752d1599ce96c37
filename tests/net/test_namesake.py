"""Two processes of one name: the later one gives up, and the last words of a former life are no second process."""

import asyncio
from random import Random

import pytest
from test_bad_input import FROM, ME, NoSocket

from doyen.core.clock import Instant, seconds
from doyen.core.codec import Codec
from doyen.core.ids import Incarnation
from doyen.election.announce import Announce, AnnounceConfig, Announcement
from doyen.errors import TransportError
from doyen.net.driver import Driver
from doyen.net.udp import UdpConfig


class Hearing:
    """A node of incarnation 5 that hears its name from another, on a clock of its own."""

    def __init__(self) -> None:
        self.now: Instant = 0
        self.failures: list[BaseException] = []
        self.driver = Driver(
            ME,
            Incarnation(5),
            Codec("group"),
            NoSocket(UdpConfig()),
            clock=lambda: self.now,
            on_failure=self.failures.append,
        )
        self.driver.add("election", lambda port: Announce(ME, AnnounceConfig(), port, Random(1)))

    def hear(self, incarnation: int, at_s: float) -> None:
        self.now = seconds(at_s)
        data = Codec("group").encode(ME, Incarnation(incarnation), "election", Announcement(9, 2**60))
        self.driver._on_datagram(data, FROM)


def heard(*words: tuple[int, float]) -> Hearing:
    """Each is (incarnation, second)."""

    async def main() -> Hearing:
        node = Hearing()
        await node.driver.start()
        for incarnation, at_s in words:
            node.hear(incarnation, at_s)
        return node

    return asyncio.run(main())


def test_the_later_of_two_gives_up_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    node = heard((4, 0), (4, 1), (4, 3.1))
    assert not node.driver.running
    assert isinstance(node.failures[0], TransportError)
    assert "another process at 127.0.0.1:9 is called 'me' too: rename one" in caplog.text


def test_the_earlier_of_two_stays() -> None:
    node = heard((6, 0), (6, 2), (6, 9))
    assert node.driver.running
    assert node.driver.refused["namesake"] == 3
    node.driver.close()


def test_the_last_words_of_a_former_life_are_not_a_second_process() -> None:
    node = heard((4, 0), (4, 0.1), (4, 2.9))
    assert node.driver.running
    node.driver.close()


def test_two_former_lives_are_not_one_that_speaks_for_long() -> None:
    node = heard((3, 0), (4, 2), (3, 4), (4, 6))
    assert node.driver.running
    node.driver.close()
