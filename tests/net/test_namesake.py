"""Two processes of one name: the later one gives up, and the last words of a former life are no second process."""

import asyncio
from random import Random

import pytest
from test_bad_input import FROM, ME, NoSocket, hear

from doyen.core.clock import Instant, seconds
from doyen.core.codec import Codec
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.machine import Announce
from doyen.election.announce.messages import Announcement
from doyen.errors import TransportError
from doyen.net.driver import Driver
from doyen.net.namesakes import CHANNEL, Arrival, Namesake, Namesakes
from doyen.net.udp import UdpConfig

OTHER = NodeId("other")


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
        self.told: list[tuple[bytes, Address]] = []
        self.driver.transport.send = lambda data, to: self.told.append((data, to))  # type: ignore[method-assign]

    def hear(self, incarnation: int, at_s: float) -> None:
        self.now = seconds(at_s)
        data = Codec("group").encode(ME, Incarnation(incarnation), "election", Announcement(9, 2**60))
        hear(self.driver, data, FROM)


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


def test_the_earlier_of_two_stays_and_answers_so_that_the_later_one_hears_it() -> None:
    node = heard((6, 0), (6, 0.5), (6, 2), (6, 9))
    assert node.driver.running
    assert node.driver.refused["namesake"] == 4
    node.driver.close()
    codec = Codec("group")
    codec.speak(CHANNEL, Namesake)
    answers = [(codec.decode(data), to) for data, to in node.told if b"namesake" in data]
    assert [(said.sender, said.incarnation, to) for said, to in answers] == [(ME, 5, FROM)] * 3  # Once a second.


def test_the_last_words_of_a_former_life_are_not_a_second_process() -> None:
    node = heard((4, 0), (4, 0.1), (4, 2.9))
    assert node.driver.running
    node.driver.close()


class Third(Hearing):
    """A node that hears two others of one name."""

    def hear_other(self, incarnation: int, at_s: float, port: int) -> bool:
        """Whether it was heard."""
        self.now, before = seconds(at_s), self.driver.received_count
        data = Codec("group").encode(OTHER, Incarnation(incarnation), "election", Announcement(1, 0))
        hear(self.driver, data, Address("127.0.0.1", port))
        return self.driver.received_count > before


def third(*words: tuple[int, float]) -> tuple[Third, list[bool]]:
    async def main() -> tuple[Third, list[bool]]:
        node = Third()
        await node.driver.start()
        heard = [node.hear_other(incarnation, at_s, 7000 + incarnation) for incarnation, at_s in words]
        node.driver.close()
        return node, heard

    return asyncio.run(main())


def test_a_third_hears_of_two_and_tells_the_later_one(caplog: pytest.LogCaptureFixture) -> None:
    words = [(life, second) for second in range(7) for life in (4, 9)]
    node, heard = third(*words)
    of_later = [was for was, (life, _) in zip(heard, words, strict=True) if life == 9]
    of_earlier = [was for was, (life, _) in zip(heard, words, strict=True) if life == 4]
    assert of_later == [True] * 4 + [False] * 3, "believed, as a restart would be, until the earlier one went on"
    assert of_earlier == [True, False, False, False, True, True, True]
    assert "two processes are called 'other', at 127.0.0.1:7004 and, later, at 127.0.0.1:7009" in caplog.text
    codec = Codec("group")
    codec.speak(CHANNEL, Namesake)
    notices = [(codec.decode(data), to) for data, to in node.told if b"namesake" in data]
    assert {to.port for _, to in notices} == {7009} and len(notices) == 3
    assert notices[0][0].message == Namesake(4, "127.0.0.1", 7004)


def test_a_restart_and_the_last_words_before_it_are_no_rivalry() -> None:
    """However late, and however many, as long as they come at once: a link that was clogged."""
    node, heard = third((4, 0), (9, 1), (4, 1.1), (9, 2), *[(4, 5.0)] * 20, (9, 6), *[(4, 9.0)] * 20, (9, 10), (9, 60))
    assert [was for was in heard if not was] == [False] * 41
    assert node.told == [] and node.driver.refused["outlived"] == 41


def test_a_restart_under_a_clock_that_was_set_back_is_heard_at_once() -> None:
    node, heard = third((9, 0), (9, 1), *[(4, 1.5 + i / 5) for i in range(40)], (4, 60))
    assert all(heard) and node.told == []


def test_the_name_is_free_again_once_the_earlier_one_is_gone() -> None:
    _, heard = third(*[(life, s) for s in range(7) for life in (4, 9)], (9, 20), (9, 40))
    assert heard[-2:] == [False, True]


def test_the_later_one_gives_up_on_a_thirds_word() -> None:
    async def main(*incarnations: int) -> Hearing:
        node = Hearing()
        await node.driver.start()
        for second, incarnation in enumerate(incarnations):
            node.now = seconds(second)
            notice = Namesake(incarnation, "10.0.0.9", 7600)
            hear(node.driver, Codec("group").encode(OTHER, Incarnation(1), CHANNEL, notice), FROM)
        return node

    told = asyncio.run(main(4, 4, 4, 4, 4))
    assert not told.driver.running and "another process at 10.0.0.9:7600" in str(told.failures[0])
    stays = asyncio.run(main(6, 6, 6, 6, 6))
    assert stays.driver.running
    stays.driver.close()


def test_two_former_lives_are_not_one_that_speaks_for_long() -> None:
    node = heard((3, 0), (4, 2), (3, 4), (4, 6))
    assert node.driver.running
    node.driver.close()


@pytest.mark.parametrize(
    "notice", [(-1, "h", 1), (2**63, "h", 1), (1, "h" * 65, 1), (1, "h", 0), (1, "h", 65536)], ids=str
)
def test_a_notice_of_what_cannot_be_is_refused(notice: tuple[int, str, int]) -> None:
    with pytest.raises(ValueError, match="no process can be there"):
        Namesake(*notice)
    Namesake(0, "h" * 64, 65535)
    Namesake(2**63 - 1, "", 1)


def test_of_two_that_go_on_the_later_is_heard_until_the_earlier_has_come_four_times_a_second_apart() -> None:
    judging, old, new = Namesakes(ME, Incarnation(5)), Incarnation(1), Incarnation(2)

    def judge(incarnation: Incarnation, at_s: float) -> tuple[bool, str, bool]:
        known = old if at_s <= 100 else new
        found = judging.judge(OTHER, incarnation, known, Arrival(FROM, FROM, seconds(at_s)))
        return found.heard, found.reason, found.notice is not None

    assert judge(new, 100) == (True, "", False)
    for at_s in (101, 101.5, 102, 103):  # Half a second after another it is one message.
        assert judge(old, at_s) == (False, "outlived", False)
        assert judge(new, at_s) == (True, "", False)
    assert judge(old, 104) == (True, "", False), "the fourth: it lives"
    assert judge(new, 104) == (False, "rival", True), "it is notified"
    assert judge(new, 104.5) == (False, "rival", False), "though not all the time"
    assert judge(new, 105) == (False, "rival", True)
    assert judge(new, 134) == (False, "rival", True)
    assert judge(new, 134.1) == (True, "", False), "the earlier one is silent for thirty seconds"
    assert judging.is_settled(OTHER, new, new)
