"""The requests of a member's machine to the store, what it answers, messages between members, timers and events.

machine ──ToStore──▶ store ──Answered (a `Found`)──▶ machine        one register, changed by compare-and-swap
leader ──Leads──▶ all           the record that the store has confirmed: nobody else asks while it is heard
candidate ──Stands──▶ all       nobody leads, and this is its score
leader ──Vacated──▶ all         it has stopped acting in this epoch: a resignation, or its will
"""

from enum import Enum
from typing import Literal, TypeAlias

from msgspec import Struct

from doyen.core.clock import Duration
from doyen.core.ids import Incarnation, Name, NodeId, TermNumber
from doyen.core.outside import Request
from doyen.core.rank import Finite

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


class LookIsDue(Struct, frozen=True, gc=False):
    """The store is asked again, unless it was since."""

    number: int


class AnswerIsLate(Struct, frozen=True, gc=False):
    """The store has not answered this request for a guard."""

    number: int


class ScoreIsLate(Struct, frozen=True, gc=False):
    """The member stands with the score that it last had."""

    epoch: int


class ClaimIsDue(Struct, frozen=True, gc=False):
    """Candidates have waited for each other."""

    epoch: int
    again: bool


class ActingBegins(Struct, frozen=True, gc=False):
    """No earlier leader acts any more."""

    epoch: int


class LeaseEnds(Struct, frozen=True, gc=False):
    """The lease is over, unless it was prolonged."""

    number: int


# ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────


class EpochClaimed(Struct, frozen=True):
    """This member has claimed an epoch, and waits until no earlier leader can act."""

    epoch: int
    outvied: tuple[NodeId, ...]  # The other candidates.


class StoreFails(Struct, frozen=True):
    """The store cannot be used, so this member neither leads nor claims until it can."""

    text: str

    def __str__(self) -> str:
        return self.text


class StoreAnswers(Struct, frozen=True):
    """The store can be used again."""


class Status(Enum):
    """The state of a member."""

    WATCHING = "watching"
    STANDING = "standing"  # Nobody leads, and it waits for better candidates.
    CLAIMING = "claiming"  # Its claim is on the way to the store.
    WAITING = "waiting"  # Its epoch is claimed, and an earlier leader may still act.
    LEADING = "leading"
    LEFT = "left"
