"""What the driver adds to a machine's words: where they go."""

import asyncio
import socket
from typing import Any, ClassVar

import pytest
from msgspec import Struct

from doyen.core.codec import Codec
from doyen.core.commands import Command
from doyen.core.effects import Out
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.machine import Hears, hears
from doyen.core.view import Member, MembershipView, Status, ViewChanged, ViewEditor
from doyen.net.driver import Driver
from doyen.net.udp import UdpConfig, UdpTransport

pytestmark = pytest.mark.live

OTHER = NodeId("b")


class Word(Struct, frozen=True):
    number: int


class Hold(Command, frozen=True):
    view: MembershipView


class Say(Command, frozen=True):
    to: NodeId | None


class Speaker:
    """Says what it is told to say."""

    MESSAGES: ClassVar[Any] = Word

    def __init__(self, out: Out) -> None:
        self.out = out

    def start(self, now: int) -> None: ...

    def hold(self, command: Hold, now: int) -> None:
        self.out.emit(ViewChanged(command.view, frozenset({OTHER})))

    def say(self, command: Say, now: int) -> None:
        if command.to is None:
            self.out.multicast(Word(1))
        else:
            self.out.send(command.to, Word(1))

    HEARS: ClassVar[Hears] = hears(Hold, hold) | hears(Say, say)

    def on_message(self, sender: NodeId, message: Word, now: int) -> None: ...

    def on_timer(self, timer: Any, now: int) -> None: ...


def test_a_member_held_failed_is_still_sent_what_is_meant_for_it_until_it_leaves_or_is_forgotten() -> None:
    """Views err: the leader that everybody holds dead has to hear who leads now."""

    async def main() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
            ear.bind(("127.0.0.1", 0))
            ear.setblocking(False)
            where = Address(*ear.getsockname())
            driver = Driver(
                NodeId("a"), Incarnation(1), Codec("group"), UdpTransport(UdpConfig(bind=Address("127.0.0.1", 0)))
            )
            driver.add("election", Speaker)
            await driver.start()

            async def heard(status: Status | None, to: NodeId | None = OTHER) -> bool:
                editor = ViewEditor()
                if status is not None:
                    editor.put(Member(node=OTHER, status=status, address=where))
                driver.tell(Hold(editor.view), channel="election")
                driver.tell(Say(to), channel="election")
                try:
                    return bool(await asyncio.wait_for(asyncio.get_running_loop().sock_recv(ear, 2048), 0.2))
                except TimeoutError:
                    return False

            try:
                assert await heard(Status.ALIVE) and await heard(Status.ALIVE, to=None)
                assert await heard(Status.FAILED) and await heard(Status.FAILED)
                assert not await heard(Status.FAILED, to=None)  # What is for everybody is for those present.
                assert await heard(Status.ALIVE, to=None)
                assert not await heard(Status.LEFT) and not await heard(Status.FAILED)
                assert await heard(Status.ALIVE) and not await heard(None) and not await heard(Status.FAILED)
                assert driver.refused == {"no address": 4}
            finally:
                driver.close()

    asyncio.run(main())


class Greeter(Speaker):
    """Greets whoever comes into the view, at once."""

    def greet(self, fact: ViewChanged, now: int) -> None:
        for node in fact.changed:
            self.out.send(node, Word(2))

    HEARS: ClassVar[Hears] = hears(ViewChanged, greet)


def test_a_member_is_reached_in_the_very_step_that_brings_it() -> None:
    async def main() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("127.0.0.1", 0))
            other.settimeout(5)
            editor = ViewEditor()
            editor.put(Member(node=OTHER, address=Address("127.0.0.1", other.getsockname()[1])))
            driver = Driver(NodeId("a"), Incarnation(1), Codec("group"), UdpTransport(UdpConfig()))
            driver.add("membership", Speaker)
            driver.add("election", Greeter)
            await driver.start()
            driver.tell(Hold(editor.view), channel="membership")
            assert other.recv(2000)
            assert driver.refused["no address"] == 0
            driver.close()

    asyncio.run(main())
