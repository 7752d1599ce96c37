"""What announce-listen elections say to each other, and to themselves later."""

from enum import Enum

from msgspec import Struct

from doyen.core.ids import TERM_NUMBER_MAX
from doyen.core.rank import STANDING_MAX as STANDING_MAX
from doyen.core.rank import Standing

# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


class Announcement(Struct, frozen=True, gc=False, array_like=True, tag="A"):
    """I lead.  To everybody, every T_A; to one process in answer to its Query."""

    term: int
    standing: Standing

    def __post_init__(self) -> None:
        _check_claim(self.term, self.standing)


class Query(Struct, frozen=True, gc=False, array_like=True, tag="Q"):
    """Who leads?  Carries the asker's own claim, so that it silences worse ones like an announcement."""

    term: int
    standing: Standing

    def __post_init__(self) -> None:
        _check_claim(self.term, self.standing)


class Bye(Struct, frozen=True, gc=False, array_like=True, tag="B"):
    """I am leaving; whoever named me should look for another."""

    term: int

    def __post_init__(self) -> None:
        _check_claim(self.term, 0)


def _check_claim(term: int, standing: Standing) -> None:
    if not (0 <= term <= TERM_NUMBER_MAX and -STANDING_MAX <= standing <= STANDING_MAX):  # Also false for nan.
        raise ValueError(f"term {term} or standing {standing} is out of range")


# ── Timers ──────────────────────────────────────────────────────────────────────────────────────────────────


class WakeUp(Struct, frozen=True, gc=False):
    wait_no: int


class AnswerOverdue(Struct, frozen=True, gc=False):
    wait_no: int


class AnnounceDue(Struct, frozen=True, gc=False):
    reign_no: int


class ReplyDue(Struct, frozen=True, gc=False):
    announce_no: int


class ListenDue(Struct, frozen=True, gc=False): ...


class Status(Enum):
    ABSENT = "absent"  # Not started, or left.
    WAITING = "waiting"  # Names itself; speaks when its wake-up comes.
    ASKING = "asking"  # Awake; waits for an answer to its Query.
    LEADING = "leading"
    FOLLOWING = "following"
