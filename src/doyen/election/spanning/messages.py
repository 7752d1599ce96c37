"""What a spanning election says, and what it waits for.  [MADM §6.2.2]

The chapter's five messages: EIM spreads the election, ACK and AGM tell children from co-parents, MQFM gathers the
best, LDM declares it.  Its request for a missing MQFM; ours, "not yet".  And what neighbours ask each other when a
node returns, a link comes up, a parent is lost, or simply every pulse: `Enquire`, answered by `State`.

Deviation [MADM §6.2.2]: every message carries the election's id, EIM its sender's depth, MQFM whether it goes up (a
  fast MQFM may overtake the ACK or AGM that would tell), LDM the winner's quality.  The sender is in the envelope.
"""

from enum import Enum
from math import isfinite
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from doyen.core.ids import NAME_MAX, TERM_NUMBER_MAX, NodeId
from doyen.core.order import order

SEQUENCE_MAX: Final = TERM_NUMBER_MAX - 1
DEPTH_MAX: Final = 2**31


class ElectionId(Struct, frozen=True, gc=False, array_like=True):
    """One election: a higher sequence is newer; within one sequence the lowest initiator conducts."""

    sequence: int
    initiator: NodeId
    life: int = 0  # The initiator's incarnation: alone after a restart, it may use a sequence again.

    def __post_init__(self) -> None:
        if not (0 <= self.sequence <= SEQUENCE_MAX and 0 < len(self.initiator) <= NAME_MAX and 0 <= self.life < 2**63):
            raise ValueError(f"election ({self.sequence}, {self.initiator[:NAME_MAX]}) is out of range")

    def __str__(self) -> str:
        return f"{self.sequence}/{self.initiator}"


def newer(one: ElectionId | None, other: ElectionId | None) -> bool:
    """Whether `one` takes precedence over `other`."""
    if one is None or other is None:
        return one is not None
    if one.sequence != other.sequence:
        return one.sequence > other.sequence
    if one.initiator != other.initiator:
        return order(one.initiator) < order(other.initiator)
    return one.life > other.life


class Candidate(Struct, frozen=True, gc=False, array_like=True):
    """Who might lead: the greatest quality, among equals the lowest id, compared so at every hop."""

    quality: float
    node: NodeId

    def __post_init__(self) -> None:
        if not isfinite(self.quality) or not 0 < len(self.node) <= NAME_MAX:
            raise ValueError(f"candidate {self.node[:NAME_MAX]!r} of quality {self.quality} is out of range")

    def beats(self, other: "Candidate") -> bool:
        if self.quality != other.quality:
            return self.quality > other.quality
        return order(self.node) < order(other.node)


# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


class Eim(Struct, frozen=True, gc=False, array_like=True, tag="E"):
    """Election-initiating: join, I may be your parent."""

    election: ElectionId
    depth: int  # The sender's, the initiator's being 0: how long it is worth waiting below it.

    def __post_init__(self) -> None:
        if not 0 <= self.depth <= DEPTH_MAX:
            raise ValueError(f"depth {self.depth} is out of range")


class Ack(Struct, frozen=True, gc=False, array_like=True, tag="A"):
    """You are my parent."""

    election: ElectionId


class Agm(Struct, frozen=True, gc=False, array_like=True, tag="G"):
    """I have a parent already: we are co-parents."""

    election: ElectionId


class Mqfm(Struct, frozen=True, gc=False, array_like=True, tag="M"):
    """Maximum quality factor: the best I know of."""

    election: ElectionId
    best: Candidate
    up: bool  # To my parent, with what co-parents said; else to a co-parent, without.


class Ldm(Struct, frozen=True, gc=False, array_like=True, tag="L"):
    """Leader declaration."""

    election: ElectionId
    leader: Candidate


class Request(Struct, frozen=True, gc=False, array_like=True, tag="R"):
    """Your MQFM is overdue."""

    election: ElectionId


class NotYet(Struct, frozen=True, gc=False, array_like=True, tag="N"):
    """I am still gathering: wait on."""

    election: ElectionId


class Enquire(Struct, frozen=True, gc=False, array_like=True, tag="Q"):
    """Where are you?  From a node that has returned, or that has lost its parent in this election."""

    election: ElectionId | None  # None: it has returned, and knows nothing.


Progress = Literal["idle", "gathering", "reported", "returning"]


class State(Struct, frozen=True, gc=False, array_like=True, tag="S"):
    """Where I am: an answer, the first word on a new link, or a pulse."""

    election: ElectionId | None
    leader: Candidate | None
    progress: Progress
    anchored: bool  # Gathering, and with a way up to the initiator.
    distance: int  # Hops to the leader, as far as I can tell.
    compare: bool  # A difference is to be settled at once, not only if it lasts.

    def __post_init__(self) -> None:
        if not 0 <= self.distance <= DEPTH_MAX:
            raise ValueError(f"distance {self.distance} is out of range")


class Reset(Struct, frozen=True, gc=False, array_like=True, tag="Z"):
    """Sequences are used up: forget everything, and be deaf for a while."""


Message: TypeAlias = Eim | Ack | Agm | Mqfm | Ldm | Request | NotYet | Enquire | State | Reset

# ── Timers ──────────────────────────────────────────────────────────────────────────────────────────────────


class AnswersOverdue(Struct, frozen=True, gc=False):
    """Whoever has not answered my EIM is no longer my neighbour, as far as this election goes."""

    election: ElectionId
    round_no: int


class ReportsOverdue(Struct, frozen=True, gc=False):
    election: ElectionId
    wait_no: int


class RequestsOverdue(Struct, frozen=True, gc=False):
    election: ElectionId
    wait_no: int


class CoParentsOverdue(Struct, frozen=True, gc=False):
    election: ElectionId


class DeclarationOverdue(Struct, frozen=True, gc=False):
    election: ElectionId


class ParentOverdue(Struct, frozen=True, gc=False):
    """Nobody offered to be my parent."""

    election: ElectionId
    seek_no: int


class ReturnOverdue(Struct, frozen=True, gc=False):
    """Those who have not told me where they are never will."""


class ResetOver(Struct, frozen=True, gc=False):
    """Deaf no longer; then, if nobody else did, I initiate."""

    initiate: bool


class PulseDue(Struct, frozen=True, gc=False): ...


Timer: TypeAlias = (
    AnswersOverdue
    | ReportsOverdue
    | RequestsOverdue
    | CoParentsOverdue
    | DeclarationOverdue
    | ParentOverdue
    | ReturnOverdue
    | ResetOver
    | PulseDue
)

# ── Facts ───────────────────────────────────────────────────────────────────────────────────────────────────


class LeaderUnreachable(Struct, frozen=True):
    """Told by a failure detector: the leader has failed, or is in another region.  None: there has never been one."""

    leader: NodeId | None


# ── States ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Phase(Enum):
    """Where a node is in an election."""

    IDLE = "idle"  # In none that it knows of; a leader is named, unless there never was one.
    GATHERING = "gathering"
    AWAITING = "awaiting"  # It has reported, or returned too late to report.
    RETURNING = "returning"  # It asks its neighbours what it has missed.
    RESETTING = "resetting"  # Sequences are used up: it is deaf.


class Status(Enum):
    """What a node is outside of an election.  [MADM Def. 4]"""

    NULL = "null"
    LEADER = "leader"
    NON_LEADER = "non-leader"


# ── Formulas ────────────────────────────────────────────────────────────────────────────────────────────────


def message_count(links: int, nodes: int, leaves: int) -> int:
    """One initiator, no failure: 8·links − 4·N + 4 − leaves; leaves have one link, the initiator not counted."""
    return 8 * links - 4 * nodes + 4 - leaves
