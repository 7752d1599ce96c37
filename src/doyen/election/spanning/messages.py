"""The messages, timers, facts and states of a spanning election.  [MADM §6.2.2]

Five messages are the chapter's: EIM spreads the election, ACK and AGM distinguish children from co-parents, MQFM
gathers the best, LDM declares it.  The request for a missing MQFM is the chapter's too; its answer "not yet" is ours,
and so is what neighbours ask each other when a node returns, a link comes up, a parent is lost, or at every pulse:
`Enquire`, answered by `State`.

Deviation [MADM §6.2.2]: every message carries the election's id, EIM its sender's depth, MQFM whether it goes up (a
  fast MQFM may overtake the ACK or AGM that would say so), LDM the winner's quality.  The sender is in the envelope.
"""

from enum import Enum
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from doyen.core.ids import TERM_NUMBER_MAX, Name, NodeId
from doyen.core.order import order
from doyen.core.rank import Finite

SEQUENCE_MAX: Final = TERM_NUMBER_MAX - 1
DEPTH_MAX: Final = 2**31

Hops: TypeAlias = Annotated[int, Meta(ge=0, le=DEPTH_MAX)]


class ElectionId(Struct, frozen=True, gc=False, array_like=True):
    """The name of one election: a higher sequence is newer; within one sequence the lowest initiator conducts."""

    sequence: Annotated[int, Meta(ge=0, le=SEQUENCE_MAX)]
    initiator: Name
    incarnation: Annotated[int, Meta(ge=0, le=2**63 - 1)] = (
        0  # The initiator's: alone after a restart, it may use a sequence again (decision 40).
    )

    def __str__(self) -> str:
        return f"{self.sequence}/{self.initiator}"


def newer(one: ElectionId | None, other: ElectionId | None) -> bool:
    """Return whether `one` takes precedence over `other`."""
    if one is None or other is None:
        return one is not None
    if one.sequence != other.sequence:
        return one.sequence > other.sequence
    if one.initiator != other.initiator:
        return order(one.initiator) < order(other.initiator)
    return one.incarnation > other.incarnation


class Candidate(Struct, frozen=True, gc=False, array_like=True):
    """A node that might lead.  The greatest quality is the best, among equals the lowest id, at every hop."""

    quality: Finite
    node: Name

    def beats(self, other: "Candidate") -> bool:
        if self.quality != other.quality:
            return self.quality > other.quality
        return order(self.node) < order(other.node)


# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


class OfElection(Struct, frozen=True, gc=False, array_like=True):
    """A message of one election."""

    election: ElectionId


class Eim(OfElection, frozen=True, tag="E"):
    """EIM, election-initiating message: the receiver is to join, with the sender as its parent if it has none."""

    depth: Hops  # The sender's, the initiator's being 0: the deeper a node, the shorter it waits for reports.


class Ack(OfElection, frozen=True, tag="A"):
    """ACK: the receiver is the sender's parent."""


class Agm(OfElection, frozen=True, tag="G"):
    """AGM: the sender has another parent already, so sender and receiver are co-parents."""


class Mqfm(OfElection, frozen=True, tag="M"):
    """MQFM, maximum quality factor: the best candidate that the sender knows of."""

    best: Candidate
    up: bool  # To the parent, with what co-parents reported; else to a co-parent, without.


class Ldm(OfElection, frozen=True, tag="L"):
    """LDM, leader declaration: the election is over."""

    leader: Candidate


class Request(OfElection, frozen=True, tag="R"):
    """The receiver's MQFM is overdue."""


class NotYet(OfElection, frozen=True, tag="N"):
    """The sender is still gathering; the receiver is to wait on."""


class Enquire(Struct, frozen=True, gc=False, array_like=True, tag="Q"):
    """Asks for the receiver's `State`, as the sender has returned, or has lost its parent in this election."""

    election: ElectionId | None  # None: the sender has returned, and knows nothing.


Progress = Literal["idle", "gathering", "reported", "returning"]


class State(Struct, frozen=True, gc=False, array_like=True, tag="S"):
    """Says what the sender knows: an answer, the first message on a new link, or a pulse."""

    election: ElectionId | None
    leader: Candidate | None
    progress: Progress
    anchored: bool  # The sender is gathering, and has a way up to the initiator.
    distance: Hops  # Hops to the leader, as the sender counts them.
    compare: bool  # A difference is to be settled at once, not only if it lasts.


class Reset(Struct, frozen=True, gc=False, array_like=True, tag="Z"):
    """Sequences are used up: the receiver is to forget everything, and to be deaf for `reset_wait`."""


Message: TypeAlias = Eim | Ack | Agm | Mqfm | Ldm | Request | NotYet | Enquire | State | Reset

# ── Timers ──────────────────────────────────────────────────────────────────────────────────────────────────


class ElectionTimer(Struct, frozen=True, gc=False):
    """A timer of one election."""

    election: ElectionId


class AnswerWaitEnds(ElectionTimer, frozen=True):
    """Neighbours that have not answered the EIM are given up for this election."""

    round_no: int


class ReportsAreRequested(ElectionTimer, frozen=True):
    """Children that have not reported are asked."""

    wait_no: int


class RequestWaitEnds(ElectionTimer, frozen=True):
    """Children that have not answered the request are given up."""

    wait_no: int


class CoParentWaitEnds(ElectionTimer, frozen=True):
    """Co-parents are waited for no longer."""


class ElectionRepeats(ElectionTimer, frozen=True):
    """The node initiates another election, as this one was not declared in time."""


class ChildrenAreAsked(ElectionTimer, frozen=True):
    """The node asks its own children for a parent, as no other neighbour offered to be one."""

    seek_no: int


class EnquiryEnds(Struct, frozen=True, gc=False):
    """A node that returns decides without the neighbours that have not answered."""


class ResetEnds(Struct, frozen=True, gc=False):
    """The node hears again; the second time it initiates, if nobody else did."""

    initiate: bool  # This is the second time.


class PulseBegins(Struct, frozen=True, gc=False):
    """The node repairs its memory, and sends its state to every neighbour."""


Timer: TypeAlias = (
    AnswerWaitEnds
    | ReportsAreRequested
    | RequestWaitEnds
    | CoParentWaitEnds
    | ElectionRepeats
    | ChildrenAreAsked
    | EnquiryEnds
    | ResetEnds
    | PulseBegins
)

# ── Facts ───────────────────────────────────────────────────────────────────────────────────────────────────


class LeaderUnreachable(Struct, frozen=True):
    """A failure detector reports that the leader has failed, or is in another region."""

    leader: NodeId | None  # None: there has never been one.


# ── States ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Phase(Enum):
    """The phase of a node in an election."""

    IDLE = "idle"  # In none that it knows of; a leader is named, unless there never was one.
    GATHERING = "gathering"
    AWAITING = "awaiting"  # It has reported, or returned too late to report.
    RETURNING = "returning"  # It asks its neighbours what it has missed.
    RESETTING = "resetting"  # Sequences are used up: it is deaf.


class Status(Enum):
    """The states of a node outside of an election.  [MADM Def. 4]"""

    NULL = "null"
    LEADER = "leader"
    NON_LEADER = "non-leader"
