"""Any state at all: what memory may hold, and what may be under way, when a spanning election is to stabilise.  [MADM]

Every field of a machine is drawn anew, whether it makes sense or not: leaders that never existed, elections of
initiators that are lower than anybody, sequences at their limit, parents in circles.  No timer is set.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.election.spanning.gathering import Gathering
from doyen.election.spanning.links import view_of
from doyen.election.spanning.machine import Spanning
from doyen.election.spanning.messages import (
    SEQUENCE_MAX,
    Ack,
    Agm,
    Candidate,
    Eim,
    ElectionId,
    Ldm,
    Message,
    Mqfm,
    Phase,
    State,
)

FAR: Final = 10**18
GHOSTS: Final = (NodeId("-1"), NodeId("ghost"))


def corrupt(machine: Spanning, nodes: Sequence[NodeId], rng: Random, *, now: Instant = 0, far: bool = False) -> None:
    """Draw all that a machine remembers, and have it send whatever it may have sent.

    `far`: also what it remembers of its neighbours, and instants and distances beyond all reason.
    """
    names, longest = (*nodes, *GHOSTS), machine.config.declaration_wait
    machine.phase = rng.choice(list(Phase))
    machine.election = _election(rng, names) if rng.random() < 0.9 else None
    machine.leader = _candidate(rng, names) if rng.random() < 0.6 else None
    machine.sequence.highest = rng.choice([-1, 0, 7, rng.randrange(SEQUENCE_MAX), SEQUENCE_MAX, 2 * SEQUENCE_MAX])
    machine.links.distance = rng.randrange(-1, machine.config.diameter_max)
    machine.patience.strain = rng.randrange(-2, 40)
    machine.links.notified_at = now + rng.randrange(-longest, 2 * longest)
    machine.deadline_at = now + rng.randrange(-longest, 2 * longest)
    machine.enquiry.answers = {peer: None for peer in machine.links.peers if rng.random() < 0.5}
    machine.gathering = _gathering(rng, names, machine) if rng.random() < 0.6 else None
    for peer in machine.links.peers:
        for _ in range(rng.randrange(3)):
            machine.out.send(peer, _message(rng, names))
    if far:
        _corrupt_far(machine, rng, names)


def _corrupt_far(machine: Spanning, rng: Random, names: tuple[NodeId, ...]) -> None:
    """Draw what others seem to have said: perhaps just what this node believes, long ago or in the far future."""
    if rng.random() < 0.5:
        machine.links.distance = -FAR
    if rng.random() < 0.5:
        machine.links.notified_at = FAR
    machine.links.unnotified = {peer for peer in machine.links.peers if rng.random() < 0.2}
    for node in names:
        at = rng.choice([-1, 0, FAR])
        if rng.random() < 0.3:
            machine.links.hear(
                node, State(machine.election, machine.leader, "idle", False, rng.randrange(3), False), at
            )
        if rng.random() < 0.3:
            mine, theirs = view_of(machine.election, machine.leader), view_of(_election(rng, names), None)
            machine.links.differs(node, mine, theirs, at, 0)


def _election(rng: Random, names: tuple[NodeId, ...]) -> ElectionId:
    sequence = rng.choice([0, 1, 2, 7, rng.randrange(SEQUENCE_MAX), SEQUENCE_MAX - 1, SEQUENCE_MAX])
    return ElectionId(sequence, rng.choice(names))


def _candidate(rng: Random, names: tuple[NodeId, ...]) -> Candidate:
    return Candidate(rng.choice([0.0, 0.5, 2.0, 1e300]), rng.choice(names))


def _gathering(rng: Random, names: tuple[NodeId, ...], machine: Spanning) -> Gathering:
    election = machine.election
    chosen = election if election is not None and rng.random() < 0.8 else _election(rng, names)
    parent = rng.choice(names) if rng.random() < 0.8 else None
    g = Gathering(
        chosen,
        _candidate(rng, names),
        parent,
        rng.randrange(9),
        machine.config,
        machine.links,
        machine.patience,
        machine.out,
        took_part=rng.random() < 0.8,
    )
    for some in (g.pending, g.children, g.co_parents, g.asked, g.enquirers):
        some.update(name for name in names if rng.random() < 0.2)
    g.sought = {rng.choice(names)} if rng.random() < 0.2 else None
    g.reports = {name: _candidate(rng, names) for name in names if rng.random() < 0.2}
    g.co_parent_reports = {name: _candidate(rng, names) for name in names if rng.random() < 0.2}
    g.co_parents_notified, g.co_parents_overdue = rng.random() < 0.5, rng.random() < 0.5
    g.reported = _candidate(rng, names) if rng.random() < 0.3 else None
    return g


def _message(rng: Random, names: tuple[NodeId, ...]) -> Message:
    election, candidate = _election(rng, names), _candidate(rng, names)
    found: list[Message] = [
        Eim(election, rng.randrange(9)),
        Ack(election),
        Agm(election),
        Mqfm(election, candidate, rng.random() < 0.5),
        Ldm(election, candidate),
        State(election, candidate, "idle", False, rng.randrange(9), rng.random() < 0.5),
    ]
    return rng.choice(found)
