"""Announce-listen elections: LE-A, LE-S and LE-M.  Begin with `machine.py`."""

from doyen.election.announce.config import BYE_COUNT_MAX, LEADER_COUNT_MAX, AnnounceConfig, bye_count
from doyen.election.announce.leaders import Heard
from doyen.election.announce.machine import Announce
from doyen.election.announce.messages import (
    STANDING_MAX,
    AnnounceDue,
    Announcement,
    AnnouncementOverdue,
    AnswerOverdue,
    Bye,
    Query,
    ReplyDue,
    Status,
    WakeUp,
)

__all__ = [
    "BYE_COUNT_MAX",
    "LEADER_COUNT_MAX",
    "STANDING_MAX",
    "Announce",
    "AnnounceConfig",
    "AnnounceDue",
    "Announcement",
    "AnnouncementOverdue",
    "AnswerOverdue",
    "Bye",
    "Heard",
    "Query",
    "ReplyDue",
    "Status",
    "WakeUp",
    "bye_count",
]
