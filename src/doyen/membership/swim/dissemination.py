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
from doyen.membership.swim.digests import Digests
from doyen.membership.swim.messages import Ack, Beat, Gossip, HelperAck, Nack, Ping, PingMe, Update, Updates

_encode = Encoder().encode
LENGTH_BYTES: Final = 2  # What the length of a long array takes more than that of an empty one.
SMALL: Final = frozenset({Ping, Ack, PingMe, HelperAck, Nack, Gossip, Beat})  # No larger, without what they carry, than
BARE_MAX: Final = 3 + 4 * NAME_MAX + 3 * 9 + 6 + LENGTH_BYTES  # a name, three numbers, a tag and lengths of arrays.
PAYLOAD_MAX: Final = payload_max("g" * NAME_MAX, NodeId("n" * NAME_MAX), "c" * 48)  # With the longest names.


def repeats(config: SwimConfig, group_size: int) -> int:
    """[SWIM §4.1] Return how often an update is repeated: λ log N times, at least once."""
    return max(1, ceil(config.repeat_mult * ceil(log(group_size + 1))))


class Tier:
    """The updates that were sent equally often, and the sum of their bytes."""

    __slots__ = ("held", "size")

    def __init__(self) -> None:
        self.held: dict[NodeId, Update] = {}
        self.size = 0


class Rumours:
    """The updates that were not sent often enough yet, in tiers by how often they were."""

    __slots__ = ("_all", "_sizes", "_tiers", "by_node", "size")

    def __init__(self) -> None:
        self._tiers: list[Tier] = []  # By times sent; the last one is not empty.
        self.by_node: dict[NodeId, Tier] = {}  # Where the update about a member is.
        self._sizes: dict[NodeId, int] = {}  # The bytes of each update,
        self.size = 0  # and of all.
        self._all: Updates | None = None  # All updates in their order, if they were taken like that last time.

    def __len__(self) -> int:
        return len(self.by_node)

    def __contains__(self, node: NodeId) -> bool:
        return node in self.by_node

    def put(self, update: Update) -> None:
        """Add an update; it replaces an earlier one about the same member."""
        node = update.node
        before, tiers, sizes = self.by_node.get(node), self._tiers, self._sizes
        self._all = None
        if before is not None:
            del before.held[node]
            before.size -= sizes[node]
            self.size -= sizes[node]
        if not tiers:
            tiers.append(Tier())
        tier = self.by_node[node] = tiers[0]
        tier.held[node] = update
        size = sizes[node] = len(_encode(update))
        tier.size += size
        self.size += size

    def take(self, room: int, times_max: int) -> Updates:
        """Return as many updates as fit in `room` bytes, those that were sent least first."""
        tiers = self._tiers
        if self.size > room:
            return tuple(self._take_some(room, times_max))
        taken = self._all
        if taken is None:
            taken = self._all = tuple([update for tier in tiers for update in tier.held.values()])
        if len(tiers) >= times_max:
            self._count_whole(len(tiers), times_max)
        elif tiers:
            tiers.insert(0, Tier())
        return taken

    def _take_some(self, room: int, times_max: int) -> list[Update]:
        self._all = None
        taken: list[Update] = []
        part: list[Update] = []
        whole = 0  # How many tiers go as they are; a part of the next one follows.
        for tier in self._tiers:
            if not tier.held:
                whole += 1
                continue
            if tier.size > room:
                sizes = self._sizes
                for update in tier.held.values():
                    size = sizes[update.node]
                    if size > room:
                        break  # Sizes hardly differ; an update that does not fit now is first next time.
                    room -= size
                    part.append(update)
                break
            room -= tier.size
            taken += tier.held.values()
            whole += 1
        if part:
            taken += part
            self._count(whole, part, times_max)
        else:
            self._count_whole(whole, times_max)
        return taken

    def _count(self, whole: int, part: list[Update], times_max: int) -> None:
        """Count the first tiers, and a part of the next one, as sent once more."""
        tiers, sizes, where, source = self._tiers, self._sizes, self.by_node, self._tiers[whole]
        size = 0
        for update in part:
            node = update.node
            size += sizes[node]
            del source.held[node]
        source.size -= size
        self._count_whole(whole, times_max)
        if whole + 1 < times_max:
            while len(tiers) < whole + 2:
                tiers.append(Tier())
            target = tiers[whole + 1]
            target.size += size
            for update in part:
                node = update.node
                target.held[node] = update
                where[node] = target
        else:
            self.size -= size
            for update in part:
                del where[update.node], sizes[update.node]

    def _count_whole(self, whole: int, times_max: int) -> None:
        """Count the first tiers as sent once more: they move as they are."""
        tiers, sizes = self._tiers, self._sizes
        if whole >= times_max:
            self._all = None
            for done in tiers[times_max - 1 : whole]:
                self.size -= done.size
                for node in done.held:
                    del self.by_node[node], sizes[node]
                done.held.clear()
                done.size = 0
        if 0 < whole < len(tiers):  # The last of them joins what stays of the next one.
            last, tier = tiers.pop(whole - 1), tiers[whole - 1]
            if last.held:
                tier.held.update(last.held)
                tier.size += last.size
                self.by_node.update(dict.fromkeys(last.held, tier))
                last = Tier()
            tiers.insert(0, last)
        elif whole:
            tiers.insert(0, Tier())
        while tiers and not tiers[-1].held:
            tiers.pop()


class Post:
    """Sends messages with as much gossip as they hold.

    `about(to)` returns what the addressee must hear first: that this node holds it suspect, failed or gone.
    """

    __slots__ = ("_config", "_digests", "_out", "_payload_max", "_repeats", "about", "rumours", "where")

    def __init__(
        self,
        config: SwimConfig,
        out: Out,
        payload_max: int,
        *,
        about: Callable[[NodeId], Update | None],
        where: Callable[[NodeId], NodeId | Address],
        digests: Digests,  # Of those who are present.
    ) -> None:
        self.rumours = Rumours()
        self._config, self._out, self._payload_max = config, out, payload_max
        self.about, self.where, self._digests = about, where, digests
        self._repeats = (0, 0)  # The last size of the group, and how often an update is repeated in it.

    def send(self, to: NodeId, kind: Callable[..., Any], *head: Any) -> None:
        """Send a message to a member, with what it must hear of itself, and gossip."""
        first = self.about(to)
        if first is None and not self.rumours.by_node:
            self._out.send(self.where(to), kind(*head))
        else:
            self._out.send(self.where(to), kind(*head, self.load(kind, head, first)))

    def reply(self, to: NodeId, kind: Callable[..., Any], *head: Any) -> None:
        """Send as `send` does, but to where the transport knows the member to be: what it says itself may be wrong."""
        first = self.about(to)
        if first is None and not self.rumours.by_node:
            self._out.send(to, kind(*head))
        else:
            self._out.send(to, kind(*head, self.load(kind, head, first)))

    def ack(self, to: NodeId, ping_no: int, waited_ms: int) -> None:
        """Reply with an ack that says for how long nobody had pinged this node."""
        first = self.about(to)
        updates: Updates = ()
        if first is not None or self.rumours.by_node:
            updates = self.load(Ack, (ping_no, (), waited_ms), first)
        self._out.send(to, Ack(ping_no, updates, waited_ms))

    def send_to(self, address: NodeId | Address, kind: Callable[..., Any], *head: Any) -> None:
        """Send a message to an address, where any node may be."""
        self._out.send(address, kind(*head, self.load(kind, head, None)))

    def load(self, kind: Callable[..., Any], head: tuple[Any, ...], first: Update | None) -> Updates:
        """Return what a message carries, given what it is made of besides."""
        room = self._payload_max - BARE_MAX
        if first is not None or self.rumours.size > room or kind not in SMALL:
            room = self._payload_max - len(_encode(kind(*head))) - LENGTH_BYTES
        group_size = len(self._digests.ordered)
        if self._repeats[0] != group_size:
            self._repeats = group_size, repeats(self._config, group_size)
        if first is None:
            return self.rumours.take(room, self._repeats[1])
        size = len(_encode(first))
        if size > room:
            return ()
        taken = self.rumours.take(room - size, self._repeats[1])
        return (first, *(update for update in taken if update.node != first.node))

    def pieces(self, kind: Callable[..., Any], head: tuple[Any, ...], updates: list[Update]) -> list[Updates]:
        """Return the updates in as many parts as datagrams are needed."""
        return list(pieces(updates, self._payload_max - len(_encode(kind(*head))) - LENGTH_BYTES))

    def fits(self, kind: Callable[..., Any], head: tuple[Any, ...], updates: list[Update]) -> bool:
        return len(_encode(kind(*head, tuple(updates)))) <= self._payload_max
