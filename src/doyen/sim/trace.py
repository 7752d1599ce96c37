"""Records what happened, in order: a hash of every event, and on request one line each.

The hash costs little and is always on: the engine appends to a list, which is encoded (as msgpack) and hashed in large
pieces.

    a timer                    its instant (ns), its node
    a unicast's end            its receiver, once it is heard; -1 minus its receiver, as soon as it is lost
    a multicast's end          the mask of its hearers
    a message that leaves      over a plain network its channel hashes what it says, many messages at a time;
                               else its receiver (-1: all), what it says, and the instant of each arrival
    a fact                     the instant, and its node counted down from -1
    what the world does        the instant (of a start or a crash: also the node, and its incarnation), and its name

Lines are written only when asked for.

    line    =     1.234567890  arrive   n003 → 41 of 49   Announcement(term=1, standing=0)
              ^ seconds        ^ kind   ^ who             ^ what

Kinds: send, multicast (a message leaves); arrive (a message is heard: by one node, or by so many of an audience);
timer; durable (a record reached the disk); world (churn, partitions and their ends); fact (a node told something).
"""

from hashlib import blake2b
from typing import Any, Literal, Protocol, TextIO

from msgspec.msgpack import Encoder

from doyen.core.clock import Instant

Kind = Literal["send", "multicast", "arrive", "timer", "durable", "world", "fact"]


class Hashed:
    """A list of what can be encoded, and the hash of all that it held."""

    __slots__ = ("_hash", "items")

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self.items: list[Any] = []

    def flush(self) -> int:
        """Hash the items; return how many bytes they were."""
        count = len(self.items)
        data = memoryview(_encode(self.items))[1 if count < 16 else 3 if count < 1 << 16 else 5 :]
        self._hash.update(data)  # Without the list's own header, so that it does not matter how many came together.
        self.items.clear()
        return len(data)

    def digest(self) -> bytes:
        return self._hash.digest()


_encode = Encoder().encode


class Part(Protocol):
    def flush(self) -> None: ...

    def digest(self) -> bytes: ...


class Trace:
    """The record of one run; modules of `doyen.sim` write to `records` directly, for speed."""

    __slots__ = ("_hashed", "lines", "parts", "records")

    def __init__(self, lines: TextIO | None = None) -> None:
        self._hashed = Hashed()
        self.records = self._hashed.items
        self.parts: list[Part] = []  # What channels hash by themselves.
        self.lines = lines

    def flush(self) -> None:
        self._hashed.flush()
        for part in self.parts:
            part.flush()

    def digest(self) -> str:
        self.flush()
        digests = [self._hashed.digest(), *(part.digest() for part in self.parts)]
        return blake2b(b"".join(digests), digest_size=16).hexdigest()

    def line(self, at: Instant, kind: Kind, who: str, what: Any) -> None:
        assert self.lines is not None
        self.lines.write(f"{at / 1e9:16.9f}  {kind:9} {who:24} {what}\n")


def combined_hash(hashes: list[str]) -> str:
    """Return one hash of several runs, in run order."""
    return blake2b("".join(hashes).encode(), digest_size=16).hexdigest()
