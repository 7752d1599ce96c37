"""Points, keys and neighbours on a virtual ring of 2^m points.  [ARB §II]

A node sits at a point, and so does a key; a key is owned by the closest node, and of two that are equally close by the
predecessor.  A node's neighbours are the k nearest on each side; in a ring of 2k + 1 or fewer, everybody.

Routing (the paper refers to a patent for it): a member that gets a request for a key hands it to the member closest to
that key of all it knows, itself included; if that is itself, it is the owner.  Each hop comes strictly closer, so it
ends.  By neighbours alone a hop covers k nodes, and the shorter way round is at most half the ring: ⌈N / 2k⌉ hops
(`hop_bound`).  A member that knows the full list needs one.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from doyen.core.hashes import blake2b
from doyen.core.ids import Address, NodeId, parse_address
from doyen.errors import ConfigError

BITS: Final = 32  # m: 2^m points.  The paper does not say; at 2^32 two of 1,000 nodes meet once in 10,000 rings.
POINTS: Final = 1 << BITS

Name = tuple[NodeId, int]  # A node and its incarnation.


class Seat(Struct, frozen=True, order=True, array_like=True, gc=False):
    """One identity on the ring: a node that leaves and comes back takes another."""

    point: int
    node: NodeId
    incarnation: int = 1
    address: str = ""  # Where it listens (host:port), if messages do not find it by its name.  Text, to be ordered.

    def __post_init__(self) -> None:
        if self.address:
            try:
                parse_address(self.address)
            except ConfigError as error:
                raise ValueError(str(error)) from None  # The codec's DecodeError: a bad message, dropped.

    @property
    def name(self) -> Name:
        return self.node, self.incarnation

    def __str__(self) -> str:
        return self.node if self.incarnation == 1 else f"{self.node}#{self.incarnation}"


Seats = frozenset[Seat]


def to(seat: Seat) -> NodeId | Address:
    """Return where messages for a seat go."""
    return parse_address(seat.address) if seat.address else seat.node


def point_of(text: str, bits: int = BITS) -> int:
    """Return the point at which a name or a key lies."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> (64 - bits)


def seat(node: NodeId, incarnation: int = 1, address: str = "") -> Seat:
    """Return a node's seat: the same point in each incarnation, so that what it had is near when it returns."""
    return Seat(point_of(node), node, incarnation, address)


def clockwise(a: int, b: int, points: int = POINTS) -> int:
    """Return how many points lie from a on to b."""
    return (b - a) % points


def distance(a: int, b: int, points: int = POINTS) -> int:
    return min((b - a) % points, (a - b) % points)


def owner(key: int, seats: Iterable[Seat], points: int = POINTS) -> Seat | None:
    """Return the seat closest to a key; of two equally close the predecessor, from which the key lies clockwise."""
    return min(seats, key=lambda s: (distance(s.point, key, points), clockwise(s.point, key, points), s), default=None)


def around(me: Seat, others: Iterable[Seat], points: int = POINTS) -> list[Seat]:
    """Return all others clockwise: successors first, predecessors last; at one point names decide."""

    def turn(other: Seat) -> tuple[int, Seat]:
        behind = other.point == me.point and other < me
        return points if behind else (other.point - me.point) % points, other

    return sorted((other for other in others if other.name != me.name), key=turn)


def neighbours(me: Seat, others: Iterable[Seat], each_side: int, points: int = POINTS) -> Seats:
    """Return N_P: the k nearest on each side."""
    ordered = around(me, others, points)
    return frozenset(ordered if len(ordered) <= 2 * each_side else ordered[:each_side] + ordered[-each_side:])


def joined_neighbours(joiner: Seat, key_owner: Seat, its_neighbours: Iterable[Seat], each_side: int) -> Seats:
    """Return N_C, a subset of Q ∪ N_Q, where Q owns the joiner's point.  [ARB §V Phase 1, Fig. 5]"""
    return neighbours(joiner, {key_owner, *its_neighbours}, each_side)


def group(me: Seat, mine: Iterable[Seat], peer: Seat, theirs: Iterable[Seat]) -> Seats:
    """Return A_PQ = P ∪ N_P ∪ Q ∪ N_Q.  [ARB Eq. 1]"""
    return frozenset((me, peer, *mine, *theirs))


def next_hop(key: int, me: Seat, known: Iterable[Seat], points: int = POINTS) -> Seat | None:
    """Return the member to which a request for a key goes on; None: this one owns the key."""
    best = owner(key, (me, *known), points)
    return None if best is None or best.name == me.name else best


def hop_bound(size: int, each_side: int) -> int:
    """Return how many hops a request takes at most, by neighbours alone."""
    return -(-size // (2 * each_side))


class Roster:
    """The members that a node knows of: a base that a whole simulation shares, and what has changed since.

    Only neighbourhoods carry the theorems; this list spreads on the leases, and may be behind.
    """

    __slots__ = ("_added", "_base", "gone")

    def __init__(self, base: Sequence[Seat]) -> None:
        self._base = base  # Sorted, never changed.
        self._added: list[Seat] = []  # Sorted.
        self.gone: dict[Name, bool] = {}  # Dead (False) or left by its own announcement (True).

    def add(self, seat: Seat) -> bool:
        """Add a member; return whether that is news.  One that is gone does not come back under the same name."""
        if seat.name in self.gone or seat in self:
            return False
        self._added.insert(bisect_left(self._added, seat), seat)
        return True

    def remove(self, seat: Seat, *, left: bool) -> bool:
        """Remove a member that died or left; return whether that is news."""
        if seat.name in self.gone:
            return False
        self.gone[seat.name] = left
        self._added = [other for other in self._added if other.name != seat.name]
        return True

    def __contains__(self, seat: Seat) -> bool:
        return seat.name not in self.gone and (_has(self._base, seat) or _has(self._added, seat))

    def __iter__(self) -> Iterator[Seat]:
        gone = self.gone
        yield from (seat for seat in self._base if seat.name not in gone)
        yield from self._added

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def near(self, me: Seat, each_side: int, without: Collection[Name] = ()) -> Seats:
        """Return the k nearest on each side, but for some; a walk of a few steps, however long the list."""
        found = [*self._walk(self._base, me, each_side, without), *self._walk(self._added, me, each_side, without)]
        return neighbours(me, set(found), each_side)

    def after(self, point: int, count: int) -> list[Seat]:
        """Return the next `count` seats in order, for a member that asks for the list piece by piece."""
        return sorted(seat for seat in self if seat.point > point)[:count]

    def _walk(self, seats: Sequence[Seat], me: Seat, each_side: int, without: Collection[Name]) -> list[Seat]:
        found: list[Seat] = []
        size, start = len(seats), bisect_left(seats, me)
        for step in (1, -1):
            at, taken = start if step == 1 else start - 1, 0
            for _ in range(size):
                other = seats[at % size]
                at += step
                if other.name not in self.gone and other.name not in without and other.name != me.name:
                    found.append(other)
                    taken += 1
                    if taken == each_side:
                        break
        return found


def _has(seats: Sequence[Seat], seat: Seat) -> bool:
    at = bisect_left(seats, seat)
    return at < len(seats) and seats[at].name == seat.name
