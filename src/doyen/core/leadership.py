"""The facts that elections tell: somebody leads, somebody no longer does, and a leader ought to hand over."""

from msgspec import Struct

from doyen.core.effects import UrgentFact
from doyen.core.ids import NodeId, Term


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
