"""The requests of a member's machine to the directory, what is found there, timers and events.

    machine ──ToDirectory──▶ directory ──Answered (a `Found`)──▶ machine

Every request ends with a look: what was found is newer than the instant at which the machine asked.
Members send each other nothing; clocks of two hosts are never compared.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from doyen.core.clock import Duration
from doyen.core.ids import Incarnation, NodeId, TermNumber
from doyen.core.outside import Request
from doyen.core.rank import Finite
from doyen.election.claims import AnswerIsLate as AnswerIsLate
from doyen.election.claims import Complaint, PlaceAnswers, PlaceFails
from doyen.election.claims import EpochClaimed as EpochClaimed
from doyen.election.claims import LeaseEnds as LeaseEnds
from doyen.election.claims import LookIsDue as LookIsDue
from doyen.election.claims import ScoreIsLate as ScoreIsLate
from doyen.election.claims import Status as Status

Phase: TypeAlias = Literal["claimed", "acting", "released"]

# ── To the directory, and back ──────────────────────────────────────────────────────────────────────────────


class ToDirectory(Request, frozen=True, kw_only=True):
    """An order to the directory: write what `do` says, then look."""

    do: Literal["look", "stand", "claim", "renew"]
    epoch: int = 0  # The one that is stood for, claimed or held.
    lease: Duration = 0  # The longest on which anybody may act when this is read.
    serial: int = 0  # Of renewals: a change is what others look for.
    phase: Phase = "claimed"
    free: bool = False  # released: the sender acted in this epoch, so no earlier leader acts any more.
    heir: NodeId | None = None
    standing: float | None = None  # stand: the sender's score; None: it gives way to everybody.


class Top(Struct, frozen=True):
    """The highest epoch in the directory, and how it stands."""

    epoch: TermNumber
    mark: str  # Changes with every renewal.
    node: NodeId | None = None  # None: the file cannot be read.
    incarnation: Incarnation = Incarnation(0)
    phase: Phase = "claimed"
    free: bool = False
    lease: Duration = 0
    heir: NodeId | None = None


class Candidate(Struct, frozen=True):
    """A member that wants to claim an epoch."""

    epoch: TermNumber
    node: NodeId
    standing: Finite | None


class Found(Struct, frozen=True):
    """The findings of one look."""

    top: Top | None = None  # None: no epoch was ever claimed.
    candidates: tuple[Candidate, ...] = ()
    odd: tuple[str, ...] = ()  # Files that are not this election's, or cannot be read.


# ── Timers ──────────────────────────────────────────────────────────────────────────────────────────────────


# ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────


class DirectoryFails(PlaceFails, frozen=True):
    """The directory cannot be used, so this member neither leads nor claims until it can."""


class DirectoryAnswers(PlaceAnswers, frozen=True):
    """The directory can be used again."""


class OddFiles(Complaint, frozen=True):
    """The directory holds files that are passed over."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        names = ", ".join(self.names)
        return f"the directory holds what this election did not write, or cannot read: {names}; it is passed over"
