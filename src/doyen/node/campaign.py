"""One election from the application's side: wait to lead, lead, be stopped.

    node.lead()                 async context: waits until elected; the body is cancelled when leadership is lost
    async for term in terms()   for ever: each pass is one leadership, and `async with term` is its body

A body is stopped by cancelling its task, as `asyncio.timeout` does, so that other cancellations are told apart.
`lead()` then raises `LeadershipLost`; a term of `terms()` ends its body quietly, and the loop goes on (decision 71).
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from doyen.core.clock import FOREVER, Duration, Instant, parse_duration, to_seconds
from doyen.core.commands import Resign, Stand
from doyen.core.ids import NodeId, node_id
from doyen.core.ids import Term as TermId
from doyen.core.leadership import HandOverDue
from doyen.errors import LeadershipLost, LocalProtocolError
from doyen.node.events import Bell, LeaderInfo
from doyen.node.reign import Reign

if TYPE_CHECKING:
    from doyen.node.node import Node

log = logging.getLogger("doyen")

DESCRIBED_S: Final = 1.0  # How long a leader that is named may take to say what it is.
BODY_PATIENCE_S: Final = 5.0  # How long cancelled bodies may take to end before the others are notified.


class Term:
    """One leadership of this node.  Use it as an async context manager; it can be entered once."""

    def __init__(self, campaign: "Campaign", term: TermId) -> None:
        self._campaign, self._term = campaign, term
        self._lost = ""  # Why, once it is.
        self._task: asyncio.Task[object] | None = None
        self._cancelled = self._entered = False
        self._raises = False
        self.on_end: Callable[[], object] | None = None  # For bodies that cannot be cancelled.

    @property
    def number(self) -> int:
        """Return the number of this reign; it is a fence only with a quorum election (Pole) or an engine."""
        return self._term.number

    @property
    def leader(self) -> str:
        """The name of the leader, which is this node."""
        return self._term.leader

    @property
    def lost(self) -> bool:
        """Whether leadership is over; where there is a lease, the clock alone decides, whatever the timers do."""
        return bool(self._lost) or not self._campaign.holds(self._term)

    @property
    def reason(self) -> str:
        """Why leadership was lost; an empty text while it is held."""
        return self._lost or ("lease over" if self.lost else "")

    def check(self) -> None:
        """Raise `LeadershipLost` if leadership is over; call it before every step that only a leader may take."""
        if self.lost:
            raise LeadershipLost(self._term.number, self.reason)

    def __repr__(self) -> str:
        return f"Term({self.number}, {self.leader!r}{', lost: ' + self.reason if self.lost else ''})"

    async def __aenter__(self) -> "Term":
        if self._entered:
            raise LocalProtocolError("a term can be entered once: ask for the next")
        self._entered = True
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        if self.lost:
            self._stop(self.reason)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> bool:
        task, self._task = self._task, None
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
        if self._raises and (stopped or overran):
            raise LeadershipLost(self._term.number, self.reason) from None
        return stopped

    def end(self, reason: str) -> None:
        """End this leadership, and stop its body."""
        if not self._lost:
            self._lost = reason
            if not self._campaign.awaits(self._task):
                self._stop(reason)
            if self.on_end is not None:
                self.on_end()

    def release(self) -> None:
        """Note that its body is done, wherever that ran."""
        self._campaign.ended(self)

    def _stop(self, reason: str) -> None:
        if self._task is not None and not self._cancelled:
            self._cancelled = True
            self._task.cancel(f"leadership lost: {reason}")


class Leading:
    """Waits to be elected on entering, and raises `LeadershipLost` if leadership ends before its body."""

    def __init__(self, campaign: "Campaign", timeout_s: float | None) -> None:
        self._campaign, self._timeout_s = campaign, timeout_s
        self._term: Term | None = None

    async def win(self) -> Term:
        """Wait until this node is elected; raise `TimeoutError` if that takes too long."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._campaign.won()
        except TimeoutError:
            leader = self._campaign.leader
            who = "nobody" if leader is None else leader.name
            raise TimeoutError(f"not elected within {self._timeout_s:g} s: {who} leads") from None

    async def __aenter__(self) -> Term:
        self._term = await self.win()
        self._term._raises = True
        return await self._term.__aenter__()

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> bool:
        assert self._term is not None
        return await self._term.__aexit__(kind)


class Campaign:
    """One election of a node: the group's own, or one of its named ones."""

    def __init__(self, node: "Node", reign: Reign) -> None:
        self._node, self._reign = node, reign
        self._active: set[Term] = set()
        self._bell = Bell()
        self._lease_watch: asyncio.TimerHandle | None = None
        self._cooling: asyncio.TimerHandle | None = None
        self._handover: asyncio.Task[None] | None = None
        self._askers: set[asyncio.Task[object] | None] = set()  # Who wait for bodies to end.
        # Awaited before others are notified: what acts on this leadership stops before the next begins (decision 72).
        self.before_handing_over: Callable[[], Awaitable[None]] | None = None
        self._handing_over = False  # Nobody begins to act on it any more.

    def __repr__(self) -> str:
        return f"<doyen.Campaign {self.name!r} of {self._node.name!r}: {self.in_words()}>"

    def in_words(self) -> str:
        """Return who leads, in a few words."""
        term = self._reign.term
        if self.is_leader:
            return f"this node leads, term {0 if self._reign.mine is None else self._reign.mine.number}"
        return "nobody leads" if term is None else f"{term.leader} leads, term {term.number}"

    @property
    def name(self) -> str:
        """The name of this election; the group's own has the name ""."""
        return self._reign.name

    @property
    def is_leader(self) -> bool:
        """Whether this node may act as leader at this very instant."""
        return self._node.running and self._reign.is_leader(self._node.clock())

    @property
    def leader(self) -> LeaderInfo | None:
        """The leader that this node names, or None; a node that has ended names nobody."""
        if not self._node.running:
            return None
        return self._node.agent.stack.leader_info(self._reign)

    @property
    def term(self) -> TermId | None:
        """The number and the leader of the term that this node names, or None."""
        return self._reign.term

    async def wait_for_leader(self, timeout: str | float | None = None) -> LeaderInfo:
        """Wait until this node names a leader that has said what it is, and return it; or raise `TimeoutError`.

        A leader that does not say it within a second is returned as it is known.
        """
        timeout_s = None if timeout is None else to_seconds(parse_duration(timeout))
        leader: LeaderInfo | None = None
        try:
            async with asyncio.timeout(timeout_s):
                while (leader := self.leader) is None:
                    self._node.check_running()
                    await self.changed()
                with suppress(TimeoutError):
                    async with asyncio.timeout(DESCRIBED_S):
                        while self._node.running and not self._node.agent.stack.is_described(self._reign):
                            await self.changed()
        except TimeoutError:
            if leader is None:
                raise TimeoutError(f"nobody leads after {timeout_s:g} s: node.explain() says why") from None
        return self.leader or leader

    def lease_until(self) -> Instant | None:
        """Return the end of the lease on `CLOCK_BOOTTIME`, if nothing further is heard; None: there is no lease."""
        return self._reign.lease_until()

    def lead(self, timeout: str | float | None = None) -> Leading:
        """Wait until this node is elected (or `TimeoutError`); the body is cancelled when leadership is lost."""
        return Leading(self, None if timeout is None else to_seconds(parse_duration(timeout)))

    async def terms(self) -> AsyncGenerator[Term, None]:
        """Yield one leadership after another, until the node leaves."""
        done: TermId | None = None
        while True:
            try:
                term = await self.won(after=done)
            except LocalProtocolError:
                if self._node.left:
                    return
                raise
            yield term
            done = term._term if not term.lost else None  # Who comes back while it still leads waits for the next.

    async def resign(self, cooldown: str | float = "30s", to: str | None = None) -> None:
        """Give leadership up, to the best of the others or to `to`, and do not contend again before `cooldown` is over.

        Returns once this node no longer leads; nothing happens if it did not.
        """
        wait = parse_duration(cooldown)
        target = None if to is None else node_id(to)
        self._node.check_running()
        machine = self._reign.machine
        if machine is None or not self._reign.kind.resigns:
            raise LocalProtocolError(f"{self._reign.kind.name} elections have no resignation: leave instead")
        if self._reign.mine is None:
            return
        machine.check_heir(target)
        with self.asked():
            if self._handover is None:  # A task of its own, for it may stop the one that asks.
                self._handover = asyncio.get_running_loop().create_task(self._hand_over(target, wait))
            await asyncio.shield(self._handover)

    async def hand_over(self, due: HandOverDue) -> None:
        """Hand over to a better member, unless that one is gone by now; this node may be elected again at once."""
        with suppress(LocalProtocolError):
            if self._handover is None and self._reign.mine is not None and self._reign.machine is not None:
                self._reign.machine.check_heir(due.to)
                self._handover = asyncio.get_running_loop().create_task(self._hand_over(due.to, 0, due.because))
                await asyncio.shield(self._handover)

    async def _hand_over(self, to: NodeId | None, wait: Duration, because: str = "") -> None:
        try:
            await self.stop_acting(because or "resigned")
            if self._node.running and self._reign.mine is not None:
                keeps_time = self._reign.kind.keeps_cool_down
                command = Resign(to, wait if keeps_time else None, because)
                self._node.agent.driver.tell(command, channel=self._reign.channel)
                if self._reign.kind.stands_again:
                    self._cool_down(wait)
            while self._node.running and self._reign.mine is not None:
                await self.changed()
        finally:
            self._handover, self._handing_over = None, False
            self.wake()

    async def stop_acting(self, because: str = "resigned") -> None:
        """Stop all bodies of this leadership and let none begin, before others are notified."""
        self._handing_over = True
        if self.before_handing_over is not None:
            await self.before_handing_over()
        for term in tuple(self._active):
            if term._task is not None and not self.awaits(term._task):
                term.end(because)
        await self.bodies_ended()

    def _cool_down(self, wait: Duration) -> None:
        if self._cooling is not None:  # Of an earlier resignation: this one's counts.
            self._cooling.cancel()
        if wait < FOREVER:
            self._cooling = asyncio.get_running_loop().call_later(to_seconds(wait), self._stand)

    def _stand(self) -> None:
        if self._node.running:
            self._node.agent.driver.tell(Stand(), channel=self._reign.channel)

    # For the node and its terms.

    def holds(self, term: TermId) -> bool:
        """Whether this node may act in that term, or in a later one of its own."""
        return self.is_leader and self._reign.mine is not None and self._reign.mine.number >= term.number

    async def won(self, after: TermId | None = None) -> Term:
        """Wait until this node leads in another term than `after`, and return it."""
        while True:
            self._node.check_running()
            mine = self._reign.mine
            if mine is not None and mine != after and self.is_leader and not self._handing_over:
                term = Term(self, mine)
                self._active.add(term)
                self._watch_lease()
                return term
            await self.changed()

    async def changed(self) -> None:
        """Wait until this election has changed."""
        self._node.check_loop()
        await self._bell.wait()

    def ended(self, term: Term) -> None:
        """Note that the body of a term has ended."""
        self._active.discard(term)
        self.wake()

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Note that the present task asks for an end: its own body is stopped last, and not waited for."""
        asking = asyncio.current_task()
        self._askers.add(asking)
        self.wake()
        try:
            yield
        finally:
            self._askers.discard(asking)
            for term in tuple(self._active):
                if term._task is asking and term._lost:
                    term._stop(term._lost)

    def awaits(self, task: asyncio.Task[object] | None) -> bool:
        """Whether that task waits for bodies to end, so that it is not stopped itself."""
        return task in self._askers

    async def bodies_ended(self) -> None:
        """Wait for the bodies that run in tasks, for `BODY_PATIENCE_S` at most."""
        try:
            async with asyncio.timeout(BODY_PATIENCE_S):
                while any(term._task is not None and not self.awaits(term._task) for term in self._active):
                    await self.changed()
        except TimeoutError:
            log.warning("%s: a body goes on %g s after it was cancelled", self._node.name, BODY_PATIENCE_S)

    def close(self) -> None:
        """Cancel the timers of this election."""
        for timer in (self._lease_watch, self._cooling):
            if timer is not None:
                timer.cancel()

    def stir(self, reason: str = "") -> None:
        """End the terms that are over, and wake the tasks that wait for a change."""
        if self._active and not self.is_leader:
            why = reason or self._reign.lost_because or ("lease over" if self._reign.mine else "outranked")
            self.end_terms(why)
        self.wake()
        self._watch_lease()

    def end_terms(self, reason: str) -> None:
        """Stop every body that acts on this leadership."""
        for term in tuple(self._active):
            term.end(reason)

    def wake(self) -> None:
        """Wake the tasks that wait for a change."""
        self._bell.ring()

    def _watch_lease(self) -> None:
        """Set a timer for the end of the lease: a body must stop by then, whatever is heard."""
        if self._lease_watch is not None:
            self._lease_watch.cancel()
            self._lease_watch = None
        until = self._reign.lease_until() if self._active else None
        if until is not None:
            wait_s = max(0.0, (until - self._node.clock()) / 1e9)
            self._lease_watch = asyncio.get_running_loop().call_later(wait_s, self.stir)
