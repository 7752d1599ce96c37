"""Events of a group as values, and a bounded queue that drops the oldest and says so."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from doyen.core.clock import Instant

BACKLOG_MAX: Final = 1000


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """Something that happened in the group, as this node saw it.

    kind: elected, lost; joined, alive, suspected, failed, left, updated, forgotten: a member's state, or something else
    about it; accused: somebody suspects it; changed: it says something new of itself; shortage: why nobody can be
    elected; waiting: why this node, named leader, does not act yet; alone: it acts and knows of nobody; differs: a
    member runs another election, membership or rank than this node; stopped: this node has ended.  A reader first gets
    what holds, marked `already`: an event for each member that is present and for each leader.
    """

    kind: str
    """What happened: elected, lost, joined, alive, suspected, failed, left, changed, forgotten, shortage, stopped."""
    at: float
    """The wall clock when it happened, in seconds."""
    clock: Instant = 0
    """The same moment by CLOCK_BOOTTIME, in nanoseconds, which all processes of one machine share."""
    election: str = ""
    """The name of the election; the group's own has the name ""."""
    leader: str | None = None
    """The leader that was elected, or lost."""
    term: int | None = None
    """The number of that leader's term."""
    member: str | None = None
    """The member that it is about."""
    state: str = ""
    """The state of that member: alive, suspected, failed, left or forgotten."""
    by: tuple[str, ...] = ()
    """The members that suspect it."""
    incarnation: int | None = None
    """The incarnation of that member, which grows whenever its name starts anew."""
    address: str | None = None
    """Where that member, or the leader, is reached, as host:port."""
    reason: str = ""
    """Why it happened, in words."""
    compared: dict[str, str] = {}
    """The values that an election compared, by member, as far as this node knows them."""
    already: bool = False
    """Whether it held before the reader began, and is no news."""
    dropped: int = 0
    """How many events before this one were dropped, because the reader is too slow."""


class LeaderInfo(Struct, frozen=True, kw_only=True):
    """The leader that a node names, and what the leader says of itself, as far as it has come to this node."""

    name: str
    """The name of the leader."""
    address: str | None = None
    """Where doyen's datagrams reach the leader, as host:port; None: not known yet."""
    meta: Mapping[str, str] = {}
    """The leader's `meta`, such as the URL that it serves; empty until it has come."""
    term: int
    """The number of the leader's term."""
    since: float
    """The leader's own wall clock when it was elected, in seconds; this node's clock until the leader has said it."""


class MemberInfo(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """One member of the group, as this node believes."""

    name: str
    """The name of the member."""
    address: str | None = None
    """Where the member is reached, as host:port; None: not known."""
    state: str = "alive"
    """The state of the member: alive, suspected, failed or left; unknown: a voter that nothing here hears of."""
    since_s: float = 0.0
    """For how many seconds the member has had this state."""
    score: float | None = None
    """The score that the member gives itself; None: it has given none."""
    eligible: bool = True
    """Whether the member may lead."""
    health: float = 1.0
    """1 for a member that is well; each suspicion that is remembered halves it."""
    incarnation: int = 0
    """The incarnation of the member, which grows whenever its name starts anew."""
    software: str = ""
    """The version of doyen that the member runs."""
    meta: Mapping[str, str] = {}
    """The words that the member was given as `meta`."""
    suspected_by: tuple[str, ...] = ()
    """The members that suspect it, as far as this node has heard."""
    refute_within_s: float | None = None
    """For how many seconds a suspected member may still refute; None: it is not suspected."""
    rtt_s: float | None = None
    """The round trip between this node and the member in seconds, smoothed; None: nothing here pings it."""
    me: bool = False
    """Whether the member is this node itself."""
    leads: bool = False
    """Whether this node names the member as leader of the group's own election."""


class View(Struct, frozen=True, kw_only=True):
    """The group as a node sees it at one moment."""

    members: tuple[MemberInfo, ...]
    """All members that the node knows, sorted by name; those that failed or left stay for a while."""
    leader: LeaderInfo | None
    """The leader of the group's own election, or None."""
    at: float
    """The wall clock of that moment, in seconds."""


class Bell:
    """Wakes the tasks that wait for a change."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], None] = {}  # Woken in the order in which they came.

    async def wait(self) -> None:
        """Wait until it is rung."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiting] = None
        try:
            await waiting
        finally:
            self._waiting.pop(waiting, None)

    def ring(self) -> None:
        for waiting in tuple(self._waiting):
            if not waiting.done():
                waiting.set_result(None)


class Subscription:
    """One reader of events, which gets those first that hold already."""

    def __init__(self, first: list[Event] | None = None) -> None:
        self._first = first or []
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
        for event in self._first:
            yield event
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
