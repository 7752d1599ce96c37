"""The facts that elections tell: somebody leads, somebody no longer does, and a leader ought to hand over.

A quorum's election also tells of its baton, of its voters, and of its heir.
"""

from typing import Final

from msgspec import Struct

from doyen.core.effects import UrgentFact
from doyen.core.ids import NodeId, Term

BATON_MAX: Final = 512  # Bytes that a leader can hand to the next.


class LeaderElected(Struct, frozen=True, gc=False):
    """This node now names `term.leader`, possibly itself; a leader named before is replaced by it."""

    term: Term


class LeaderLost(UrgentFact, frozen=True, gc=False):
    """The reign is over as far as this node can tell, and it may be this node's own."""

    term: Term
    reason: str  # One of a few words ("silent", "gone", "left", "outranked", "resigned"), or why it handed over.


class HandOverDue(Struct, frozen=True):
    """This node leads, and ought to hand over.  Once whatever acts on its leadership has stopped, the world answers
    with `Resign`; as long as it does not, the fact is repeated."""

    to: NodeId
    because: str


class HeirNamed(Struct, frozen=True):
    """This member would be the next leader, as the present one says."""

    heir: NodeId


class BatonPassed(Struct, frozen=True):
    """The commands (`PassOn`) of these numbers are done: a majority has on its disks what was handed on last."""

    numbers: tuple[int, ...]


class VotersChanged(Struct, frozen=True):
    """The node counts these voters from now on; while they change, it counts the earlier ones, too."""

    number: int  # Grows by one with each step.
    voters: tuple[NodeId, ...]
    earlier: tuple[NodeId, ...] = ()


class Electors(Struct, frozen=True):
    """The voters that count, as a node knows them; while they change, those that counted before do, too."""

    number: int  # Of this set of voters; 0: as configured.
    voters: tuple[NodeId, ...]
    earlier: tuple[NodeId, ...]
    answering: tuple[NodeId, ...] | None  # Those that have answered the leader lately; None: this node does not lead.
    abstains: bool = False  # This node is one of them, and has no vote: it has no record of earlier ones.

    @property
    def may_fail(self) -> int | None:
        """Return how many of those that answer may fail, and a majority is left; below 0: there is none."""
        if self.answering is None:
            return None
        sides = [side for side in (self.voters, self.earlier) if side]
        return min(len({*side} & {*self.answering}) - len(side) // 2 - 1 for side in sides)


class ChangeEnded(Struct, frozen=True):
    """The command (`ChangeVoters`) of this number is done, or has changed nothing."""

    number: int
    refused: str = ""  # Why nothing has changed.
