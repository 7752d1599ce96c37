"""What makes the election stabilise from any state: a pulse that compares, repairs and counts, and a reset."""

from typing import TYPE_CHECKING

from doyen.core.clock import Instant
from doyen.core.order import order
from doyen.election.spanning import healing, returning
from doyen.election.spanning.messages import (
    PulseDue,
    Reset,
    ResetOver,
)
from doyen.election.spanning.phase import Phase, Status

if TYPE_CHECKING:
    from doyen.election.spanning.machine import Spanning


def pulse(node: "Spanning", now: Instant) -> None:
    config = node.config
    node.out.set_timer(PulseDue(), now + config.pulse_interval)
    repair(node, now)
    if node.phase is Phase.IDLE:
        heard_since = now - 3 * config.pulse_interval
        if node.leader is None:
            if not now < node.deadline_at <= now + config.reset_wait:  # Else not everybody hears yet.
                node.begin(now)
        elif (
            node.status is not Status.LEADER
            and node.watch.count(healing.view(node), heard_since, now) > config.diameter_max
        ):
            node.begin(now)  # Nobody is that far away: it is a ghost.
    if node.phase is not Phase.RESETTING:
        state = healing.state_of(node)
        for peer in node.links:
            node.out.send(peer, state)


def repair(node: "Spanning", now: Instant) -> None:
    """Whatever memory holds, from here on it makes sense; what waits in vain is given up."""
    node.links = sorted(set(node.links) - {node.me}, key=order)
    node.watch.keep(node.links)
    node.patience.repair(now)
    node.joined_at = min(node.joined_at, now)
    node.gained_at = {peer: min(at, now) for peer, at in node.gained_at.items() if peer in node.links}
    node.saw(0)
    late = not now <= node.deadline_at <= now + node.config.declaration_wait
    if node.election is not None:
        node.saw(node.election.sequence)
    g = node.gathering
    if node.electing != (g is not None) or (g is not None and g.election != node.election):
        node.gathering = g = None
        if node.phase is not Phase.RETURNING and node.phase is not Phase.RESETTING:
            node.phase = Phase.IDLE
    if node.leader is not None and node.election is None:
        node.leader = None
    if g is not None and node.leader is not None:
        node.forget_leader("election")
    if g is not None:
        for peer in (g.pending | g.children | g.co_parents) - set(node.links):
            g.drop(peer)
        if late:
            node.begin(now)
    elif late and node.phase is Phase.RETURNING:
        returning.finish_return(node, now)
    elif late and node.phase is Phase.RESETTING:
        on_reset_over(node, ResetOver(False), now)


# Sequences are used up.


def become_resetting(node: "Spanning", now: Instant) -> None:
    """Everybody forgets, and is deaf until everybody has forgotten and nothing old is under way."""
    node.forget_leader("election")
    for peer in node.links:
        node.out.send(peer, Reset())
    node.phase, node.election, node.gathering = Phase.RESETTING, None, None
    node.saw(0, forget=True)
    node.deadline_at = now + node.config.reset_wait
    node.out.set_timer(ResetOver(False), node.deadline_at)


def on_reset_over(node: "Spanning", timer: ResetOver, now: Instant) -> None:
    if node.phase is Phase.RESETTING:
        node.phase = Phase.IDLE
        node.deadline_at = now + (node.config.diameter_max + 1) * node.config.hop_delay  # By then everybody hears.
        node.out.set_timer(ResetOver(True), node.deadline_at)
    elif timer.initiate and node.phase is Phase.IDLE and node.election is None:
        node.begin(now)
