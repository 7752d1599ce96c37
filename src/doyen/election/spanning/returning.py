"""Asks the neighbours of a node that returns, and decides what it makes of their answers.  [MADM §6.2.2]"""

from collections.abc import Container, Iterable, Mapping

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


class Enquiry:
    """The question of a returning node to its neighbours, and their answers."""

    def __init__(self) -> None:
        self.answers: dict[NodeId, State | None] = {}  # By neighbour; None: not yet.

    def begin(self, peers: Iterable[NodeId]) -> None:
        self.answers = dict.fromkeys(peers)

    def ask(self, peer: NodeId) -> None:
        """Wait for the answer of one more."""
        self.answers.setdefault(peer, None)

    def drop(self, peer: NodeId) -> bool:
        """Forget a neighbour that is gone; return whether there are others, and all have answered."""
        self.answers.pop(peer, None)
        return bool(self.answers) and self._is_complete()

    def hear(self, peer: NodeId, state: State) -> bool:
        """Note an answer; return whether all have answered."""
        self.answers[peer] = state
        return self._is_complete()

    def end(self, me: NodeId, links: Container[NodeId]) -> Verdict | None:
        """Forget the answers; return what they come to."""
        answers, self.answers = self.answers, {}
        return verdict(me, links, answers)

    def _is_complete(self) -> bool:
        return all(self.answers.values())


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
