"""What a message looks like on the wire."""

import msgspec
import pytest
from msgspec import Struct

from doyen.core.codec import DATAGRAM_MAX, SHORT, Codec, with_digest, without_digest
from doyen.core.ids import NAME_MAX, Incarnation, NodeId, node_id
from doyen.core.rank import shortest
from doyen.election.announce.messages import Announcement
from doyen.errors import ConfigError, RemoteProtocolError


def test_the_commonest_channels_are_written_in_one_letter() -> None:
    codec = Codec("group")
    for channel in (*SHORT, "elsewhere"):
        codec.speak(channel, Announcement)
        data = codec.encode(NodeId("n"), Incarnation(1), channel, Announcement(1, 2))
        envelope = codec.decode(data)
        assert (envelope.channel, envelope.message) == (channel, Announcement(1, 2))
        assert (channel.encode() in data) == (channel not in SHORT)
    for short in SHORT.values():
        with pytest.raises(ConfigError, match="give another name"):
            codec.speak(short, Announcement)


@pytest.mark.parametrize("standing", [0.0, -0.0, 7.0, -3.0, 2.5, 2.0**61, 1e-9, 12, -(2**62)])
def test_a_whole_standing_is_said_in_few_bytes_and_is_the_same(standing: float) -> None:
    short = shortest(standing)
    assert short == standing and isinstance(short, int) == float(standing).is_integer()
    of = lambda value: len(Codec("g").encode(NodeId("n"), Incarnation(1), "c", Announcement(1, value)))  # noqa: E731
    assert of(short) <= of(float(standing))


SENDER, LIFE = NodeId("n"), Incarnation(1)


class Old(Struct, array_like=True):
    """A datagram as version 0.1.0 reads it."""

    version: int
    group: str
    sender: str
    incarnation: int
    channel: str
    message: msgspec.Raw


def test_a_digest_takes_three_bytes_at_the_end_and_version_0_1_0_reads_past_it() -> None:
    codec = Codec("group")
    codec.speak("election", Announcement)
    plain = codec.encode(SENDER, LIFE, "election", Announcement(1, 2))
    for digest in (1, 127, 128, 255, 256, 65_535):
        data = codec.encode(SENDER, LIFE, "election", Announcement(1, 2), digest)
        assert len(data) == len(plain) + 3
        assert codec.open(data).digest == digest
        assert codec.decode(data) == codec.decode(plain)
        assert without_digest(data) == (plain, digest.to_bytes(2, "big"))
        assert with_digest(plain, digest.to_bytes(2, "big")) == data
        old = msgspec.msgpack.decode(data, type=Old)
        assert old == msgspec.msgpack.decode(plain, type=Old)
    assert codec.open(plain).digest is None
    assert without_digest(plain) == (plain, b"")


def test_a_datagram_that_is_full_goes_without_a_digest() -> None:
    codec = Codec("group")
    room = DATAGRAM_MAX - len(codec.encode(SENDER, LIFE, "c", "x" * 300)) + 300
    for spare, carries in ((3, True), (2, False), (0, False)):
        data = codec.encode(SENDER, LIFE, "c", "x" * (room - spare), digest=7)
        assert len(data) == DATAGRAM_MAX - (0 if carries else spare)
        assert codec.open(data).digest == (7 if carries else None)


@pytest.mark.parametrize("digest", [None, 0, -1, 2**64 - 1, 1.5, "text", b"bytes", [1, [2]], {"a": 1}, True])
def test_nothing_is_refused_for_its_digest(digest: object) -> None:
    codec = Codec("group")
    codec.speak("election", Announcement)
    plain = codec.encode(SENDER, LIFE, "election", Announcement(1, 2))
    data = b"\x97" + plain[1:] + msgspec.msgpack.encode(digest)
    assert codec.decode(data) == codec.decode(plain)
    assert codec.open(data).digest == digest


def test_a_name_that_a_member_may_have_is_read_by_the_others_and_no_other_is() -> None:
    codec = Codec("group")
    for name in ("a", "a" * NAME_MAX, "é" * (NAME_MAX // 2)):
        assert codec.open(codec.encode(node_id(name), LIFE, "c", 1)).sender == name
    for name in ("", "a" * (NAME_MAX + 1), "é" * (NAME_MAX // 2) + "a", "a\n", "\x1b[2J"):
        with pytest.raises(ConfigError, match="cannot be a member's name"):
            node_id(name)
        with pytest.raises(RemoteProtocolError):
            codec.open(codec.encode(NodeId(name), LIFE, "c", 1))
    with pytest.raises(ConfigError, match="cannot be a member's name"):
        node_id(" a")


@pytest.mark.parametrize("group", ["", "g" * (NAME_MAX + 1), "é" * (NAME_MAX // 2 + 1)])
def test_what_can_be_no_group_is_refused(group: str) -> None:
    with pytest.raises(ConfigError):
        Codec(group)


@pytest.mark.parametrize("group", ["g", "g" * NAME_MAX, "é" * (NAME_MAX // 2)])
def test_a_group_is_a_name_of_some_bytes(group: str) -> None:
    assert Codec(group).group == group
