"""A parent is lost: another is sought among the neighbours, one's own children last."""

from typing import TYPE_CHECKING

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.core.order import order
from doyen.election.spanning import healing
from doyen.election.spanning.gathering import Gathering
from doyen.election.spanning.messages import Ack, Enquire, ParentOverdue, State
from doyen.election.spanning.phase import Phase

if TYPE_CHECKING:
    from doyen.election.spanning.machine import Spanning


def seek_parent(node: "Spanning", g: Gathering, now: Instant) -> None:
    g.parent, g.reported = None, None
    if not g.took_part:
        return
    node.phase = Phase.GATHERING
    g.seek_no += 1
    g.sought = {peer for peer in node.links if peer not in g.children and peer not in g.enquirers}
    for peer in sorted(g.sought, key=order):
        node.say(peer, Enquire(g.election))
    if g.sought:
        node.out.set_timer(ParentOverdue(g.election, g.seek_no), now + node.config.answer_wait)
    else:
        ask_children(node, g)


def ask_children(node: "Spanning", g: Gathering) -> None:
    """They lose their parent by being asked; the one that finds another becomes mine."""
    children, g.children = g.children, set()
    g.sought = children
    for peer in sorted(children, key=order):
        node.say(peer, Enquire(g.election))


def consider(node: "Spanning", g: Gathering, sender: NodeId, state: State, now: Instant) -> None:
    """Whether this neighbour can be my parent."""
    assert g.sought is not None
    if state.election == g.election and state.progress == "gathering" and state.anchored:
        g.drop(sender)
        g.parent, g.sought = sender, None
        node.out.send(sender, Ack(g.election))
        for peer in sorted(g.enquirers, key=order):
            node.say(peer, healing.state_of(node))
        if g.enquirers:  # They will be my children, unless they found a better way.
            g.pending |= g.enquirers
            node.await_answers(g, now)
            g.enquirers = set()
        node.evaluate(now)
    elif sender in g.sought:
        g.sought.discard(sender)
        if not g.sought and g.children:
            ask_children(node, g)
