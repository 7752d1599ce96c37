"""Any bytes at the socket: dropped, counted by reason, and the election goes on."""

import asyncio
import logging
import math
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from doyen.core.clock import Instant, ms
from doyen.core.codec import DATAGRAM_MAX, REASONS, VERSION, Codec
from doyen.core.commands import Command
from doyen.core.effects import Out
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.leadership import LeaderElected
from doyen.core.machine import Hears, hears
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.machine import Announce
from doyen.election.announce.messages import Announcement, Behind, Bye, Query
from doyen.errors import LocalProtocolError, RemoteProtocolError
from doyen.net.address_book import PEERS_MAX
from doyen.net.driver import Driver
from doyen.net.udp import Heard, UdpConfig, UdpTransport

ME, PEER = NodeId("me"), NodeId("peer")
FROM = Address("127.0.0.1", 9)
COUNT = 100_000
REFUSALS = {*REASONS, "empty", "namesake", "key", "outlived", "rival"}
CONFIG = AnnounceConfig(announce_interval=ms(40), listen_timeout=ms(120), suppress_interval=ms(20), group_size=2)


class NoSocket(UdpTransport):
    """A transport without a network: what is said is only counted."""

    heard: Heard  #: What the driver hears: call it with a datagram and where it came from.

    async def open(self, heard: Heard) -> None:
        self.address, self.heard = Address("127.0.0.1", 7005), heard

    def send(self, data: bytes, to: Address) -> None:
        super().send(data, to)  # Looks at the address, and finds no socket.
        self.sent_count += 1

    def multicast(self, data: bytes) -> None:
        self.sent_count += 1


def hear(node: Driver, data: bytes, source: Address) -> None:
    """Let a datagram come to a driver without a network."""
    assert isinstance(node.transport, NoSocket)
    node.transport.heard(data, source)


def driver(**options: Any) -> Driver:
    config = UdpConfig(multicast=Address("239.192.77.2", 27_603))
    return Driver(ME, Incarnation(1), Codec("group"), NoSocket(config), **options)


def with_election(**options: Any) -> Driver:
    made = driver(**options)
    made.add("election", lambda port: Announce(ME, CONFIG, port, Random(1)))
    return made


def accounted(node: Driver) -> int:
    return node.received_count + sum(node.refused[reason] for reason in REFUSALS)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="doyen")


# ── What a hostile sender may come up with ──────────────────────────────────────────────────────────────────

HOSTILE = [
    math.nan, math.inf, -math.inf, 2**53 + 1, 2**62 + 1, 2**63, 2**64 - 1, -(2**63), -1, 1e308, -0.0,
    None, True, "", "0", b"", b"\xff" * 20, [], {}, [[]], {"A": 1}, "\0", "é" * 40, "n" * 65, "n" * 1000,
]  # fmt: skip


def nested(depth: int) -> bytes:
    """Arrays in arrays, well formed: a few bytes that cost a careless reader its stack."""
    return b"\x91" * depth + b"\x01"


def datagrams(rng: Random) -> Iterator[bytes]:
    """Random bytes, valid ones bent, and well-formed envelopes with fields that nobody should believe."""
    codec = Codec("group")
    encode = msgspec.msgpack.encode
    valid = [
        codec.encode(PEER, Incarnation(5), "election", message)
        for message in (
            Announcement(3, 0),
            Announcement(2**53, 2**62),
            Announcement(1, 0.5),
            Query(1, 7),
            Bye(9),
            Behind(9),
        )
    ]
    whole = [VERSION, "group", "peer", 5, "election", ["A", 3, 0]]
    while True:
        kind = rng.randrange(8)
        if kind == 0:
            yield rng.randbytes(rng.randrange(0, 200))
        elif kind == 1:
            yield rng.randbytes(rng.randrange(DATAGRAM_MAX - 2, DATAGRAM_MAX + 3))
        elif kind == 2:
            bent = bytearray(rng.choice(valid))
            for _ in range(rng.randrange(1, 4)):
                bent[rng.randrange(len(bent))] = rng.randrange(256)
            yield bytes(bent)
        elif kind == 3:
            whole_one = rng.choice(valid)
            yield whole_one[: rng.randrange(len(whole_one))] + rng.randbytes(rng.randrange(3))
        elif kind == 4:
            fields: list[Any] = list(whole)
            fields[rng.randrange(6)] = rng.choice(HOSTILE)
            yield encode(fields)
        elif kind == 5:
            tag = rng.choice(["A", "Q", "B", "", "Z"])
            yield encode([*whole[:5], [tag, *(rng.choice(HOSTILE) for _ in range(rng.randrange(4)))]])
        elif kind == 6:
            yield encode(whole[:5])[:-1] + nested(rng.randrange(1, 1300))
        else:  # Valid to the last field, from somebody new each time.
            yield codec.encode(
                NodeId(f"stranger {rng.getrandbits(64)}"),
                Incarnation(rng.getrandbits(62)),
                "election",
                Announcement(rng.randrange(2**53), rng.choice([0, -5, rng.random()])),
            )


# ── Tests ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_hundred_thousand_bad_datagrams_leave_the_node_electing() -> None:
    async def main() -> None:
        again = asyncio.Event()
        elected: list[NodeId] = []

        def observe(channel: str, fact: Any, now: Instant) -> None:
            if isinstance(fact, LeaderElected):
                elected.append(fact.term.leader)
                again.set()

        node = with_election(observer=observe)
        await node.start()
        hostile = list(islice(datagrams(Random(7)), COUNT))
        warm = COUNT * 9 // 10  # By then the table of addresses is full.
        tracemalloc.start()
        try:
            for i, data in enumerate(hostile):
                if i == warm:
                    settled, _ = tracemalloc.get_traced_memory()
                    tracemalloc.reset_peak()
                hear(node, data, Address("127.0.0.1", 1 + i % 60_000))
                if i % 500 == 0:
                    elected.clear()  # So that the list is not what grows.
                    await asyncio.sleep(0)  # Timers go on meanwhile.
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert node.failure is None
        assert accounted(node) == COUNT
        assert all(node.refused[reason] > 0 for reason in REASONS), node.refused
        assert len(node.addresses) == PEERS_MAX  # Strangers were heard, and no more of them are kept.
        assert peak - settled < 500_000, "memory must not grow with what is heard or refused"
        said = node.transport.sent_count
        again.clear()
        async with asyncio.timeout(5):  # The strangers are silent now, so it comes to lead again.
            while not elected or elected[-1] != ME:
                again.clear()
                await again.wait()
            while node.transport.sent_count <= said:
                await asyncio.sleep(0.01)
        node.close()

    asyncio.run(main())


@pytest.fixture(scope="module")
def codec() -> Codec:
    made = Codec("group")
    made.speak("election", Announce.MESSAGES)
    return made


def decoded(codec: Codec, data: bytes) -> str | None:
    """The reason of the refusal; None if it was understood.  Any other exception is a failure."""
    refusal: RemoteProtocolError | None = None
    try:
        codec.decode(data)
    except RemoteProtocolError as error:
        refusal = error
    if refusal is None:
        return None
    assert refusal.reason in REASONS
    assert len(str(refusal)) < 400, "what is logged must not be as long as the attacker likes"
    return refusal.reason


@given(st.binary(max_size=2 * DATAGRAM_MAX))
def test_any_bytes_decode_or_are_refused_with_a_known_reason(codec: Codec, data: bytes) -> None:
    decoded(codec, data)


_leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary()
_values = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2), max_leaves=6
)


@given(st.lists(_values, max_size=8))
def test_any_envelope_decodes_or_is_refused_with_a_known_reason(codec: Codec, fields: list[Any]) -> None:
    decoded(codec, msgspec.msgpack.encode(fields))


@given(st.sampled_from("AQB"), st.lists(_values, max_size=4))
@settings(max_examples=300)
def test_any_message_is_refused_or_in_range(codec: Codec, tag: str, fields: list[Any]) -> None:
    data = msgspec.msgpack.encode([VERSION, "group", "peer", 5, "election", [tag, *fields]])
    if decoded(codec, data) is None:
        message = codec.decode(data).message
        assert 0 <= message.term <= 2**53
        assert abs(getattr(message, "standing", 0)) <= 2**62  # False for nan.


@given(st.data())
@settings(max_examples=300)
def test_a_bent_datagram_is_refused_or_understood(codec: Codec, data: st.DataObject) -> None:
    bent = bytearray(codec.encode(PEER, Incarnation(5), "election", Announcement(3, 0.5)))
    for _ in range(data.draw(st.integers(1, 4))):
        bent[data.draw(st.integers(0, len(bent) - 1))] = data.draw(st.integers(0, 255))
    decoded(codec, bytes(bent[: data.draw(st.integers(0, len(bent)))]))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([2, "group", "peer", 5, "election", ["A", 3, 0]], "version"),
        ([VERSION, "other", "peer", 5, "election", ["A", 3, 0]], "group"),
        ([VERSION, "group", "peer", 5, "elsewhere", ["A", 3, 0]], "channel"),
        ([VERSION, "group", "", 5, "election", ["A", 3, 0]], "malformed"),
        ([VERSION, "group", "n" * 65, 5, "election", ["A", 3, 0]], "malformed"),
        ([VERSION, "group", "peer", -1, "election", ["A", 3, 0]], "malformed"),
        ([VERSION, "group", "peer", 2**63, "election", ["A", 3, 0]], "malformed"),
        ([VERSION, "group", "peer", math.inf, "election", ["A", 3, 0]], "malformed"),
        ([VERSION, "group", "peer", 5, "election", ["A", -1, 0]], "message"),
        ([VERSION, "group", "peer", 5, "election", ["A", 2**53 + 1, 0]], "message"),
        ([VERSION, "group", "peer", 5, "election", ["A", 3, math.nan]], "message"),
        ([VERSION, "group", "peer", 5, "election", ["A", 3, math.inf]], "message"),
        ([VERSION, "group", "peer", 5, "election", ["A", 3, -(2**63)]], "message"),
        ([VERSION, "group", "peer", 5, "election", ["A", 3]], "message"),
        ([VERSION, "group", "peer", 5, "election", ["Z", 3, 0]], "message"),
        ([VERSION, "group", "peer", 5, "election", ["B", [3]]], "message"),
        ([VERSION, "group", "x" * DATAGRAM_MAX, 5, "election", ["A", 3, 0]], "oversized"),
        ([VERSION, "group", "peer", 5, "election", ["A", 3, 0]], None),
    ],
)
def test_each_refusal_has_its_reason(codec: Codec, fields: list[Any], reason: str | None) -> None:
    assert decoded(codec, msgspec.msgpack.encode(fields)) == reason


@pytest.mark.parametrize("depth", [10, 100, 1_300])
def test_deep_nesting_is_refused_without_a_crash(codec: Codec, depth: int) -> None:
    envelope = msgspec.msgpack.encode([VERSION, "group", "peer", 5, "election", 0])[:-1]
    assert decoded(codec, envelope + nested(depth)) in ("message", "malformed")


def test_a_namesake_is_counted_and_never_heard() -> None:
    async def main() -> None:
        node = with_election()
        await node.start()
        other = Codec("group").encode(ME, Incarnation(2), "election", Announcement(9, 2**60))
        hear(node, other, FROM)
        assert node.refused["namesake"] == 1
        assert node.received_count == 0
        node.close()

    asyncio.run(main())


def test_complaints_about_one_reason_are_logged_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        node = with_election()
        await node.start()
        for _ in range(1_000):
            hear(node, b"\xc1", FROM)
        node.close()
        assert node.refused["malformed"] == 1_000

    caplog.set_level(logging.WARNING, logger="doyen")
    asyncio.run(main())
    assert len(caplog.records) == 1
    assert "dropped a datagram from 127.0.0.1:9: malformed" in caplog.records[0].getMessage()


# ── Too large to leave ──────────────────────────────────────────────────────────────────────────────────────


class Letter(Struct, frozen=True, array_like=True, tag="L"):
    text: str


class Write(Command, frozen=True):
    text: str


class Writer:
    """Says one letter when asked."""

    MESSAGES: ClassVar[Any] = Letter

    def __init__(self, out: Out) -> None:
        self._out = out

    def start(self, now: Instant) -> None: ...

    def on_message(self, sender: NodeId, message: Letter, now: Instant) -> None: ...

    def on_timer(self, timer: Any, now: Instant) -> None: ...

    def write(self, command: Write, now: Instant) -> None:
        self._out.multicast(Letter(command.text))

    HEARS: ClassVar[Hears] = hears(Write, write)


def test_a_message_above_the_limit_is_a_clear_error_for_its_sender() -> None:
    with pytest.raises(
        LocalProtocolError, match=r"a Letter of 2,0\d\d bytes does not fit a datagram of 1,400: make it"
    ):
        Codec("group").encode(ME, Incarnation(1), "letters", Letter("x" * 2_000))


def test_a_message_above_the_limit_is_dropped_loudly_and_the_node_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        node = driver()
        node.add("letters", Writer)
        await node.start()
        node.tell(Write("x" * 2_000), channel="letters")
        assert node.refused["too large"] == 1
        assert node.failure is None
        assert node.transport.sent_count == 0
        node.tell(Write("x"), channel="letters")
        assert node.transport.sent_count == 1
        node.close()

    caplog.set_level(logging.ERROR, logger="doyen")
    asyncio.run(main())
    assert "a Letter of 2,0" in caplog.text
    assert "does not fit a datagram of 1,400" in caplog.text
