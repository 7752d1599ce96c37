"""A node returns: it asks its neighbours what it has missed, and joins, waits, adopts or initiates.  [MADM §6.2.2]"""

from typing import TYPE_CHECKING

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.core.order import order
from doyen.election.spanning import healing
from doyen.election.spanning.gathering import Gathering
from doyen.election.spanning.messages import Ack, ElectionId, Enquire, ReturnOverdue, State, newer
from doyen.election.spanning.phase import Phase

if TYPE_CHECKING:
    from doyen.election.spanning.machine import Spanning


def become_returning(node: "Spanning", now: Instant) -> None:
    node.phase = Phase.RETURNING
    node.answers = dict.fromkeys(node.links)
    for peer in node.links:
        node.out.send(peer, Enquire(None))
    await_return(node, now + (node.config.answer_wait if node.links else node.config.link_wait))
    if not node.links and not node.config.link_wait:
        node.begin(now)


def await_return(node: "Spanning", until: Instant) -> None:
    """It does not move back."""
    node.deadline_at = max(node.deadline_at, until)
    node.out.set_timer(ReturnOverdue(), node.deadline_at)


def greet(node: "Spanning", peer: NodeId, now: Instant) -> None:
    """A link comes up while I ask."""
    node.answers.setdefault(peer, None)
    node.out.send(peer, Enquire(None))
    await_return(node, now + node.config.answer_wait)


def finish_return(node: "Spanning", now: Instant) -> None:
    """[MADM §6.2.2] All have answered, or never will."""
    answers = {peer: state for peer, state in node.answers.items() if state and state.election}
    node.answers = {}
    top: ElectionId | None = None
    for state in answers.values():
        top = state.election if newer(state.election, top) else top
    there = {peer: state for peer, state in answers.items() if state.election == top}
    named = [state.leader for state in there.values() if state.progress == "idle" and state.leader]
    if top is None or (named and named[0].node == node.me):
        node.begin(now)  # Nobody knows of any; or I led until I fell, and nobody has noticed.
        return
    apart = [peer for peer, state in answers.items() if state.election != top and peer in node.links]
    if any(order(node.me) < order(peer) for peer in apart):
        node.begin(now)
        return
    if named:
        node.become_settled(top, named[0], now)  # A better one than it does not start an election.
    else:
        rejoin(node, top, there, now)
    for peer in apart:
        healing.settle(node, peer, now)


def rejoin(node: "Spanning", election: ElectionId, there: dict[NodeId, State], now: Instant) -> None:
    """Into an election under way: as the child of one that has not reported, or as an onlooker."""
    open_to_me = [peer for peer, state in there.items() if state.progress == "gathering" and state.anchored]
    parent = min(open_to_me, key=order, default=None)
    node.election, node.phase = election, Phase.GATHERING if parent else Phase.AWAITING
    node.gathering = g = Gathering(
        election,
        node.candidate(),
        parent,
        node.config.diameter_max,
        took_part=parent is not None,
    )
    if parent is not None:
        node.out.send(parent, Ack(election))
    node.await_declaration(g, now)
    node.evaluate(now)
