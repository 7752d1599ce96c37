"""A flood of bad packets, from outside the group and from within: no crash, flat memory, and nobody is believed.

outsider   has no key: random bytes, packets in the clear, seals bent, cut, of another key or group; recordings
insider    has the key, and seals whatever comes to its mind; it is believed, so its words reach the decoders
"""

import asyncio
import logging
import os
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from test_bad_input import NoSocket, datagrams, hear

from doyen.core.clock import Instant
from doyen.core.codec import DATAGRAM_MAX, Codec
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.leadership import LeaderElected
from doyen.core.view import ViewChanged
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.machine import Announce
from doyen.election.announce.messages import Announcement
from doyen.membership.swim.config import SwimConfig
from doyen.membership.swim.machine import Swim
from doyen.membership.swim.messages import Ack, Gossip, Ping, Update, Word
from doyen.net.driver import Driver
from doyen.net.handshake import MARK
from doyen.net.keys import Keyring
from doyen.net.sealed import Seal
from doyen.net.udp import UdpConfig

KEY, FOREIGN = Keyring([bytes(range(32))]), Keyring([bytes(range(1, 33))])
ME, MULTICAST = NodeId("me"), Address("239.192.77.2", 27_603)
USURPER = NodeId("usurper")  # Named in recordings and forgeries alone: whoever comes to know it has been fooled.
SAMPLE, OUTSIDE, WITHIN = 8_000, 8_000_000, 2_000_000
RESIDENT_MAX = 4 << 20  # In a soak: a byte for each packet from outside would be as much.


class Victim:
    """A whole node: a membership and an election, sealed; what it sends is kept for whoever wants to answer."""

    def __init__(self, seal: Seal | None) -> None:
        self.sent: list[tuple[bytes, Address]] = []
        victim = self

        class Caught(NoSocket):
            def send(self, data: bytes, to: Address) -> None:
                victim.sent.append((data, to))
                del victim.sent[:-8]

        self.named: set[NodeId] = set()
        self.driver = Driver(
            ME,
            Incarnation(1),
            Codec("group"),
            Caught(UdpConfig(multicast=MULTICAST)),
            seal=seal,
            observer=self._observe,
        )
        self.driver.add("election", lambda port: Announce(ME, AnnounceConfig(), port, Random(1)))
        self.swim: Swim = self.driver.add("membership", lambda port: Swim(ME, SwimConfig(), port, Random(2)))

    def _observe(self, channel: str, fact: Any, now: Instant) -> None:
        if isinstance(fact, LeaderElected):
            self.named |= {fact.term.leader} & {USURPER}
        elif isinstance(fact, ViewChanged):
            self.named |= {*fact.changed} & {USURPER}


def swim_datagrams(rng: Random, life_of: Callable[[NodeId], Incarnation | None]) -> Iterator[bytes]:
    """Well formed and hostile, on the membership's channel; few names, so that its list stays small."""
    codec = Codec("group")
    while True:
        sender = NodeId(f"n{rng.randrange(50)}")
        updates = tuple(
            Update(
                NodeId(f"n{rng.randrange(60)}"),
                Incarnation(rng.choice([0, 1, 2**40])),
                rng.choice([0, 1, 2, 3]),
                sender,
            )
            for _ in range(rng.randrange(4))
        )
        message: Any = rng.choice(
            [Ping(rng.getrandbits(40), ME, updates), Ack(rng.getrandbits(40), updates), Gossip(updates)]
        )
        latest = life_of(sender) or Incarnation(7)  # An outlived one is not heard.
        life = latest if rng.random() < 0.9 else Incarnation(rng.randrange(7))
        data = codec.encode(sender, life, "membership", message)
        if rng.random() < 0.5:
            bent = bytearray(data)
            for _ in range(rng.randrange(1, 5)):
                bent[rng.randrange(len(bent))] = rng.randrange(256)
            data = bytes(bent)
        yield data


def usurpations() -> list[bytes]:
    """What the group would obey, if it were said by one who may say it."""
    codec = Codec("group")
    update = Update(USURPER, Incarnation(9), Word.ALIVE, USURPER)
    return [
        codec.encode(USURPER, Incarnation(9), "election", Announcement(7, 2**61)),
        codec.encode(USURPER, Incarnation(9), "membership", Ping(1, ME, (update,))),
    ]


def outsider(rng: Random) -> Iterator[bytes]:
    in_clear, orders = datagrams(rng), usurpations()
    foreign, elsewhere = Seal(FOREIGN, "group"), Seal(KEY, "elsewhere")
    past = Seal(KEY, "group")  # A true member, heard and recorded before the victim was born.
    recorded = [past.seal(order, None) for order in orders * 50]
    while True:
        kind = rng.randrange(7)
        if kind == 0:
            yield next(in_clear)
        elif kind == 1:
            yield rng.choice(orders)
        elif kind == 2:
            yield rng.choice((foreign, elsewhere)).seal(rng.choice(orders), None)
        elif kind == 3:
            yield rng.choice(recorded)
        elif kind == 4:
            bent = bytearray(rng.choice(recorded))
            for _ in range(rng.randrange(1, 4)):
                bent[rng.randrange(len(bent))] = rng.randrange(256)
            yield bytes(bent)
        elif kind == 5:
            yield rng.choice(recorded)[: rng.randrange(120)]
        else:
            yield MARK + KEY.primary + rng.randbytes(rng.randrange(DATAGRAM_MAX + 60))


class Insider:
    """One who has proven itself: boots of its own, as many as it likes."""

    def __init__(self, victim: Victim, rng: Random) -> None:
        self.victim, self.rng = victim, rng
        self.address = Address("127.0.0.1", 9)
        self._words, self._swim = datagrams(rng), swim_datagrams(rng, victim.driver.addresses.incarnation_of)
        self.be_born()

    def be_born(self) -> None:
        self.seal = Seal(KEY, "group")
        self.hear = lambda data: hear(self.victim.driver, data, self.address)
        self.victim.sent.clear()
        self.hear(self.seal.seal(bytes(60), None))  # Unproven: it is asked for its echo.
        (asked,) = [data for data, to in self.victim.sent if to == self.address]
        for answer in self.seal.open(asked, self.address).answers:
            self.hear(answer)
        self.victim.sent.clear()

    def packet(self) -> bytes:
        kind = self.rng.randrange(8)
        if kind < 3:
            return self.seal.seal(next(self._words)[:DATAGRAM_MAX], None)
        if kind < 6:
            return self.seal.seal(next(self._swim), None)
        if kind == 6:
            return self.seal.seal(MARK + self.rng.randbytes(self.rng.choice((16, self.rng.randrange(40)))), None)
        return self.seal.seal(msgspec.msgpack.encode(self.rng.random()) * self.rng.randrange(100), None)


async def flood(victim: Victim, packets: Iterator[bytes], count: int, rng: Random) -> tuple[int, int]:
    """Returns the memory in use once half of it has come, and the most after that: traced, or resident in a soak."""
    driver, traced = victim.driver, count <= SAMPLE
    await driver.start()
    settled = peak = 0
    if traced:
        tracemalloc.start()
    try:
        for i in range(count):
            if i == count // 2:
                settled = peak = tracemalloc.get_traced_memory()[0] if traced else resident()
                tracemalloc.reset_peak()
            hear(driver, next(packets), Address(f"10.0.{rng.randrange(4)}.{rng.randrange(250)}", 1 + i % 999))
            if i % 500 == 0:
                peak = max(peak, resident()) if peak and not traced else peak
                await asyncio.sleep(0)
        peak = tracemalloc.get_traced_memory()[1] if traced else max(peak, resident())
    finally:
        tracemalloc.stop()
    assert driver.failure is None and driver.running
    return settled, peak


def resident() -> int:
    """Return the memory of this process, in bytes; tracing each allocation would take five times as long."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def check_outsider(count: int) -> None:
    rng = Random(count)
    victim = Victim(Seal(KEY, "group"))
    settled, peak = asyncio.run(flood(victim, outsider(rng), count, rng))
    refused = victim.driver.refused
    assert victim.named == set() and victim.driver.received_count == 0
    assert all(refused[reason] > count / 100 for reason in ("key", "seal", "unproven", "clear")), refused
    reasons = ("key", "seal", "addressee", "unproven", "clear", "oversized", "empty")
    assert sum(refused[reason] for reason in reasons) == count, refused
    assert peak - settled < (512 * 1024 if count <= SAMPLE else RESIDENT_MAX), (settled, peak)
    victim.driver.close()


def check_insider(count: int) -> None:
    rng = Random(count)
    victim = Victim(Seal(KEY, "group"))
    packets: list[int] = []

    def words() -> Iterator[bytes]:
        insider = Insider(victim, rng)
        while True:
            if len(packets) % 1000 == 999:
                insider.be_born()
            packets.append(1)
            del packets[:-1000]
            yield insider.packet()

    settled, peak = asyncio.run(flood(victim, words(), count, rng))
    refused = victim.driver.refused
    assert victim.driver.received_count > count / 10  # It is believed, as any member is.
    assert all(refused[reason] > count / 500 for reason in ("malformed", "message", "handshake")), refused
    assert peak - settled < (2 * 1024 * 1024 if count <= SAMPLE else RESIDENT_MAX), (settled, peak)
    victim.driver.close()


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="doyen")


def test_a_sample_of_the_flood_from_outside() -> None:
    check_outsider(SAMPLE)


def test_a_sample_of_the_flood_from_within() -> None:
    check_insider(SAMPLE)


@pytest.mark.soak
def test_eight_million_packets_from_outside() -> None:
    check_outsider(OUTSIDE)


@pytest.mark.soak
def test_two_million_packets_from_within() -> None:
    check_insider(WITHIN)


def test_the_fuzzers_usurpation_works_where_nothing_forbids_it() -> None:
    """Else the tests above would show nothing."""
    victim = Victim(None)

    async def main() -> None:
        await victim.driver.start()
        for order in usurpations():
            hear(victim.driver, order, Address("10.0.0.1", 1))
        victim.driver.close()

    asyncio.run(main())
    assert victim.named == {USURPER}
