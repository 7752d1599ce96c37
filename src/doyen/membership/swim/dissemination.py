"""Puts updates on messages that are sent anyway, each update λ log N times, the freshest first.  [SWIM §4.1]

A message takes as many updates as its datagram holds, by the codec's own count of bytes.
"""

from collections.abc import Callable
from math import ceil, log
from typing import Any, Final

from msgspec.msgpack import Encoder

from doyen.core.codec import payload_max as payload_max
from doyen.core.codec import pieces
from doyen.core.effects import Out
from doyen.core.ids import NAME_MAX, Address, NodeId
from doyen.membership.swim.config import SwimConfig
from doyen.membership.swim.messages import Update, Updates

_encode = Encoder().encode
LENGTH_BYTES: Final = 2  # What the length of a long array takes more than that of an empty one.
PAYLOAD_MAX: Final = payload_max("g" * NAME_MAX, NodeId("n" * NAME_MAX), "c" * 48)  # With the longest names.


def repeats(config: SwimConfig, group_size: int) -> int:
    """[SWIM §4.1] Return how often an update is repeated: λ log N times, at least once."""
    return max(1, ceil(config.repeat_mult * ceil(log(group_size + 1))))


class Rumours:
    """The updates that were not sent often enough yet, in tiers by how often they were."""

    __slots__ = ("_tiers", "_where")

    def __init__(self) -> None:
        self._tiers: list[dict[NodeId, tuple[Update, int]]] = []  # By times sent; values: (update, bytes).
        self._where: dict[NodeId, int] = {}

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, node: NodeId) -> bool:
        return node in self._where

    def put(self, update: Update) -> None:
        """Add an update; it replaces an earlier one about the same member."""
        node = update.node
        tier = self._where.get(node)
        if tier is not None:
            del self._tiers[tier][node]
        if not self._tiers:
            self._tiers.append({})
        self._tiers[0][node] = (update, len(_encode(update)))
        self._where[node] = 0

    def drop(self, node: NodeId) -> None:
        tier = self._where.pop(node, None)
        if tier is not None:
            del self._tiers[tier][node]

    def take(self, room: int, times_max: int, leave_out: NodeId | None = None) -> list[Update]:
        """Return as many updates as fit in `room` bytes, those that were sent least first."""
        taken: list[Update] = []
        moved: list[tuple[int, Update, int]] = []
        for tier, waiting in enumerate(self._tiers):
            for update, size in waiting.values():
                if size > room:
                    break  # Sizes hardly differ; an update that does not fit now is first next time.
                if update.node != leave_out:
                    taken.append(update)
                moved.append((tier, update, size))
                room -= size
            else:
                continue
            break
        for tier, update, size in moved:
            node = update.node
            del self._tiers[tier][node]
            if tier + 1 >= times_max:
                del self._where[node]
                continue
            if tier + 1 == len(self._tiers):
                self._tiers.append({})
            self._tiers[tier + 1][node] = (update, size)
            self._where[node] = tier + 1
        return taken


class Post:
    """Sends messages with as much gossip as they hold.

    `about(to)` returns what the addressee must hear first: that this node holds it suspect, failed or gone.
    """

    __slots__ = ("_config", "_group_size", "_out", "_payload_max", "about", "rumours", "where")

    def __init__(
        self,
        config: SwimConfig,
        out: Out,
        payload_max: int,
        *,
        about: Callable[[NodeId], Update | None],
        where: Callable[[NodeId], NodeId | Address],
        group_size: Callable[[], int],
    ) -> None:
        self.rumours = Rumours()
        self._config, self._out, self._payload_max = config, out, payload_max
        self.about, self.where, self._group_size = about, where, group_size

    def send(self, to: NodeId, kind: Callable[..., Any], *head: Any) -> None:
        """Send a message to a member, with what it must hear of itself, and gossip."""
        first = self.about(to)
        if first is None and not self.rumours:
            self._out.send(self.where(to), kind(*head))
        else:
            self._out.send(self.where(to), kind(*head, self.load(kind, head, first)))

    def reply(self, to: NodeId, kind: Callable[..., Any], *head: Any) -> None:
        """Send as `send` does, but to where the transport knows the member to be: what it says itself may be wrong."""
        first = self.about(to)
        if first is None and not self.rumours:
            self._out.send(to, kind(*head))
        else:
            self._out.send(to, kind(*head, self.load(kind, head, first)))

    def send_to(self, address: NodeId | Address, kind: Callable[..., Any], *head: Any) -> None:
        """Send a message to an address, where any node may be."""
        self._out.send(address, kind(*head, self.load(kind, head, None)))

    def load(self, kind: Callable[..., Any], head: tuple[Any, ...], first: Update | None) -> Updates:
        room = self._payload_max - len(_encode(kind(*head))) - LENGTH_BYTES
        if first is None:
            return tuple(self.rumours.take(room, self._times_max()))
        size = len(_encode(first))
        if size > room:
            return ()
        return (first, *self.rumours.take(room - size, self._times_max(), leave_out=first.node))

    def pieces(self, kind: Callable[..., Any], head: tuple[Any, ...], updates: list[Update]) -> list[Updates]:
        """Return the updates in as many parts as datagrams are needed."""
        return list(pieces(updates, self._payload_max - len(_encode(kind(*head))) - LENGTH_BYTES))

    def fits(self, kind: Callable[..., Any], head: tuple[Any, ...], updates: list[Update]) -> bool:
        return len(_encode(kind(*head, tuple(updates)))) <= self._payload_max

    def _times_max(self) -> int:
        return repeats(self._config, self._group_size())
