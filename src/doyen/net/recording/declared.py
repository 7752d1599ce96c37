"""Which facts the world may tell, and which commands it may give, in a recording.  What is not listed is refused."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from doyen.core.clock import Duration
from doyen.core.ids import NodeId
from doyen.core.link import LinkBroken, LinkChanged
from doyen.core.rank import ScoreGiven
from doyen.core.seeds import PeerHeard, SeedsChanged
from doyen.errors import TransportError
from doyen.net.recording.format import Commanded, Told, encode

FACTS: Final[Mapping[str, type[Any]]] = {
    "score": ScoreGiven,
    "link": LinkChanged,
    "link broken": LinkBroken,
    "seeds": SeedsChanged,
    "peer": PeerHeard,
}
_NAMES: Final = {kind: name for name, kind in FACTS.items()}


class _Plain(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of a command that has none."""


class _Resign(Struct, frozen=True, forbid_unknown_fields=True):
    to: NodeId | UnsetType | None = UNSET
    cool_down: Duration | UnsetType | None = UNSET


class _Say(Struct, frozen=True, forbid_unknown_fields=True):
    score: int | float | UnsetType | None = UNSET
    eligible: bool | UnsetType | None = UNSET
    words: dict[str, str] | UnsetType | None = UNSET


COMMANDS: Final[Mapping[str, type[Any]]] = {"leave": _Plain, "stand": _Plain, "resign": _Resign, "say": _Say}


def told(channel: str | None, fact: Any) -> Told:
    """Return a fact as data.  Raises `TransportError` for one that is not declared."""
    name = _NAMES.get(type(fact))
    if name is None:
        raise TransportError(f"the fact {fact!r} is not declared")
    return Told(channel, name, encode(fact))


def fact_of(given: Told) -> Any:
    """Return a fact from a recording.  Raises `TransportError` for one that is not declared, or not of its type."""
    return _decoded("fact", given.name, given.fact, FACTS)


def commanded(channel: str, name: str, arguments: Mapping[str, Any]) -> Commanded:
    """Return a command as data.  Raises `TransportError` for one that is not declared, or not of its type."""
    if name not in COMMANDS:
        raise TransportError(f"the command {name!r} is not declared")
    try:
        return Commanded(channel, name, encode(msgspec.convert(arguments, COMMANDS[name])))
    except msgspec.ValidationError as error:
        raise TransportError(f"the command {name!r} is not as declared: {error}") from None


def arguments_of(given: Commanded) -> dict[str, Any]:
    """Return the arguments of a command from a recording; raises as `fact_of` does."""
    found = msgspec.structs.asdict(_decoded("command", given.name, given.arguments, COMMANDS))
    return {field: value for field, value in found.items() if value is not UNSET}


def _decoded(what: str, name: str, data: bytes, table: Mapping[str, type[Any]]) -> Any:
    if name not in table:
        raise TransportError(f"the {what} {name[:100]!r} is not declared")
    try:
        return msgspec.msgpack.decode(data, type=table[name])
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise TransportError(f"the {what} {name!r} is not as declared: {error}") from None
