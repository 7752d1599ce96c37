"""The parts that elections share whose members claim epochs in a place that all of them reach: timers, events, why."""

from enum import Enum
from typing import Any, ClassVar

from msgspec import Struct

from doyen.core.ids import NodeId, Term
from doyen.core.reasons import Account, Reasons, Remark, first

# ── Timers ──────────────────────────────────────────────────────────────────────────────────────────────────


class LookIsDue(Struct, frozen=True, gc=False):
    """The place is asked again, unless it was since."""

    number: int


class AnswerIsLate(Struct, frozen=True, gc=False):
    """The place has not answered this request for a guard."""

    number: int


class ScoreIsLate(Struct, frozen=True, gc=False):
    """The member stands with the score that it last had."""

    epoch: int


class LeaseEnds(Struct, frozen=True, gc=False):
    """The lease is over, unless it was prolonged."""

    number: int


# ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────


class EpochClaimed(Struct, frozen=True):
    """This member has claimed an epoch, and waits until no earlier leader can act."""

    epoch: int
    outvied: tuple[NodeId, ...]  # The other candidates.


class Complaint(Struct, frozen=True):
    """Something about the place that a person should know."""


class PlaceFails(Complaint, frozen=True):
    """The place cannot be used, so this member neither leads nor claims until it can."""

    text: str

    def __str__(self) -> str:
        return self.text


class PlaceAnswers(Struct, frozen=True):
    """The place can be used again."""


class Status(Enum):
    """The state of a member."""

    WATCHING = "watching"
    STANDING = "standing"  # Nobody leads, and it waits for better candidates.
    CLAIMING = "claiming"  # Its claim is on the way.
    WAITING = "waiting"  # Its epoch is claimed, and an earlier leader may still act.
    LEADING = "leading"
    LEFT = "left"


# ── Why it chose ────────────────────────────────────────────────────────────────────────────────────────────


class Claimed(Account):
    """The leader claimed its epoch in the place."""

    place: ClassVar[str]  # In words.

    def note(self, fact: Any) -> Remark | None:
        match fact:
            case EpochClaimed():
                self.candidates = tuple(fact.outvied)
                return Remark("chosen", f"epoch {fact.epoch} claimed")
            case Complaint():
                return Remark("shortage", str(fact), needs_a_person=True)
            case PlaceAnswers():
                return Remark("begun", f"{self.place} can be used again")
        return None

    def reasons(self, machine: Any, term: Term) -> Reasons:
        if term.leader != machine.me:
            return Reasons(f"{term.leader} holds epoch {term.number} in {self.place}")
        others = dict.fromkeys(self.candidates, "less, or later")
        return Reasons(f"this member claimed epoch {term.number} in {self.place}", first(others))
