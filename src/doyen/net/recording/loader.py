"""A snapshot is put back into machines that were just built from the same configuration.

A file that nobody vouches for must be harmless, so loading imports nothing and calls nothing by a name in the file.
It makes objects only of classes that live where the machines do, without their constructors (but for Structs, whose
constructors only check), and sets only attributes that the code of their class names, and no method.
"""

from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from random import Random
from typing import Any, Final

from msgspec import Struct

from doyen.errors import TransportError
from doyen.net.recording.built import MAPPINGS, PLAIN, WITHOUT_DATA, Built, attributes_of, name_of, settable, slots_of
from doyen.net.recording.format import Entry, Value

OBJECTS_MAX: Final = 1_000_000
VALUES_MAX: Final = 4_000_000


class Loader:
    """Puts a snapshot into freshly built machines.  Raises `TransportError` for anything that does not fit them."""

    def __init__(self, built: Built, classes: list[str], built_classes: list[int]) -> None:
        names = [name_of(type(found)) for found in built.objects]
        if [classes[i] if 0 <= i < len(classes) else "" for i in built_classes] != names:
            raise TransportError("its machines are built otherwise than those of this version")
        self._names, self._classes = classes, [built.class_of(name) for name in classes]
        self._objects: dict[int, Any] = dict(enumerate(built.objects))
        self._built_count = len(built.objects)
        self._entries: dict[int, Entry] = {}
        self._value_count = 0

    def add(self, entries: Iterable[Entry]) -> None:
        """Take further entries."""
        for entry in entries:
            if entry.number in self._entries or len(self._entries) >= OBJECTS_MAX:
                raise TransportError(f"object {entry.number} is there twice, or one too many")
            self._entries[entry.number] = entry

    def load(self) -> None:
        """Make what is new, and fill everything, once all entries are there.

        What can change is made first, and empty, so that it may be part of anything.
        """
        entries = self._entries.values()
        for entry in entries:
            kind = self._class(entry.kind)
            if entry.number < self._built_count:
                owner = self._objects.get(entry.number)
                if type(owner) is not kind or isinstance(owner, WITHOUT_DATA) or not _can_be_filled(kind):
                    raise TransportError(f"object {entry.number} is of another type here")
            elif not issubclass(kind, bytes | tuple | frozenset | Struct | Enum):
                self._objects[entry.number] = self._try(self._made, entry)
        for entry in entries:
            if entry.number not in self._objects:
                self._objects[entry.number] = self._try(self._made, entry)
        for entry in entries:
            self._try(self._fill, entry)

    def value(self, value: Value) -> Any:
        """Return the object that a value refers to, or the value itself."""
        if not isinstance(value, tuple):
            return value
        if value[0] not in self._objects:
            raise _not_there(value[0])
        return self._objects[value[0]]

    def _values(self, values: list[Value]) -> list[Any]:
        self._value_count += len(values)
        if self._value_count > VALUES_MAX:
            raise TransportError(f"a snapshot has more than {VALUES_MAX:,} values")
        objects = self._objects
        try:
            return [objects[value[0]] if isinstance(value, tuple) else value for value in values]
        except KeyError as error:
            raise _not_there(error.args[0]) from None

    def _try(self, step: Callable[[Entry], Any], entry: Entry) -> Any:
        try:
            return step(entry)
        except (TransportError, MemoryError):
            raise
        except Exception as error:  # Whatever the checks of a Struct, or a hash, make of nonsense.
            raise TransportError(f"object {entry.number} cannot be made: {type(error).__name__}: {error}") from None

    def _class(self, kind: int | str) -> Any:
        if isinstance(kind, str):
            return PLAIN[kind]
        found = self._classes[kind] if 0 <= kind < len(self._classes) else None
        if found is None:
            name = self._names[kind] if 0 <= kind < len(self._names) else kind
            raise TransportError(f"it names a class that no machine of this stack has: {str(name)[:200]}")
        return found

    def _made(self, entry: Entry) -> Any:
        kind = self._class(entry.kind)
        if kind in (tuple, frozenset):
            return kind(self._values(entry.values))
        if kind is bytes:
            return bytes.fromhex(self.value(entry.values[0]))
        if kind is deque:
            return deque(maxlen=self.value(entry.values[0]))
        if kind in (list, set, *MAPPINGS):
            return kind()
        if issubclass(kind, Enum):
            return kind[self.value(entry.values[0])]
        if issubclass(kind, Struct):
            return kind(**dict(zip(kind.__struct_fields__, self._values(entry.values), strict=True)))
        if _has_plain_instances(kind):
            return object.__new__(kind)
        raise TransportError(f"object {entry.number} is of no type that can be made")

    def _fill(self, entry: Entry) -> None:
        owner, kind = self._objects[entry.number], self._class(entry.kind)
        if not _can_be_filled(kind):
            return
        values = self._values(entry.values)
        if kind is list:
            owner[:] = values
        elif kind is set:
            owner.clear()
            owner.update(values)
        elif kind is deque:
            owner.clear()
            owner.extend(values[1:])
        elif kind in MAPPINGS:
            owner.clear()
            half = len(values) // 2
            for key, value in zip(values[:half], values[half:], strict=True):
                owner[key] = value
        elif kind is Random:
            version, gauss, *words = values
            owner.setstate((version, tuple(words), gauss))
        elif issubclass(kind, Struct):  # Its own checks may have set some.
            for field, value in zip(owner.__struct_fields__, values, strict=True):
                setattr(owner, field, value)
        else:
            found = dict(zip(entry.names, values, strict=True))
            _set_attributes(owner, found, whole=entry.number < self._built_count)


def _not_there(number: int) -> TransportError:
    return TransportError(f"object {number} is not there, or not yet")


def _can_be_filled(kind: Any) -> bool:
    """Return whether objects of a class can change after they were made."""
    if issubclass(kind, Struct):
        return not kind.__struct_config__.frozen
    return kind in (list, set, deque, Random, *MAPPINGS) or _has_plain_instances(kind)


def _has_plain_instances(kind: Any) -> bool:
    """Return whether a class has no constructor below `__init__`, which is not called."""
    return kind.__new__ is object.__new__ and not issubclass(kind, Struct | Enum)


def _set_attributes(owner: Any, values: dict[str, Any], *, whole: bool) -> None:
    kind: Any = type(owner)
    if whole and not values.keys() >= attributes_of(owner).keys():
        raise TransportError(f"{kind.__qualname__} has further attributes here")
    for name, value in values.items():
        if name in slots_of(kind):
            object.__setattr__(owner, name, value)
        elif name in settable(kind):
            owner.__dict__[name] = value
        else:
            raise TransportError(f"{kind.__qualname__} has no attribute {name[:100]!r}")
