"""What happened, in order: a hash of every event, and on request one line each.

The hash is over packed records, so that it costs little and is always on; lines are written only when asked for.

    record  = instant (8 bytes, ns) · sequence (8) · kind (1) · node (4) · peer (4), then what the kind adds:
              the encoded message where one is sent, the mask of hearers where a multicast arrives
              (a message over a plain network has one record, of its arrival: it is written as it leaves, before the
              encoded message, and again as it arrives)
    line    =     1.234567890  arrive   n003 → 41 of 49   Announcement(term=1, standing=0)
              ^ seconds        ^ kind   ^ who             ^ what

Kinds: send, multicast (a message leaves); arrive (a message is heard: by one node, or by so many of an audience);
timer; durable (a record reached the disk); world (churn, partitions and their ends); fact (a node told something).
"""

from enum import IntEnum
from hashlib import blake2b
from struct import Struct as Packed
from typing import Any, TextIO

from doyen.core.clock import Instant


class Kind(IntEnum):
    SEND = 1
    MULTICAST = 2
    ARRIVE = 3
    TIMER = 4
    DURABLE = 5
    WORLD = 6
    FACT = 7


PACK = Packed("<qqBii").pack


class Trace:
    """One run's record.  The engine appends to `records` itself, for speed; they are hashed in large pieces."""

    __slots__ = ("_hash", "lines", "records")

    def __init__(self, lines: TextIO | None = None) -> None:
        self._hash = blake2b(digest_size=16)
        self.records: list[bytes | bytearray] = []
        self.lines = lines

    def flush(self) -> None:
        self._hash.update(b"".join(self.records))
        self.records.clear()

    def digest(self) -> str:
        self.flush()
        return self._hash.hexdigest()

    def line(self, at: Instant, kind: Kind, who: str, what: Any) -> None:
        assert self.lines is not None
        self.lines.write(f"{at / 1e9:16.9f}  {kind.name.lower():9} {who:24} {what}\n")


def combined_hash(hashes: list[str]) -> str:
    """One hash of several runs, in run order."""
    return blake2b("".join(hashes).encode(), digest_size=16).hexdigest()
