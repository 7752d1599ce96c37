"""The voters and their majorities: one set of voters, or two while voters are being replaced."""

from collections.abc import Collection, Mapping

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.core.ids import NodeId


class Electorate(Struct, frozen=True):
    """One numbered set of voters.  During a change a majority of the earlier voters is needed as well."""

    number: int
    voters: frozenset[NodeId]
    earlier: frozenset[NodeId] = frozenset()  # Empty unless a change is under way.

    @property
    def names(self) -> frozenset[NodeId]:
        """Return everybody whose vote counts."""
        return self.voters | self.earlier

    @property
    def _sides(self) -> tuple[frozenset[NodeId], ...]:
        return (self.voters, self.earlier) if self.earlier else (self.voters,)

    def is_majority(self, nodes: Collection[NodeId]) -> bool:
        return all(2 * len(side.intersection(nodes)) > len(side) for side in self._sides)

    def reached(self, instants: Mapping[NodeId, Instant]) -> Instant | None:
        """Return the latest instant that a majority has reached; None if no majority has one."""
        latest = _reached(self.voters, instants)
        if latest is None or not self.earlier:
            return latest
        also = _reached(self.earlier, instants)
        return None if also is None else min(latest, also)


def _reached(side: frozenset[NodeId], instants: Mapping[NodeId, Instant]) -> Instant | None:
    own = [instants[node] for node in side if node in instants]
    own.sort(reverse=True)
    return own[len(side) // 2] if 2 * len(own) > len(side) else None
