"""The parts of a handshake by echo, sealed or in the clear: tokens without memory, a pace, and what is said again."""

import os
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Final

from doyen.core.hashes import blake2b
from doyen.core.ids import Address, NodeId

MARK: Final = b"\xc1"  # The one byte that msgpack never uses.
TOKEN_BYTES: Final = 8
ASKING_BYTES: Final = len(MARK) + 2 * TOKEN_BYTES  # MARK · token · echo.
NONE: Final = bytes(TOKEN_BYTES)
TOKEN_S: Final = 30.0  # A token is good for this time, and for as long again.
ANSWERS_PER_S: Final = 500.0  # Handshakes sent to all together; as many may leave at once.
ASK_EVERY_S: Final = 0.2  # The least time between two questions to one source, or two answers to it.
AGAIN_S: Final = 2.0  # What is older is not said again.
AGAIN_MAX: Final = 64  # Addresses for which the last datagram is kept.

_Words = tuple[float, bytes, NodeId | None]  # When, what, and to whom alone.


class Tokens:
    """Makes tokens from a secret, the other's mark and the time, so that nothing is kept for strangers."""

    def __init__(self) -> None:
        self._secret = os.urandom(32)

    def token(self, whom: bytes, now: float) -> bytes:
        slot = int(now // TOKEN_S).to_bytes(8, "big", signed=True)
        return blake2b(whom + slot, key=self._secret, digest_size=TOKEN_BYTES).digest()

    def knows(self, echo: bytes, whom: bytes, now: float) -> bool:
        """Return whether this token was given to that peer, and is not too old."""
        return echo in (self.token(whom, now), self.token(whom, now - TOKEN_S))


class Pace:
    """Bounds how often strangers are answered: each source, and all together."""

    def __init__(self, now: float, memory: int) -> None:
        self._last: OrderedDict[Hashable, float] = OrderedDict()
        self._memory, self._allowance, self._allowed_at = memory, ANSWERS_PER_S, now

    def allows(self, source: Hashable, now: float) -> bool:
        if now - self._last.get(source, -ASK_EVERY_S) < ASK_EVERY_S:
            return False
        self._allowance = min(ANSWERS_PER_S, self._allowance + (now - self._allowed_at) * ANSWERS_PER_S)
        self._allowed_at = now
        if self._allowance < 1:
            return False
        self._allowance -= 1
        self._last[source] = now
        self._last.move_to_end(source)
        if len(self._last) > self._memory:
            self._last.popitem(last=False)
        return True


class Said:
    """Keeps what was said last, to all and to each address, for one that has dropped it and believes us now."""

    def __init__(self) -> None:
        self._to_all: _Words = (-AGAIN_S, b"", None)
        self._to: OrderedDict[Address, _Words] = OrderedDict()

    def note(self, to: Address | None, data: bytes, node: NodeId | None, now: float) -> None:
        """Note a datagram to one address, or to all (None); `node` is the member that it is for alone."""
        if to is None:
            self._to_all = (now, data, None)
            return
        self._to[to] = (now, data, node)
        self._to.move_to_end(to)
        if len(self._to) > AGAIN_MAX:
            self._to.popitem(last=False)

    def again(self, to: Address, now: float) -> Iterator[tuple[bytes, NodeId | None]]:
        """Yield what was said there lately, and to whom alone."""
        for words in (self._to_all, self._to.get(to)):
            if words is not None and words[1] and now - words[0] <= AGAIN_S:
                yield words[1:]
