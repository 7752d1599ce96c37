"""Messages to bytes and back, with a version.

    datagram = msgpack array [version, group, sender, incarnation, channel, message, digest]
    channel  = its name, or the short form of it in `SHORT`
    message  = msgpack array [type, field, …]          (a tagged, array-like `msgspec.Struct`)
    digest   = of what must be alike on all members (`net/alike.py`), as CD · two bytes; not in every datagram

Decoding is in two steps: the header, which says whose machine the message is for, then the message, by that
machine's own types.  Any bytes yield an `Envelope` or a `RemoteProtocolError` with one of the reasons in
`REASONS`; nothing is allocated beyond what the datagram itself holds.

New fields of a message go last and have defaults, so that neighbours of one version apart understand each other.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from doyen.core.ids import NAME_MAX, Incarnation, NodeId
from doyen.errors import ConfigError, LocalProtocolError, RemoteProtocolError

VERSION: Final = 1
DATAGRAM_MAX: Final = 1400  # Fits an Ethernet frame with room for IPv6, a tunnel and a seal; fragments get lost.
SHORT: Final = {"election": "e", "membership": "m"}  # Said most often; a heartbeat is a tenth shorter for it.
_LONG: Final = {short: channel for channel, short in SHORT.items()}
_SIX, _SEVEN, _UINT16 = b"\x96", b"\x97", b"\xcd"  # Of msgpack: a datagram without a digest, with one, and the digest.
DIGEST_BYTES: Final = 2
_encode = Encoder().encode
T = TypeVar("T")
REASONS: Final = ("oversized", "malformed", "version", "group", "channel", "message")


class Envelope(Struct, frozen=True, array_like=True):
    version: int
    group: str
    sender: NodeId
    incarnation: Incarnation
    channel: str
    message: Any


class Header(Struct, frozen=True, array_like=True):
    """A datagram whose message is still to be read, by the types of the machine that it is for."""

    version: int
    group: str
    sender: str
    incarnation: int
    channel: str
    message: msgspec.Raw
    digest: Any = None  # Whatever another version may put there.


def payload_max(
    group: str, node: NodeId, channel: str, *, incarnation: int = 2**63 - 1, datagram_max: int = DATAGRAM_MAX
) -> int:
    """Return the bytes of a datagram that are left for a message of this node, by the real codec."""
    envelope = Codec(group, datagram_max=65_507).encode(node, Incarnation(incarnation), channel, None)
    return datagram_max - (len(envelope) - 1)


def with_digest(data: bytes, digest: bytes) -> bytes:
    """Return a datagram that has none with this digest."""
    return _SEVEN + data[1:] + _UINT16 + digest


def without_digest(data: bytes) -> tuple[bytes, bytes]:
    """Return a datagram of ours without its digest, and the digest; b"" if it has none."""
    if data[:1] != _SEVEN:
        return data, b""
    return _SIX + data[1 : -DIGEST_BYTES - 1], data[-DIGEST_BYTES:]


def pieces(items: Iterable[T], room: int) -> Iterator[tuple[T, ...]]:
    """Yield the items in parts, each of as many as fit in `room` bytes, and of one at least."""
    part: list[T] = []
    left = room
    for item in items:
        size = len(_encode(item))
        if size > left and part:
            yield tuple(part)
            part, left = [], room
        part.append(item)
        left -= size
    if part:
        yield tuple(part)


class Codec:
    """One group's language: which machine speaks on which channel."""

    def __init__(self, group: str, *, datagram_max: int = DATAGRAM_MAX) -> None:
        if not 64 <= datagram_max <= 65_507:
            raise ConfigError(f"datagram_max {datagram_max} is out of range: give 64 to 65507 bytes")
        if not group or len(group.encode()) > NAME_MAX:
            raise ConfigError(f"group {group!r} must have 1 to {NAME_MAX} bytes")
        self.group, self.datagram_max = group, datagram_max
        self._decoders: dict[str, Decoder[Any]] = {}
        self._open: Decoder[Header] = Decoder(Header)
        self._encode = Encoder().encode

    def speak(self, channel: str, messages: Any) -> None:
        """Messages on this channel are of this union of types."""
        if channel in _LONG:
            raise ConfigError(f"channel {channel!r} is how {_LONG[channel]!r} is written: give another name")
        self._decoders[channel] = Decoder(messages)

    def encode(
        self, sender: NodeId, incarnation: Incarnation, channel: str, message: Any, digest: int | None = None
    ) -> bytes:
        """Return the datagram of a message; where there is no room for the digest, it goes without."""
        data = self._encode(Envelope(VERSION, self.group, sender, incarnation, SHORT.get(channel, channel), message))
        if len(data) > self.datagram_max:
            raise LocalProtocolError(
                f"a {type(message).__name__} of {len(data):,} bytes does not fit a datagram of "
                f"{self.datagram_max:,}: make it smaller, or raise datagram_max on every member"
            )
        if digest is None or len(data) + 1 + DIGEST_BYTES > self.datagram_max:
            return data
        return with_digest(data, digest.to_bytes(DIGEST_BYTES, "big"))

    def decode(self, data: bytes) -> Envelope:
        return self.read(self.open(data))

    def open(self, data: bytes) -> Header:
        """Return the header of a datagram of this group; it may be for a machine that is not here."""
        if len(data) > self.datagram_max:
            raise RemoteProtocolError("oversized", f"{len(data)} bytes, at most {self.datagram_max}")
        try:
            opened = self._open.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RemoteProtocolError("malformed", str(error)) from None
        if opened.version != VERSION:
            raise RemoteProtocolError("version", f"speaks version {opened.version}, this is {VERSION}")
        if opened.group != self.group:
            raise RemoteProtocolError("group", f"is for group {opened.group[:NAME_MAX]!r}, this is {self.group!r}")
        named = 0 < len(opened.sender.encode()) <= NAME_MAX and opened.sender.isprintable()
        if not named or not 0 <= opened.incarnation < 2**63:
            raise RemoteProtocolError("malformed", "a sender's name or incarnation is out of range")
        return opened

    def read(self, opened: Header) -> Envelope:
        """Return what a datagram says to the machine that it is for."""
        channel = _LONG.get(opened.channel, opened.channel)
        decoder = self._decoders.get(channel)
        if decoder is None:
            raise RemoteProtocolError("channel", f"no machine here listens on {channel[:NAME_MAX]!r}")
        try:
            message = decoder.decode(opened.message)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RemoteProtocolError("message", f"on {channel!r}: {error}") from None
        return Envelope(
            VERSION,
            opened.group,
            NodeId(opened.sender),
            Incarnation(opened.incarnation),
            channel,
            message,
        )
