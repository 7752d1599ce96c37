"""Decides what a node that returns makes of its neighbours' answers.  [MADM §6.2.2]"""

from collections.abc import Container, Mapping

from msgspec import Struct

from doyen.core.ids import NodeId
from doyen.core.order import order
from doyen.election.spanning.messages import Candidate, ElectionId, State, newer


class Verdict(Struct, frozen=True):
    """The newest election that the neighbours know, and the place that the node takes in it."""

    election: ElectionId
    leader: Candidate | None  # Declared already: the node adopts it, even if it is worse than the node itself.
    parent: NodeId | None  # Else: a neighbour that has yet to report; None: all have, and the node looks on.
    apart: list[NodeId]  # Neighbours that know only an older election.


def verdict(me: NodeId, links: Container[NodeId], answers: Mapping[NodeId, State | None]) -> Verdict | None:
    """Decide where the node belongs, by the answers that have come; None: it initiates an election."""
    known = {peer: state for peer, state in answers.items() if state and state.election}
    top: ElectionId | None = None
    for state in known.values():
        top = state.election if newer(state.election, top) else top
    there = {peer: state for peer, state in known.items() if state.election == top}
    named = [state.leader for state in there.values() if state.progress == "idle" and state.leader]
    if top is None or (named and named[0].node == me):
        return None  # Nobody knows of any; or this node led until it failed, and nobody has noticed.
    apart = [peer for peer, state in known.items() if state.election != top and peer in links]
    if any(order(me) < order(peer) for peer in apart):
        return None
    open_to_me = [peer for peer, state in there.items() if state.progress == "gathering" and state.anchored]
    return Verdict(top, named[0] if named else None, min(open_to_me, key=order, default=None), apart)
