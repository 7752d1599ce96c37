"""Lays the recordings of several nodes side by side: for each message received, where it was sent.

The identifier of a message is a digest of its datagram, which names its sender, its incarnation and its channel.  So
both ends know it, and no byte of it is on the wire.  Messages that are alike to the last byte share an identifier; of
those, the latest that was sent before is taken, by the wall clocks of the two nodes.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from doyen.core.codec import Codec
from doyen.errors import LocalProtocolError
from doyen.net.recording.effects import channel_of
from doyen.net.recording.format import DATAGRAM_MAX, Heard, identifier
from doyen.net.recording.reader import Reader


class Spot(Struct, frozen=True):
    """One message in one segment of one node's recording."""

    path: str
    node: str
    input_no: int
    at: float  # The node's wall clock, in seconds.


class Passage(Struct, frozen=True):
    """A message that was received, and where it was sent, if one of the recordings tells."""

    identifier: str
    received: Spot
    sent: Spot | None


def matched(paths: Iterable[Path]) -> list[Passage]:
    """Return every message that was received in these segments, in the order of each segment."""
    sends: dict[str, list[Spot]] = defaultdict(list)
    receipts: list[tuple[str, Spot]] = []
    for path in paths:
        for found, spot, is_sent in _messages(path):
            if is_sent:
                sends[found].append(spot)
            else:
                receipts.append((found, spot))
    for spots in sends.values():
        spots.sort(key=lambda spot: spot.at)
    return [Passage(found, spot, _latest(sends.get(found, []), spot.at)) for found, spot in receipts]


def _latest(spots: list[Spot], at: float) -> Spot | None:
    """Return the latest one before; where the clocks disagree, the first."""
    return spots[max(0, bisect_right(spots, at, key=lambda spot: spot.at) - 1)] if spots else None


def _messages(path: Path) -> Iterator[tuple[str, Spot, bool]]:
    with Reader(path) as reader:
        header, origin = reader.header, reader.header.origin
        codec = Codec(origin.group, datagram_max=DATAGRAM_MAX)
        for _ in reader.state():
            pass
        for number, item in enumerate(reader.inputs(), start=1):
            spot = Spot(str(path), origin.node, number, header.at + (item.now - header.now) / 1e9)
            if isinstance(item.given, Heard):
                yield identifier(item.given.data), spot, False
            for effect in item.effects:
                if effect.verb in ("send", "multicast"):
                    try:
                        message = msgspec.Raw(effect.data)
                        data = codec.encode(origin.node, origin.incarnation, channel_of(effect), message)
                    except LocalProtocolError:
                        continue  # It was too large to be sent.
                    yield identifier(data), spot, True
