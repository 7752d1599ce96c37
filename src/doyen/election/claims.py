"""The parts that elections share whose members claim epochs in a place that all of them reach.

They are timers, events, a member's candidacy and state, and why it chose.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Any, ClassVar

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.core.deadline import Deadline
from doyen.core.effects import Out
from doyen.core.ids import Incarnation, NodeId, Term
from doyen.core.order import Order, order
from doyen.core.reasons import Account, Reasons, Remark, first
from doyen.election.held import Held

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


# ── The member ──────────────────────────────────────────────────────────────────────────────────────────────


class Candidacy:
    """A member's candidacy for an epoch: the best score claims first; after a resignation the others go first."""

    def __init__(self, me: NodeId) -> None:
        self._me = me
        self.epoch = 0  # The one that this member stands for; 0: none.
        self.score = 0.0
        self.is_announced = False
        self._resigned_from = -1

    def begin(self, epoch: int) -> None:
        self.epoch, self.is_announced = epoch, False

    def resign(self, epoch: int) -> None:
        """Note that this member has resigned from an epoch: it goes last for the next."""
        self._resigned_from = epoch

    @property
    def goes_last(self) -> bool:
        return self._resigned_from == self.epoch - 1

    @property
    def standing(self) -> float | None:
        """Return what the others learn of this candidate: its score, or None if it goes last."""
        return None if self.goes_last else self.score

    def is_outvied(self, rivals: Iterable[tuple[NodeId, float | None]]) -> bool:
        """Return whether a better candidate stands: by score, then by the highest name."""
        return any(_order(node, standing) > _order(self._me, self.standing) for node, standing in rivals)


def _order(node: NodeId, standing: float | None) -> tuple[bool, float, Order]:
    return standing is not None, standing or 0.0, order(node)


class Claimant(Held):
    """The state of a member; one that does not stand only follows."""

    FAILS: ClassVar[type[PlaceFails]]
    ANSWERS: ClassVar[type[PlaceAnswers]]

    def __init__(self, me: NodeId, incarnation: Incarnation, out: Out, stands: bool) -> None:
        self.me, self.incarnation, self.stands, self.out = me, incarnation, stands, out
        self.status = Status.WATCHING
        self.term: Term | None = None
        # The place.
        self._number = 0  # Of the last request,
        self._asked_at: Instant = 0  # and when it was made.
        self._failing = ""  # Why the place cannot be used.
        self._renews = False  # Whether a change was seen since this member began to look: somebody is alive.
        self._epoch_max = 0  # The highest epoch that was ever known.
        # A candidacy.
        self.candidacy = Candidacy(me)
        self.outvied: tuple[NodeId, ...] = ()
        # An epoch of its own.
        self.epoch = 0  # The one that it claimed last.
        self._free = False  # Nobody can act in an earlier epoch.
        self._acts_at: Instant = 0
        self._has_acted = False
        self._serial = 0
        self._lease_end: Instant = 0
        self._deadline = Deadline()

    @property
    def leading(self) -> bool:
        return self.status is Status.LEADING

    def _fails(self, text: str) -> None:
        if text != self._failing:
            self._failing = text
            self.out.emit(self.FAILS(text))

    def _answers(self) -> None:
        if self._failing:
            self._failing = ""
            self.out.emit(self.ANSWERS())

    def _watch_only(self) -> None:
        """Follow, and stand for nothing."""
        self.status, self.candidacy.epoch = Status.WATCHING, 0

    def _act(self) -> None:
        """Begin to act on the lease."""
        self.status, self._has_acted = Status.LEADING, True
        self._hold()
        self._name(Term(self.epoch, self.me))

    def _hold(self) -> None:
        """Wait for the end of the lease."""
        self._deadline.move(self._lease_end, LeaseEnds(self._deadline.number + 1), self.out)


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
        others = dict.fromkeys(self.candidates, "no better, or later")
        return Reasons(f"this member claimed epoch {term.number} in {self.place}", first(others))
