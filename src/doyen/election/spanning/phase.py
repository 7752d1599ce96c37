"""Where a node is in an election, and what it is outside of one."""

from enum import Enum


class Phase(Enum):
    IDLE = "idle"  # No election that I know of; a leader is named, unless there never was one.
    GATHERING = "gathering"
    AWAITING = "awaiting"  # Reported; or returned too late to report.
    RETURNING = "returning"  # Asking neighbours what I have missed.
    RESETTING = "resetting"  # Sequences are used up: deaf.


class Status(Enum):
    """[MADM Def. 4]"""

    NULL = "null"
    LEADER = "leader"
    NON_LEADER = "non-leader"
