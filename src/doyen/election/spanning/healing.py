"""Where neighbours are: asked after losses, compared when links come up, settled by an election if they differ."""

from typing import TYPE_CHECKING, Any

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.core.order import order
from doyen.election.spanning import orphan, returning
from doyen.election.spanning.messages import (
    DEPTH_MAX,
    ElectionId,
    Enquire,
    Ldm,
    State,
    newer,
)
from doyen.election.spanning.phase import Phase, Status
from doyen.election.spanning.watch import View, view_of

if TYPE_CHECKING:
    from doyen.election.spanning.machine import Spanning


def state_of(node: "Spanning", *, compare: bool = False) -> State:
    g = node.gathering
    if node.phase is Phase.RETURNING:
        return State(None, None, "returning", False, 0, compare)
    progress: Any = "idle" if g is None else "gathering" if node.phase is Phase.GATHERING else "reported"
    anchored = g is not None and (g.parent is not None or g.election.initiator == node.me)
    distance = 0 if node.status is Status.LEADER else min(max(node.watch.distance, 0), DEPTH_MAX)
    return State(node.election, node.leader, progress, anchored, distance, compare)


def on_enquire(node: "Spanning", sender: NodeId, message: Enquire, now: Instant) -> None:
    g = node.gathering
    orphaned = g is not None and g.parent == sender and message.election in (None, g.election)
    if g is not None and message.election == g.election:
        if orphaned or g.seeking:
            g.enquirers.add(sender)  # It hears from me when I have a way up.
            g.children.discard(sender)
    elif g is not None and message.election is None:
        g.drop(sender)  # It has returned: whatever it was to node, it is no longer.
    if not orphaned or message.election is None:
        node.out.send(sender, state_of(node))
    if g is not None and orphaned:
        orphan.seek_parent(node, g, now)
    if g is not None:
        node.evaluate(now)


def on_state(node: "Spanning", sender: NodeId, state: State, now: Instant) -> None:
    node.watch.hear(sender, state, now)
    if state.election is not None:
        node.saw(state.election.sequence)
    g = node.gathering
    if node.phase is Phase.RETURNING:
        node.answers[sender] = state
        if all(node.answers.values()):
            returning.finish_return(node, now)
    elif state.progress == "returning":
        pass
    elif g is not None and state.election == g.election:
        if g.seeking:
            orphan.consider(node, g, sender, state, now)
    elif state.election == node.election and (
        state.progress != "idle" or view(node) == view_of(state.election, state.leader)
    ):
        node.watch.agrees(sender)
        if state.progress != "idle" and node.leader is not None and node.election is not None:
            node.out.send(sender, Ldm(node.election, node.leader))  # It has missed the declaration.
    else:
        if g is not None and sender in g.children:
            g.drop(sender)
            node.evaluate(now)
        patience = node.answer_wait
        if will_hear(node, sender, state.election, now):
            pass
        elif state.compare or node.watch.lasts(
            sender, view(node), view_of(state.election, state.leader), now, patience
        ):
            if order(node.me) < order(sender):
                node.begin(now)
            elif state.compare and newer(state.election, node.election):
                settle(node, sender, now)  # It may not know where I am.


def view(node: "Spanning") -> View:
    return view_of(node.election, node.leader)


def will_hear(node: "Spanning", peer: NodeId, election: ElectionId | None, now: Instant) -> bool:
    """Whether it is behind only because my word of a newer election is still under way."""
    told_at = node.joined_at
    fresh = now - told_at <= node.answer_wait and node.gained_at.get(peer, told_at) <= told_at
    return fresh and newer(node.election, election)


def on_older(node: "Spanning", peer: NodeId, election: ElectionId, now: Instant) -> None:
    """It does not know of my election, and would elect without us; unless they were initiated at the same time."""
    assert node.election is not None
    together = node.gathering is not None and election.sequence == node.election.sequence
    if not together and not will_hear(node, peer, election, now):
        node.patience.give_up(peer, node.election)
        settle(node, peer, now)


def settle(node: "Spanning", peer: NodeId, now: Instant) -> None:
    """We differ: the lower id initiates."""
    if order(node.me) < order(peer):
        node.begin(now)
    else:
        node.out.send(peer, state_of(node, compare=True))
