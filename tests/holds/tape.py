"""A tape holds every input and every effect of one machine's channel on one node, in order, as a digest and counts.

The digest survives renamed modules and classes: a value is written by its structure, and a type by the order in which
the types of that tape first appeared.  Messages and records are written as their msgpack bytes, since others read
those.  The digest does not survive a changed value, a changed order, or an effect more or less.
"""

from collections.abc import Mapping, Set
from enum import Enum
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import Struct

INPUTS: Final = ("start", "message", "timer", "fact", "command", "durable")
EFFECTS: Final = ("send", "multicast", "set_timer", "emit", "persist")
AS_BYTES: Final = ("message", "send", "multicast", "persist")  # Their last value is what the wire or the disk carries.
PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes})

_encode = msgspec.msgpack.Encoder().encode


class Tape:
    """What one channel of one node took in and gave out."""

    def __init__(self, *, verbose: bool = False) -> None:
        self.counts = dict.fromkeys((*INPUTS, *EFFECTS), 0)
        self.lines: list[str] | None = [] if verbose else None
        self._digest = blake2b(digest_size=8)
        self._types: dict[Any, int] = {}

    def note(self, kind: str, *values: Any) -> None:
        """Add one input or effect."""
        self.counts[kind] += 1
        written = [self.write(value) for value in values]
        if kind in AS_BYTES:
            written[-1] = _encode(values[-1])
        line = repr((kind, written))
        self.add(line)
        if self.lines is not None:
            self.lines.append(f"{line}  # {type(values[-1]).__name__ if values else ''}")

    def add(self, line: str) -> None:
        self._digest.update(line.encode())

    def write(self, value: Any) -> Any:
        """Return the value as nested tuples of plain values."""
        if value.__class__ in PLAIN:  # Most values are: the cases below take long.
            return value
        match value:
            case Enum():
                return self.write(value.value)
            case None | bool() | int() | float() | str() | bytes():
                return value
            case Struct():
                written: list[Any] = [f"#{self.ordinal(type(value))}"]
                for name in value.__struct_fields__:
                    held = getattr(value, name)
                    written.append(held if held.__class__ in PLAIN else self.write(held))
                return tuple(written)
            case Mapping():
                return tuple((self.write(key), self.write(held)) for key, held in value.items())
            case Set():
                return tuple(sorted((self.write(held) for held in value), key=repr))
            case list() | tuple():
                return tuple(map(self.write, value))
            case _ if hasattr(value, "members"):  # A view.
                return tuple((self.write(key), self.write(held)) for key, held in value.members.items())
        raise TypeError(f"a tape cannot write {value!r}: teach it in tests/holds/tape.py")

    def ordinal(self, kind: Any) -> int:
        """Return the number of a type or of a command's name, in the order of first appearance."""
        return self._types.setdefault(kind, len(self._types))

    def __str__(self) -> str:
        """Return the digest, then the counts of inputs, then those of effects."""
        counts = (".".join(str(self.counts[kind]) for kind in kinds) for kinds in (INPUTS, EFFECTS))
        return " ".join((self._digest.hexdigest(), *counts))


def merged(tapes: list[Tape]) -> str:
    """Return one digest of several tapes, and the sums of their counts."""
    total = Tape()
    for tape in tapes:
        total.add(str(tape))
        for kind, count in tape.counts.items():
            total.counts[kind] += count
    return str(total)
