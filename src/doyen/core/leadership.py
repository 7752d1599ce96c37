"""The two facts every election tells: somebody leads, somebody no longer does.  Both name the term."""

from msgspec import Struct

from doyen.core.effects import UrgentFact
from doyen.core.ids import Term


class LeaderElected(Struct, frozen=True, gc=False):
    """This node now names `term.leader`, possibly itself; a leader named before is replaced by it."""

    term: Term


class LeaderLost(UrgentFact, frozen=True, gc=False):
    """The reign is over as far as this node can tell, and it may be this node's own."""

    term: Term
    reason: str  # One of a few words: "silent", "gone", "left", "outranked", "resigned".
