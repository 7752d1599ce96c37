"""Copies of whole nodes: a digest that tells equal states, and bytes from which an equal node is made again.

A digest covers what a node's machines hold, and which of their objects are one and the same; sets are sorted first.
"""

import io
import marshal
import pickle
from collections import deque
from enum import Enum
from random import Random
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from msgspec import Struct

from doyen.core.config import Config
from doyen.core.hashes import blake2b
from doyen.core.host import Host, Port
from doyen.errors import LocalProtocolError

_PLAIN = frozenset({int, str, float, bytes, type(None)})


class Draws(Random):
    """A random stream whose every draw is the same, so that a step depends on its input alone."""

    def __init__(self, share: float = 0.5) -> None:
        super().__init__(0)
        self.share = share

    def random(self) -> float:
        return self.share

    def getrandbits(self, k: int, /) -> int:
        return int(self.share * (1 << k))

    def _randbelow(self, n: int) -> int:  # `choice` and `shuffle` go by it.
        return int(self.share * n)


def digest(host: Host) -> bytes:
    """Return what is equal for equal nodes only."""
    return blake2b(marshal.dumps(_Walk().of(host), 2), digest_size=16).digest()


class _Walk:
    """One walk through a node; objects that can change are numbered in the order in which they are met."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def of(self, found: Any) -> Any:
        kind = found.__class__
        if kind in _PLAIN:
            return found
        if kind is bool:
            return "b", int(found)
        if isinstance(found, tuple):  # Named ones, too.
            return tuple([part if part.__class__ in _PLAIN else self.of(part) for part in found])
        way = _WAYS.get(kind)
        if way is None:
            way = _WAYS[kind] = _way(found, kind)
        if way == "value":
            try:
                made = _VALUES.get(found)
            except TypeError:  # It holds something that can change, such as a dict.
                return kind.__name__, *[self.of(getattr(found, name)) for name in found.__struct_fields__]
            if made is None:
                fields = [self.of(getattr(found, name)) for name in found.__struct_fields__]
                made = _VALUES[found] = (kind.__name__, *fields)
            return made
        if way == "set":
            return "set", *sorted([self.of(part) for part in found], key=repr)
        if way == "plain":
            return kind.__name__, repr(found)
        if way == "enum":
            return kind.__name__, found.name
        if way == "code":
            return way
        number = self._numbers.get(id(found))
        if number is not None:
            return "same", number
        self._numbers[id(found)] = len(self._numbers)
        if way == "list":
            return "list", *[self.of(part) for part in found]
        if way == "dict":
            return "dict", *[(self.of(key), self.of(value)) for key, value in found.items()]
        if kind is Port:
            held = self.of(found.held) if found.waits_for_disk else None
            return found.channel, held, self.of(found.machine)
        if kind is Host:
            return tuple([self.of(port) for port in found.ports.values()])
        if kind is MethodType:
            return found.__func__.__qualname__, self.of(found.__self__)
        if isinstance(found, Struct):
            return kind.__name__, *[self.of(getattr(found, name)) for name in found.__struct_fields__]
        return kind.__name__, *[(name, self.of(value)) for name, value in _attributes(found)]


_WAYS: dict[type, str] = {}  # How to walk through objects of a class.
_VALUES: dict[Any, Any] = {}  # What became of values that never change.


def _way(found: Any, kind: type) -> str:
    if isinstance(found, Enum):
        return "enum"
    if isinstance(found, int | str | float | bytes):
        return "plain"
    if isinstance(found, Config | Draws | FunctionType | BuiltinFunctionType | type):
        return "code"
    if isinstance(found, Struct) and found.__struct_config__.frozen:
        return "value"
    if isinstance(found, frozenset | set):
        return "set"
    if kind in (list, deque):
        return "list"
    return "dict" if isinstance(found, dict) else "object"


def _attributes(found: Any) -> list[tuple[str, Any]]:
    held = dict(getattr(found, "__dict__", ()))
    for base in type(found).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(found, name):
                held[name] = getattr(found, name)
    return list(held.items())


class _Writer(pickle.Pickler):
    """Writes nodes; the world, configurations, random streams and plain functions are the same for all copies."""

    def __init__(self, file: io.BytesIO, shared: "Shared") -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._shared = shared

    def reducer_override(self, found: Any) -> Any:
        if isinstance(found, Port):
            held = found.held if found.waits_for_disk else None
            return _port, (found.host, found.channel, found.follows), (found.machine, held), None, None, _fill
        if isinstance(found, Host):
            return _host, (found.node, found.world), found.ports, None, None, _settle
        if isinstance(found, FunctionType) and found.__closure__ is not None:
            raise LocalProtocolError(
                f"{found.__qualname__} keeps variables of its own, so the machine that holds it cannot be copied: "
                "make it a method, or an object"
            )
        if found is self._shared.world or isinstance(found, Draws | Config):
            return _shared, (self._shared.number(found),)
        return NotImplemented


_SHARED: list[Any] = []  # What copies refer to, in this process.


def _shared(number: int) -> Any:
    return _SHARED[number]


def _host(node: Any, world: Any) -> Host:
    return Host(node, world)


def _settle(host: Host, ports: dict[str, Port]) -> None:
    host.ports = ports


def _port(host: Host, channel: str, follows: Any) -> Port:
    return Port(host, channel, follows)


def _fill(port: Port, state: tuple[Any, list[Any] | None]) -> None:
    port.machine, held = state
    port.hear, port.fire = port.machine.on_message, port.machine.on_timer
    if held is not None:
        port.hold(held)


class Shared:
    """Copies of nodes, and the objects that all copies have in common."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self._numbers: dict[int, int] = {}

    def number(self, found: Any) -> int:
        if id(found) not in self._numbers:
            self._numbers[id(found)] = len(_SHARED)
            _SHARED.append(found)
        return self._numbers[id(found)]

    def copy(self, host: Host) -> bytes:
        """Return a node as bytes."""
        file = io.BytesIO()
        _Writer(file, self).dump(host)
        return file.getvalue()

    def restored(self, data: bytes) -> Host:
        """Return a node from bytes that this very process wrote."""
        found: Host = pickle.loads(data)
        return found
