"""What happened, in order: a hash of every event, and on request one line each.

The hash costs little and is always on: the engine appends to two lists, which are hashed in large pieces.

    numbers   a timer: its instant (ns), its sequence number, its node; a delivery: its sequence number (where delays
              vary, its instant as it is sent)
              a message that leaves: its receiver (-1: all); its sender is the node of the event
              a fact: the instant, and its node counted down from -1
    texts     of a message that leaves, its encoding; of a multicast that arrives, the mask of its hearers
              of what the world does (churn, partitions, finished writes), its name

Lines are written only when asked for.

    line    =     1.234567890  arrive   n003 → 41 of 49   Announcement(term=1, standing=0)
              ^ seconds        ^ kind   ^ who             ^ what

Kinds: send, multicast (a message leaves); arrive (a message is heard: by one node, or by so many of an audience);
timer; durable (a record reached the disk); world (churn, partitions and their ends); fact (a node told something).
"""

from array import array
from enum import IntEnum
from hashlib import blake2b
from sys import byteorder
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


class Trace:
    """One run's record.  Who writes to `numbers` and `texts` is in `doyen.sim`: by itself, for speed."""

    __slots__ = ("_hashes", "lines", "numbers", "texts")

    def __init__(self, lines: TextIO | None = None) -> None:
        self._hashes = blake2b(digest_size=16), blake2b(digest_size=16)
        self.numbers: list[int] = []
        self.texts: list[bytes | bytearray] = []
        self.lines = lines

    def flush(self) -> None:
        numbers = array("q", self.numbers)
        if byteorder == "big":
            numbers.byteswap()
        self._hashes[0].update(numbers)
        self._hashes[1].update(b"".join(self.texts))
        self.numbers.clear()
        self.texts.clear()

    def digest(self) -> str:
        self.flush()
        return blake2b(b"".join(part.digest() for part in self._hashes), digest_size=16).hexdigest()

    def line(self, at: Instant, kind: Kind, who: str, what: Any) -> None:
        assert self.lines is not None
        self.lines.write(f"{at / 1e9:16.9f}  {kind.name.lower():9} {who:24} {what}\n")


def combined_hash(hashes: list[str]) -> str:
    """One hash of several runs, in run order."""
    return blake2b("".join(hashes).encode(), digest_size=16).hexdigest()
