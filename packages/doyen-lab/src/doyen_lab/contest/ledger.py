"""Who acts as leader, by the members' own words: the same book for every system.

A member says whom it names.  It *acts* while it names itself; where members know of nobody but themselves (candidates
that wait for a lock) that is all they say.
"""

import asyncio
from collections.abc import Callable, Collection

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.net.driver import boot_time_ns


class Word(Struct):
    """What one member last said."""

    leader: str | None = None
    named_at: Instant = 0  # When it came to name this leader.
    acts_at: Instant = 0  # When it began to act, or stopped.


class Ledger:
    def __init__(self) -> None:
        self._words: dict[str, Word] = {}
        self._changed: asyncio.Event | None = None

    def say(self, member: str, leader: str | None, at: Instant) -> None:
        """None: nobody."""
        word = self._words.setdefault(member, Word())
        if leader == word.leader:
            return
        if member in (leader, word.leader):
            word.acts_at = at
        word.leader, word.named_at = leader, at
        self.touch()

    def named_by(self, member: str) -> str | None:
        return self._words.get(member, _SILENT).leader

    def sole(self, among: Collection[str]) -> tuple[str, Instant] | None:
        """The one of them that acts, if exactly one does, and since when no other has."""
        words = {name: self._words.get(name, _SILENT) for name in among}
        acting = [name for name, word in words.items() if word.leader == name]
        return (acting[0], max(word.acts_at for word in words.values())) if len(acting) == 1 else None

    def known(self, among: Collection[str]) -> tuple[str, Instant] | None:
        """The one of them that all of them name, and since when they all do."""
        words = [self._words.get(name, _SILENT) for name in among]
        named = {word.leader for word in words}
        leader = next(iter(named)) if len(named) == 1 else None
        return (leader, max(word.named_at for word in words)) if leader is not None and leader in among else None

    # Waiting.

    def touch(self) -> None:
        """Something changed that somebody may wait for."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def steady(
        self, look: Callable[[], tuple[str, Instant] | None], unchanged_s: float, timeout_s: float
    ) -> tuple[str, Instant]:
        """What is seen, once it has been so for so long.  Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            while True:
                if self._changed is None:
                    self._changed = asyncio.Event()
                changed, found = self._changed, look()
                rest_s = None if found is None else unchanged_s - (boot_time_ns() - found[1]) / 1e9
                if found is not None and rest_s is not None and rest_s <= 0:
                    return found
                try:
                    async with asyncio.timeout(rest_s):
                        await changed.wait()
                except TimeoutError:
                    continue


_SILENT = Word()
