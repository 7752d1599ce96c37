"""The messages between a process and the registry.

    process ──16 random bytes────────────▶ registry
            ◀─16 random bytes─────────────
            ──Declared: all that it holds─▶
            ◀─Welcome──────────────────────
            ──Asked, Beat────────────────▶
            ◀─Answered, Beaten, Groups, Dropped, Broken

A frame is its length in four bytes and a message in msgpack; where the group has a key, the message is sealed.
"""

from typing import Any, Final, TypeAlias

from msgspec import Struct

FRAME_MAX: Final = 4 * 2**20


# Requests.


class Create(Struct, frozen=True, tag=True, array_like=True):
    group: bytes
    attempt: bytes  # The same when the request is sent again: it may have been done already.


class Delete(Struct, frozen=True, tag=True, array_like=True):
    group: bytes


class ListGroups(Struct, frozen=True, tag=True, array_like=True): ...


class Join(Struct, frozen=True, tag=True, array_like=True):
    group: bytes
    member: bytes
    attempt: bytes
    capabilities: bytes
    created_at: float = 0.0
    updated_at: float = 0.0


class Update(Struct, frozen=True, tag=True, array_like=True):
    group: bytes
    member: bytes
    capabilities: bytes


class Leave(Struct, frozen=True, tag=True, array_like=True):
    group: bytes
    member: bytes


class ListMembers(Struct, frozen=True, tag=True, array_like=True):
    group: bytes


class Acquire(Struct, frozen=True, tag=True, array_like=True):
    lock: bytes
    token: bytes  # New for each attempt.
    label: bytes  # The member that acquires it.
    shared: bool
    wait_s: float  # inf: until it is granted.


class Release(Struct, frozen=True, tag=True, array_like=True):
    lock: bytes
    token: bytes


class Break(Struct, frozen=True, tag=True, array_like=True):
    lock: bytes


class ListHolders(Struct, frozen=True, tag=True, array_like=True):
    lock: bytes


Request: TypeAlias = (
    Create | Delete | ListGroups | Join | Update | Leave | ListMembers | Acquire | Release | Break | ListHolders
)

# Between one process and the registry.


class Declared(Struct, frozen=True, tag=True, array_like=True):
    """All that a process holds: the first message on each connection."""

    process: str
    node: str
    groups: tuple[bytes, ...]
    members: tuple[Join, ...]
    holds: tuple[Acquire, ...]


class Welcome(Struct, frozen=True, tag=True, array_like=True):
    groups: tuple[bytes, ...]
    lost: tuple[bytes, ...]  # Tokens of locks that somebody else holds by now.


class Asked(Struct, frozen=True, tag=True, array_like=True):
    number: int
    request: Request


class Answered(Struct, frozen=True, tag=True, array_like=True):
    number: int
    error: str  # One of the registry's refusals; empty: it was done.
    value: Any


class Beat(Struct, frozen=True, tag=True, array_like=True):
    number: int


class Beaten(Struct, frozen=True, tag=True, array_like=True):
    number: int


class Groups(Struct, frozen=True, tag=True, array_like=True):
    groups: tuple[bytes, ...]


class Dropped(Struct, frozen=True, tag=True, array_like=True):
    """Somebody else took this member out of its group."""

    group: bytes
    member: bytes


class Broken(Struct, frozen=True, tag=True, array_like=True):
    """Somebody else broke this lock."""

    token: bytes


class Farewell(Struct, frozen=True, tag=True, array_like=True): ...


ToRegistry: TypeAlias = Declared | Asked | Beat | Farewell
ToProcess: TypeAlias = Welcome | Answered | Beaten | Groups | Dropped | Broken
