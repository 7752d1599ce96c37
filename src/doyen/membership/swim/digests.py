"""Keeps sums over a group: one number shows whether two members know the same, and branches show where they differ.

The place of a member is a hash of its name; branches are its leading bits, four at a time.  The sum of a branch is the
exclusive or over the members *present* under it, name and incarnation, so that a change costs one step per level, and
equal views have equal sums whatever their history.  A suspicion makes no difference, as it passes by itself; nor do
dead members, as a node that has forgotten them is not behind.
"""

from bisect import bisect_left, insort
from functools import lru_cache
from typing import Final

from doyen.core.hashes import blake2b
from doyen.core.ids import NodeId

ROOT: Final = 1  # A branch is a 1 followed by its bits.
BITS: Final = 4
DEPTH_MAX: Final = 3  # 4,096 branches at the end: one datagram for each, in groups of up to 100,000.
_MASK: Final = 2**64 - 1


@lru_cache(maxsize=1 << 16)
def place(node: NodeId) -> int:
    """Return the place of a member: the same on every machine and in every version."""
    return int.from_bytes(blake2b(node.encode(), digest_size=8).digest(), "big")


@lru_cache(maxsize=1 << 13)
def branches(node: NodeId) -> tuple[int, ...]:
    """Return the branches that a member is under, the root first."""
    at = place(node)
    return tuple((1 << (BITS * depth)) | (at >> (64 - BITS * depth)) for depth in range(DEPTH_MAX + 1))


@lru_cache(maxsize=1 << 13)
def fingerprint(node: NodeId, incarnation: int) -> int:
    """Return splitmix64 of place and incarnation."""
    z = (place(node) + (incarnation + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def depth_of(branch: int) -> int:
    return (branch.bit_length() - 1) // BITS


def is_branch(branch: int) -> bool:
    """Return whether a number from a message names a branch."""
    return branch >= 1 and (branch.bit_length() - 1) % BITS == 0 and depth_of(branch) <= DEPTH_MAX


class Digests:
    """The present members of one view, in the order of their places."""

    __slots__ = ("_changed", "_sums", "ordered")

    def __init__(self) -> None:
        self.ordered: list[tuple[int, NodeId]] = []
        self._sums: dict[int, int] = {}
        self._changed: dict[NodeId, list[int]] = {}  # Incarnations: as the sums have it, and as it is.

    def copy(self) -> "Digests":
        other = Digests()
        self._sum_up()
        other.ordered, other._sums = self.ordered.copy(), self._sums.copy()
        return other

    def add(self, node: NodeId, incarnation: int) -> None:
        insort(self.ordered, (place(node), node))
        self._toggle(node, fingerprint(node, incarnation))

    def remove(self, node: NodeId, incarnation: int) -> None:
        at = bisect_left(self.ordered, (place(node), node))
        assert self.ordered[at][1] == node
        del self.ordered[at]
        self._sum_up()
        self._toggle(node, fingerprint(node, incarnation))

    def change(self, node: NodeId, before: int, after: int) -> None:
        """Note another incarnation; sums are asked for more seldom than members change."""
        changed = self._changed.get(node)
        if changed is None:
            self._changed[node] = [before, after]
        else:
            changed[1] = after

    def sum(self, branch: int) -> int:
        self._sum_up()
        return self._sums.get(branch, 0)

    def children(self, branch: int) -> list[tuple[int, int]]:
        self._sum_up()
        first = branch << BITS
        return [(child, self._sums.get(child, 0)) for child in range(first, first + (1 << BITS))]

    def count(self, branch: int) -> int:
        low, high = self._range(branch)
        return high - low

    def under(self, branch: int) -> list[NodeId]:
        low, high = self._range(branch)
        return [node for _, node in self.ordered[low:high]]

    def _range(self, branch: int) -> tuple[int, int]:
        depth = depth_of(branch)
        shift = 64 - BITS * depth
        bits = branch ^ (1 << (BITS * depth))
        low = bisect_left(self.ordered, (bits << shift, ""))
        high = bisect_left(self.ordered, ((bits + 1) << shift, "")) if depth else len(self.ordered)
        return low, high

    def _sum_up(self) -> None:
        for node, (before, after) in self._changed.items():
            self._toggle(node, fingerprint(node, before) ^ fingerprint(node, after))
        self._changed.clear()

    def _toggle(self, node: NodeId, bits: int) -> None:
        sums = self._sums
        for branch in branches(node):
            left = sums.get(branch, 0) ^ bits
            if left:
                sums[branch] = left
            else:
                sums.pop(branch, None)
