"""Commands that the world gives to a machine: values, given like facts, so that they are recorded and replayed.

The `HEARS` of a machine has the commands that it takes; to give it another one is an error.
"""

from msgspec import Struct

from doyen.core.clock import Duration
from doyen.core.ids import Count, Name, NodeId


class Command(Struct, frozen=True, forbid_unknown_fields=True):
    """An order to one machine."""


class Resign(Command, frozen=True):
    """Stop leading, and hand over to that member, or to whom the others choose."""

    to: NodeId | None = None
    cool_down: Duration | None = None  # How long elections pass this node over; None: as configured, or until `Stand`.
    because: str = ""  # As `HandOverDue` has it.


class Stand(Command, frozen=True):
    """Stand for election again after a resignation."""


class PassOn(Command, frozen=True):
    """Make this the baton; `BatonPassed` says with this number when the next leader will find it, or a later one."""

    number: int
    baton: bytes


class ChangeVoters(Command, frozen=True):
    """Replace the voters by these, in steps; `ChangeEnded` says with this number when it is done, or why it is not.

    Only one may come, one may go, or one be replaced at a time.
    """

    number: int
    voters: frozenset[NodeId]


class LeaveGroup(Command, frozen=True):
    """Say goodbye and fall silent."""


class Initiate(Command, frozen=True):
    """Begin an election, also if a leader is named now."""


class ChangeNote(Command, frozen=True):
    """Say something new of this node to all members; what is not given stays."""

    score: int | float | None = None
    eligible: bool | None = None
    words: dict[str, str] | None = None


class DescribeLeader(Command, frozen=True):
    """Say this of this node to all members while it leads; what is not given stays."""

    since: float | None = None  # The wall clock when it was elected, in seconds.
    words: dict[str, str] | None = None
    version: int = 0  # Of the words.


# To a machine that remembers occasions (`membership/occasions.py`).


class Kept(Struct, frozen=True, array_like=True):
    """An occasion that was done: by whom, when, and until when that is kept, in nanoseconds of the wall clock."""

    key: str
    by: Name
    at: Count
    until: Count


class Inquire(Command, frozen=True):
    """Ask every member that is present, now, whether the occasion was done."""


class Conclude(Command, frozen=True):
    """Keep that this member has done the occasion, and notify all the others."""

    remember: Duration


class Recall(Command, frozen=True):
    """Remember, too, what other members kept on this machine's disk."""

    done: tuple[Kept, ...]
