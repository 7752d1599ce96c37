"""Nodes that differ in anything have different digests: else `doyen check` would take one for the other."""

from collections import Counter, deque
from enum import Enum
from typing import Any, NamedTuple

import pytest
from msgspec import Struct

from doyen.check.frozen import digest
from doyen.core.host import Host, Port, Verbs
from doyen.core.ids import NodeId


class Mute:
    def verbs(self, port: Port) -> Verbs:
        return Verbs(lambda to, message: None, lambda message: None, lambda timer, at: None)


class Named(NamedTuple):
    number: int
    names: frozenset[str]


class Frozen(Struct, frozen=True):
    found: Any


class Loose(Struct):
    found: Any


class Plain:
    def __init__(self, found: Any) -> None:
        self.found = found


class Slotted:
    __slots__ = ("found",)

    def __init__(self, found: Any) -> None:
        self.found = found


class Word(str): ...


class Number(int): ...


class Side(Enum):
    LEFT, RIGHT = range(2)


VALUES = [
    *(None, True, False, 0, 1, 1.5, "", "1", b"1", (), (1,), (1, (2,)), [], [1], {}, {1: 2}, {2: 1}, {1}, {2}),
    *(frozenset({3}), deque([1, 2]), Counter("a"), Side.LEFT, Side.RIGHT, Word("a"), Word("b"), Number(1), Number(2)),
    *(Named(1, frozenset("ab")), Named(1, frozenset("ac")), Named(2, frozenset("ab"))),
    *(kind(found) for kind in (Frozen, Loose, Plain, Slotted) for found in (1, "1", (1,), Named(1, frozenset("a")))),
]


def _digest(found: Any) -> bytes:
    host = Host(NodeId("a"), Mute())
    port = Port(host, "election", ())
    port.machine = Plain(found)
    host.ports["election"] = port
    return digest(host)


@pytest.mark.parametrize("place", range(len(VALUES)))
def test_whatever_a_machine_holds_is_in_its_digest(place: int) -> None:
    found = VALUES[place]
    assert _digest(found) == _digest(found)
    alike = [other for at, other in enumerate(VALUES) if at != place and _digest(other) == _digest(found)]
    assert alike == []
