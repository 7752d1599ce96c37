"""Reasons for a leader: what a node noticed of one election, and the values that were compared.

Each kind of election has an `Account` of its own, which follows the facts of its machine.  An account says only what
this node saw itself: what only others know is not guessed.
"""

from typing import Any, Final, Literal

from msgspec import Struct

from doyen.core.ids import Term
from doyen.core.leadership import LeaderLost

SHOWN_MAX: Final = 16  # Values that a reason shows at most; a log line stays a line.


class Reasons(Struct, frozen=True):
    """The reason why a leader is named, in a few words, and the values that were compared, by member."""

    text: str
    compared: dict[str, str] = {}  # A standing, a score or a rank.

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {value}" for name, value in self.compared.items())
        return f"{self.text} ({shown})" if shown else self.text


class Remark(Struct, frozen=True):
    """A line of an election's history; `shortage`: why nobody can be elected."""

    kind: Literal["begun", "chosen", "shortage"]
    text: str
    needs_a_person: bool = False  # Nothing that the group does can end it.


class Account:
    """The notes of a node on one election.  This class fits any election; a kind may have a better one."""

    def __init__(self) -> None:
        self.initiator = ""  # Who began the election, where that is known.
        self.answered: tuple[str, ...] = ()  # The members that answered, in order.
        self.candidates: tuple[str, ...] = ()
        self.excluded: tuple[tuple[str, int], ...] = ()  # Members passed over, and how often each was suspected.
        self.final = ""  # The term that was announced as final.

    def note(self, fact: Any) -> Remark | None:
        """Follow a fact that the election emitted; return the line that it is worth in the history, if any."""
        return None

    def reasons(self, machine: Any, term: Term) -> Reasons:
        """Return why the machine names the leader of that term."""
        return Reasons("")

    def tolerance(self, machine: Any) -> str:
        """Return how many views may lack a member, where the election counts that."""
        return ""


def first(compared: dict[str, str]) -> dict[str, str]:
    """Return the first few of the values that were compared."""
    return dict(list(compared.items())[:SHOWN_MAX])


def lost_words(fact: LeaderLost) -> str:
    """Return the reason of the fact as a clause."""
    return _LOST.get(fact.reason, fact.reason)


_LOST: Final = {
    "silent": "silent: nothing heard of it for too long",
    "gone": "gone: its process has ended",
    "left": "left: on its own word",
    "outranked": "outranked: a better one is named",
    "resigned": "resigned: on its own word",
}
