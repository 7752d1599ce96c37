"""The turns of one node in an election: a term in which it leads, and a standby in which it would lead next.

A body is stopped by cancelling its task, as `asyncio.timeout` does, so that other cancellations are told apart.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from doyen.core.ids import Term as TermId
from doyen.errors import LeadershipLost, LocalProtocolError

if TYPE_CHECKING:
    from doyen.node.campaign import Campaign

UNSURE: Final = "; what was being handed on may or may not reach the next leader"


class Term:
    """One leadership of this node.  Use it as an async context manager; it can be entered once."""

    def __init__(self, campaign: "Campaign", term: TermId) -> None:
        self._campaign, self._term = campaign, term
        self._lost = ""  # Why, once it is.
        self.task: asyncio.Task[object] | None = None  # That of its body, while it runs.
        self._cancelled = self._entered = False
        self.raises = False  # Its end is an error to its body: `lead()`.
        self.on_end: Callable[[], object] | None = None  # For bodies that cannot be cancelled.
        self._baton = campaign.baton

    @property
    def number(self) -> int:
        """Return the number of this reign; it is a fence only with `Pole`, `Directory` or `Engine`."""
        return self._term.number

    @property
    def leader(self) -> str:
        """The name of the leader, which is this node."""
        return self._term.leader

    @property
    def lost(self) -> bool:
        """Return whether leadership is over; where there is a lease, the clock alone decides, not the timers."""
        return bool(self._lost) or not self._campaign.holds(self._term)

    @property
    def reason(self) -> str:
        """Why leadership was lost; an empty text while it is held."""
        return self._lost or ("lease over" if self.lost else "")

    def check(self) -> None:
        """Raise `LeadershipLost` if leadership is over; call it before every step that only a leader may take."""
        if self.lost:
            raise LeadershipLost(self._term.number, self.reason)

    @property
    def baton(self) -> bytes:
        """Return what the last leader handed on, and this one since; b"" at first.  Raises where there is no quorum."""
        if not self.lost:
            self._baton = self._campaign.baton
        if self._baton is None:
            raise LocalProtocolError("this election hands nothing on: only a quorum's does (election='quorum')")
        return self._baton

    async def pass_on(self, baton: bytes) -> None:
        """Hand this to the next leader, at most 512 bytes: it is on the disks of a majority when this returns.

        Raises `LeadershipLost` if this leadership ends before: the next leader may then find this, or what was before.
        """
        if not isinstance(baton, bytes):
            raise TypeError(f"a baton is bytes, not {type(baton).__name__}: encode it")
        self.check()
        try:
            await self._campaign.pass_on(baton, self)
        except asyncio.CancelledError:
            if self._lost:
                self._lost += UNSURE
            raise

    def __repr__(self) -> str:
        return f"Term({self.number}, {self.leader!r}{', lost: ' + self.reason if self.lost else ''})"

    async def __aenter__(self) -> "Term":
        if self._entered:
            raise LocalProtocolError("a term can be entered once: ask for the next")
        self._entered = True
        task = asyncio.current_task()
        assert task is not None
        self.task, self._cancelling = task, task.cancelling()
        if self.lost:
            self._stop(self.reason)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> bool:
        task, self.task = self.task, None
        assert task is not None
        stopped = self._cancelled and kind is asyncio.CancelledError
        pending = False
        if self._cancelled and not stopped:  # The body ended by itself: the cancellation is not for what comes after.
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                pending = True
        self._campaign.ended(self)
        if self._cancelled and task.uncancel() > self._cancelling:  # Somebody else cancelled, too.
            if pending:
                raise asyncio.CancelledError
            return False
        # A body that never paused could not be cancelled; its lease may have ended all the same.
        overran = kind is None and not self._cancelled and self.lost
        if self.raises and (stopped or overran):
            raise LeadershipLost(self._term.number, self.reason) from None
        return stopped

    def end(self, reason: str) -> None:
        """End this leadership, and stop its body."""
        if not self._lost:
            self._lost = reason
            if not self._campaign.awaits(self.task):
                self._stop(reason)
            if self.on_end is not None:
                self.on_end()

    def release(self) -> None:
        """Note that its body is done, wherever that ran."""
        self._campaign.ended(self)

    def stop_if_over(self) -> None:
        """Stop its body, which was spared when leadership ended."""
        if self._lost:
            self._stop(self._lost)

    def _stop(self, reason: str) -> None:
        if self.task is not None and not self._cancelled:
            self._cancelled = True
            self.task.cancel(f"leadership lost: {reason}")


class Standby:
    """The time in which this node would lead next.  Use it as an async context manager; it can be entered once."""

    def __init__(self, campaign: "Campaign") -> None:
        self._campaign = campaign
        self._task: asyncio.Task[object] | None = None
        self._entered = False
        self.over = False  # It has ended: another would lead next by now, or this node leads.
        self.promoted = False  # It has ended because this node leads.

    async def begin(self) -> "Standby":
        """Wait until this node would lead next."""
        if self._entered:
            raise LocalProtocolError("a standby can be entered once: call prepare() again")
        self._entered = True
        await self._campaign.is_next(self)
        return self

    async def __aenter__(self) -> "Standby":
        await self.begin()
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancelling = self._task.cancelling()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> bool:
        task, self._task = self._task, None
        assert task is not None
        stopped, ended = self.over, kind is asyncio.CancelledError
        self.release()
        if stopped and not ended:  # The body ended by itself: the cancellation is not for what comes after.
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        return stopped and task.uncancel() <= self._cancelling and ended

    def end(self, promoted: bool) -> None:
        """End it, and stop its body."""
        self.over, self.promoted = True, promoted
        if self._task is not None:
            self._task.cancel("this node leads" if promoted else "another would lead next")

    def release(self) -> None:
        """Note that its body is done, wherever that ran."""
        self._campaign.standbys.discard(self)
