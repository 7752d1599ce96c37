"""The requests of a member's machine to the store, what it answers, messages between members, timers and events.

machine ──ToStore──▶ store ──Answered (a `Found`)──▶ machine        one register, changed by compare-and-swap
leader ──Leads──▶ all           the record that the store has confirmed: nobody else asks while it is heard
candidate ──Stands──▶ all       nobody leads, and this is its score
leader ──Vacated──▶ all         it has stopped acting in this epoch: a resignation, or its will
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from doyen.core.clock import Duration
from doyen.core.ids import Incarnation, Name, NodeId, TermNumber
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

# ── The store ───────────────────────────────────────────────────────────────────────────────────────────────


class Record(Struct, frozen=True, kw_only=True):
    """The one record of an election: who holds which epoch.  No two that were ever written are equal."""

    epoch: TermNumber
    node: Name
    incarnation: Incarnation
    serial: int  # Grows with every write of the holder.
    phase: Phase = "claimed"
    lease: Duration  # The longest on which anybody may act when this is read.
    free: bool = False  # The holder acted in this epoch, so no earlier leader acts any more.
    heir: NodeId | None = None

    @property
    def order(self) -> tuple[int, int]:
        return self.epoch, self.serial


class ToStore(Request, frozen=True, kw_only=True):
    """An order to the store: put `wanted` in the place of `expected`, which None: no record; or only look."""

    wanted: Record | None = None  # None: look.
    expected: Record | None = None


class Found(Struct, frozen=True):
    """The answer of the store."""

    swapped: bool
    record: Record | None  # As it is now.


# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


class Leads(Struct, frozen=True, gc=False, array_like=True, tag="L"):
    """Says that the store has confirmed this record of the sender's."""

    record: Record


class Stands(Struct, frozen=True, gc=False, array_like=True, tag="S"):
    """Says that the sender wants to claim an epoch."""

    epoch: TermNumber
    standing: Finite | None = None  # None: it gives way to everybody.


class Vacated(Struct, frozen=True, gc=False, array_like=True, tag="V"):
    """Says that the sender, which led in this epoch, neither acts nor will act in it."""

    epoch: TermNumber
    incarnation: Incarnation
    heir: NodeId | None = None


# ── Timers ──────────────────────────────────────────────────────────────────────────────────────────────────


class ClaimIsDue(Struct, frozen=True, gc=False):
    """Candidates have waited for each other."""

    epoch: int
    again: bool


class ActingBegins(Struct, frozen=True, gc=False):
    """No earlier leader acts any more."""

    epoch: int


# ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────


class StoreFails(PlaceFails, frozen=True):
    """The store cannot be used, so this member neither leads nor claims until it can."""


class StoreForgets(Complaint, frozen=True):
    """The store has lost an epoch that it had confirmed."""

    epoch: int
    has: int  # 0: none.

    def __str__(self) -> str:
        left = f"it is back at epoch {self.has}" if self.has else "it has no record any more"
        return f"the store has lost epoch {self.epoch}, and {left}: see that its data outlive a restart and a failover"


class StoreAnswers(PlaceAnswers, frozen=True):
    """The store can be used again."""
