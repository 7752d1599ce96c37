"""Lists the facts and commands that the world may give to machines in a recording.  What is not listed is refused."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from doyen.core.commands import (
    ChangeNote,
    ChangeVoters,
    Conclude,
    DescribeLeader,
    Inquire,
    LeaveGroup,
    PassOn,
    Recall,
    Resign,
    Stand,
)
from doyen.core.link import LinkBroken, LinkChanged
from doyen.core.outside import Answered
from doyen.core.rank import ScoreGiven
from doyen.core.seeds import OwnAddressChanged, PeerHeard, SeedsChanged
from doyen.errors import TransportError
from doyen.net.recording.format import Commanded, Told, encode

FACTS: Final[Mapping[str, type[Any]]] = {
    "score": ScoreGiven,
    "answered": Answered,
    "link": LinkChanged,
    "link broken": LinkBroken,
    "seeds": SeedsChanged,
    "peer": PeerHeard,
    "own address": OwnAddressChanged,
}
COMMANDS: Final[Mapping[str, type[Any]]] = {
    "leave": LeaveGroup,
    "stand": Stand,
    "resign": Resign,
    "pass on": PassOn,
    "voters": ChangeVoters,
    "say": ChangeNote,
    "describe": DescribeLeader,
    "inquire": Inquire,
    "conclude": Conclude,
    "recall": Recall,
}
_FACT_NAMES: Final = {kind: name for name, kind in FACTS.items()}
_COMMAND_NAMES: Final = {kind: name for name, kind in COMMANDS.items()}


def told(channel: str | None, fact: Any) -> Commanded | Told:
    """Return a fact or a command as data.  Raises `TransportError` for one that is not declared."""
    kind = type(fact)
    if kind in _FACT_NAMES:
        return Told(channel, _FACT_NAMES[kind], encode(fact))
    if kind in _COMMAND_NAMES and channel is not None:
        return Commanded(channel, _COMMAND_NAMES[kind], encode(fact))
    raise TransportError(f"{fact!r} is not declared")


def fact_of(given: Commanded | Told) -> Any:
    """Return a fact or a command from a recording.

    Raises `TransportError` for one that is not declared, or not of its type.
    """
    is_fact = isinstance(given, Told)
    what, table = ("fact", FACTS) if is_fact else ("command", COMMANDS)
    if given.name not in table:
        raise TransportError(f"the {what} {given.name[:100]!r} is not declared")
    try:
        return msgspec.msgpack.decode(given.data, type=table[given.name])
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise TransportError(f"the {what} {given.name!r} is not as declared: {error}") from None
