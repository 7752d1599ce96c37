"""Counts the messages of a spanning election.  [MADM §6.2.2]"""

from typing import Any, Final

from doyen.election.spanning.messages import (
    Ack,
    Agm,
    Eim,
    Enquire,
    Ldm,
    Mqfm,
    NotYet,
    Request,
    Reset,
    State,
)

NAMES: Final[dict[type[Any], str]] = {
    Eim: "eim",
    Ack: "ack",
    Agm: "agm",
    Mqfm: "mqfm",
    Ldm: "ldm",
    Request: "request",
    NotYet: "notyet",
    Enquire: "enquire",
    State: "state",
    Reset: "reset",
}


def message_count(links: int, nodes: int, leaves: int) -> int:
    """Return how many messages an election with one initiator and no failure takes: 8·links − 4·N + 4 − leaves.

    Leaves have one link; the initiator is not counted among them.
    """
    return 8 * links - 4 * nodes + 4 - leaves
