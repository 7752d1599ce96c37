"""Commands that the world gives to a machine: values, given like facts, so that they are recorded and replayed.

The `HEARS` of a machine has the commands that it takes; to give it another one is an error.
"""

from msgspec import Struct

from doyen.core.clock import Duration
from doyen.core.ids import NodeId


class Command(Struct, frozen=True, forbid_unknown_fields=True):
    """An order to one machine."""


class Resign(Command, frozen=True):
    """Stop leading, and hand over to that member, or to whom the others choose."""

    to: NodeId | None = None
    cool_down: Duration | None = None  # How long elections pass this node over; None: as configured, or until `Stand`.
    because: str = ""  # As `HandOverDue` has it.


class Stand(Command, frozen=True):
    """Stand for election again after a resignation."""


class LeaveGroup(Command, frozen=True):
    """Say goodbye and fall silent."""


class Initiate(Command, frozen=True):
    """Begin an election, whoever leads now."""


class ChangeNote(Command, frozen=True):
    """Say something new of this node to all members; what is not given stays."""

    score: int | float | None = None
    eligible: bool | None = None
    words: dict[str, str] | None = None
