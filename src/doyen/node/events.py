"""Events of a group as values, and a bounded queue that drops the oldest and says so."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from doyen.core.clock import Instant

BACKLOG_MAX: Final = 1000


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened in the group, as this node saw it.

    kind: elected, lost; joined, alive, suspected, failed, left, updated, forgotten: a member's state, or something else
    about it; accused: somebody suspects it; changed: it says something new of itself; shortage: why nobody can be
    elected; stopped: this node has ended.
    """

    kind: str
    at: float  # Wall clock, in seconds.
    clock: Instant = 0  # CLOCK_BOOTTIME: the same for all processes of one machine.
    election: str = ""
    leader: str | None = None
    term: int | None = None
    member: str | None = None
    state: str = ""  # The member's: alive, suspected, failed, left, forgotten.
    by: tuple[str, ...] = ()  # Who suspects the member.
    incarnation: int | None = None
    address: str | None = None
    reason: str = ""
    compared: dict[str, str] = {}  # elected: the values that were compared, by member, as far as this node knows.
    dropped: int = 0  # How many events before this one were dropped, because their reader is too slow.


class LeaderInfo(Struct, frozen=True, kw_only=True):
    """The leader that this node names, and what the leader says of itself, as far as it has come here."""

    name: str
    address: str | None = None  # Where doyen's datagrams reach it; None: not known yet.
    meta: Mapping[str, str] = {}  # What it was given as `meta`.
    term: int
    since: float  # Wall clock, in seconds, when it was elected.


class MemberInfo(Struct, frozen=True, kw_only=True):
    """One member, as this node believes."""

    name: str
    address: str | None = None
    state: str = "alive"  # alive, suspected, failed, left; unknown: a voter that nothing here hears of.
    since_s: float = 0.0  # For how long.
    score: float | None = None
    eligible: bool = True
    health: float = 1.0  # 1 is well; halves with every suspicion that is remembered.
    incarnation: int = 0
    software: str = ""
    meta: Mapping[str, str] = {}
    suspected_by: tuple[str, ...] = ()
    refute_within_s: float | None = None  # suspected: for how long it may still refute.
    rtt_s: float | None = None  # Between this node and that one, smoothed; None: nothing here pings it.
    me: bool = False
    leads: bool = False


class Subscription:
    """One reader of events."""

    def __init__(self) -> None:
        self._waiting: deque[Event] = deque(maxlen=BACKLOG_MAX)
        self._wake: asyncio.Future[None] | None = None
        self._dropped = 0
        self._closed = False

    def put(self, event: Event) -> None:
        self._dropped += len(self._waiting) == BACKLOG_MAX
        self._waiting.append(event)
        self._stir()

    def close(self) -> None:
        """End the subscription; events that wait are still read."""
        self._closed = True
        self._stir()

    def _stir(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def read(self) -> AsyncGenerator[Event, None]:
        while True:
            while self._waiting:
                event = self._waiting.popleft()
                if self._dropped:
                    event, self._dropped = replace(event, dropped=self._dropped), 0
                yield event
            if self._closed:
                return
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
