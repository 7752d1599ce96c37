"""The messages, timers and states of announce-listen elections."""

from enum import Enum
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from doyen.core.ids import TERM_NUMBER_MAX
from doyen.core.rank import STANDING_MAX as STANDING_MAX

_RANGE = Meta(ge=-STANDING_MAX, le=STANDING_MAX)  # It excludes nan.
TermSeen = Annotated[int, Meta(ge=0, le=TERM_NUMBER_MAX)]  # 0: none yet.
Claimed = Annotated[int, _RANGE] | Annotated[float, _RANGE]

# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


class Announcement(Struct, frozen=True, gc=False, array_like=True, tag="A"):
    """Says that the sender leads: multicast every T_A, or sent in answer to a Query."""

    term: TermSeen
    standing: Claimed


class Query(Struct, frozen=True, gc=False, array_like=True, tag="Q"):
    """Asks who leads.  It carries the sender's own claim, so that it silences worse ones like an announcement."""

    term: TermSeen
    standing: Claimed


class Bye(Struct, frozen=True, gc=False, array_like=True, tag="B"):
    """Says that the sender is leaving; a process that named it looks for another leader."""

    term: TermSeen


class Behind(Struct, frozen=True, gc=False, array_like=True, tag="N"):
    """Says to a leader that the sender knows a later term than the one that it announces: it has lost its count."""

    term: TermSeen


Message: TypeAlias = Announcement | Query | Bye | Behind

# ── Timers ──────────────────────────────────────────────────────────────────────────────────────────────────


class WakeUp(Struct, frozen=True, gc=False):
    """The process asks, or claims leadership."""

    wait_no: int


class AskingEnds(Struct, frozen=True, gc=False):
    """The process leads, as no leader has answered its Query."""

    wait_no: int


class AnnouncementRepeats(Struct, frozen=True, gc=False):
    """The leader announces itself."""

    reign_no: int


class QueryIsAnswered(Struct, frozen=True, gc=False):
    """The leader answers a Query, unless it has announced itself since."""

    announce_no: int


class LeaderIsCorrected(Struct, frozen=True, gc=False):
    """The process sends `Behind` to a leader that still announces a term below the one that it is named under."""

    leader: str


class SilenceIsNoticed(Struct, frozen=True, gc=False):
    """Leaders that have been silent for T_L are dropped."""


class Status(Enum):
    """The state of a process in its election."""

    ABSENT = "absent"  # It has not started, or has left.
    WAITING = "waiting"  # It names itself, and claims when its wake-up comes.
    ASKING = "asking"  # It is awake, and waits for an answer to its Query.
    LEADING = "leading"
    FOLLOWING = "following"
