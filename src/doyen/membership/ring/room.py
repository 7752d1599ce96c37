"""What fits one datagram: names are up to 64 bytes long, and most messages of the ring carry several."""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from msgspec.msgpack import Encoder

from doyen.core.codec import payload_max
from doyen.core.ids import NAME_MAX, NodeId
from doyen.errors import ConfigError
from doyen.membership.ring.geometry import Seat

NUMBERS_MAX: Final = 64  # The bytes of what a message holds besides: at most five numbers, and lengths.
ROOM: Final = payload_max("g" * NAME_MAX, NodeId("n" * NAME_MAX), "membership") - NUMBERS_MAX
OTHERS: Final = 2  # Seats or lines that a message has beside a whole neighbourhood.
_encode = Encoder().encode
T = TypeVar("T")


def size(thing: Any) -> int:
    return len(_encode(thing))


def fitting(items: Sequence[T], room: int) -> tuple[T, ...]:
    """Return as many of the first items as fit in `room` bytes, one at least."""
    count = 0
    for item in items:
        room -= size(item)
        if room < 0:
            break
        count += 1
    return tuple(items[: max(count, 1)])


def check_seat(mine: Seat, neighbours: int) -> None:
    """Raise if a neighbourhood of seats as long as this one exceeds a datagram: every member checks its own."""
    room = ROOM // (2 * neighbours + OTHERS)
    if size(mine) > room:
        raise ConfigError(
            f"{neighbours} on each side leave {room} bytes for a member, and {mine.node!r} at {mine.address or '?'} "
            f"takes {size(mine)}: give a shorter name, or fewer neighbours on every member",
            field="ring.neighbours",
        )
