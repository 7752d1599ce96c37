"""The state of running machines as data.

Machines are built from their configuration, which wires their ports, callables and random streams.  Every object that
a walk through freshly built machines meets is *built*, and has a number.  A snapshot writes the attributes of the built
objects as they are later, and those objects that came to be since.  What holds no data (a port, a function) is never
written, but only referred to by its number.
"""

from collections import deque
from enum import Enum
from random import Random
from typing import Any, Final

from msgspec import Struct

from doyen.errors import TransportError
from doyen.net.recording.built import (
    MAPPINGS,
    PLAIN_NAMES,
    SCALARS,
    WITHOUT_DATA,
    Built,
    attributes_of,
    name_of,
    named_by,
)
from doyen.net.recording.format import Entry, Value

DEPTH_MAX: Final = 64  # Tuples in tuples.


class Unkept(TransportError):
    """Something in a machine is no data, and was not there when the machine was built."""


class Snapshot:
    """One snapshot being taken: `keep` whatever is to be kept, then read `entries` and `classes`."""

    def __init__(self, built: Built) -> None:
        self.entries: list[Entry] = []
        self._built = built
        self._classes: dict[str, int] = {}
        self._numbers: dict[int, int] = {}  # Of objects that came to be since, by address.
        self._next = len(built.objects)
        self._seen: set[int] = set()  # Built ones.
        self._todo: list[tuple[int, Any, str]] = []  # (number, object, where it was met)
        self._keep: list[Any] = []  # What has no other owner keeps its address while the snapshot is taken.
        self._where = ""

    @property
    def classes(self) -> list[str]:
        """Return the classes that were named so far."""
        return list(self._classes)

    def built_classes(self) -> list[int]:
        """Return the class of each built object, for a check that replay builds the same."""
        return [self._class(type(found)) for found in self._built.objects]

    def keep(self, value: Any) -> Value:
        """Write a value and everything that it refers to, and return how the file refers to it."""
        found = self._refer(value, 0)
        while self._todo:
            number, owner, self._where = self._todo.pop()
            self._write(number, owner)
        return found

    def _refer(self, value: Any, depth: int) -> Value:
        kind = type(value)
        if kind in SCALARS:
            if kind is int and not -(1 << 63) <= value < 1 << 64:
                raise Unkept(f"{self._where}: {value} is too large")
            return value  # type: ignore[no-any-return]
        number = self._built.numbers.get(id(value))
        if number is not None:
            if number not in self._seen:
                self._seen.add(number)
                self._todo.append((number, value, self._where))
            return (number,)
        number = self._numbers.get(id(value))
        if number is None:
            number = self._found(value, kind, depth + 1)
            self._numbers[id(value)] = number
            self._keep.append(value)
        return (number,)

    def _found(self, value: Any, kind: Any, depth: int) -> int:
        """Write a new object: at once, but after its parts, if it cannot change; else later, and it may be a cycle."""
        if depth > DEPTH_MAX:
            raise Unkept(f"{self._where}: too deeply nested, or within itself")
        if kind is Random or (kind not in PLAIN_NAMES and not self._built.has_name(kind)):
            raise Unkept(f"{self._where}: {kind.__qualname__} is no data")
        number = self._next
        self._next += 1
        if isinstance(value, bytes | tuple | frozenset | Enum | Struct):
            self._write(number, value, depth)
        else:
            self._todo.append((number, value, self._where))
        return number

    def _class(self, kind: type) -> int:
        return self._classes.setdefault(name_of(kind), len(self._classes))

    def _write(self, number: int, value: Any, depth: int = 0) -> None:
        """Write an object; of a built one that cannot change, go on to its parts alone."""
        kind: Any = type(value)
        if isinstance(value, WITHOUT_DATA):
            return
        if kind in PLAIN_NAMES:
            values = [self._refer(part, depth) for part in _parts(value)]
            self.entries.append(Entry(number, PLAIN_NAMES[kind], values))
        elif isinstance(value, Enum):
            self.entries.append(Entry(number, self._class(kind), [value.name]))
        elif isinstance(value, Struct):
            values = [self._refer(getattr(value, field), depth) for field in value.__struct_fields__]
            if number not in self._seen or not value.__struct_config__.frozen:
                self.entries.append(Entry(number, self._class(kind), values))
        elif self._built.is_at_home(kind):
            attributes: dict[str, Value] = {}
            for name, held in attributes_of(value).items():
                self._where = f"{kind.__qualname__}.{name}"
                if name not in named_by(kind):
                    raise Unkept(f"{self._where} is not named in the code of its class")
                attributes[name] = self._refer(held, 0)
            self.entries.append(Entry(number, self._class(kind), list(attributes.values()), list(attributes)))
        else:
            raise Unkept(f"{self._where}: {kind.__qualname__} is no data")


def _parts(value: Any) -> list[Any]:
    """Return what one of Python's own objects consists of, as `loader` puts it together again."""
    if isinstance(value, Random):
        version, words, gauss = value.getstate()
        return [version, gauss, *words]
    if isinstance(value, bytes):
        return [value.hex()]
    if isinstance(value, MAPPINGS):
        return [*value, *value.values()]
    return [value.maxlen, *value] if isinstance(value, deque) else [*value]
