"""The same names for programs of threads: a loop of its own in the background, and plain calls.

    with doyen.sync.join("reports", seeds=["10.0.0.2"]) as node:
        with node.lead(timeout="30s") as term:
            nightly(fence=term.number, still_mine=term.check)

A thread cannot be stopped from outside, so a body asks: `term.check()` raises `LeadershipLost`, `term.lost` tells,
`term.wait_lost(seconds)` waits; and a body that ends after leadership was lost gets the same error.
On SIGTERM the main thread gets `SystemExit`, so a body there unwinds, its `finally` included; then the node leaves.
"""

import asyncio
import inspect
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from doyen.core.ids import Term as TermId
from doyen.core.kinds import ElectionChoice
from doyen.errors import LeadershipLost as LeadershipLost
from doyen.errors import LocalProtocolError
from doyen.node import campaign as _campaign
from doyen.node import node as _node
from doyen.node import term as _turn
from doyen.node.callbacks import Callback
from doyen.node.events import Event as Event
from doyen.node.events import LeaderInfo as LeaderInfo
from doyen.node.events import MemberInfo as MemberInfo
from doyen.node.events import View as View
from doyen.node.explain import Explanation
from doyen.node.join import join as _join
from doyen.node.registry import ElectionName
from doyen.node.sigterm import forget, unwind_on_sigterm

T = TypeVar("T")
P = ParamSpec("P")

__all__ = ["Campaign", "Event", "LeaderInfo", "LeadershipLost", "MemberInfo", "Node", "Term", "View", "join"]

EXIT_PATIENCE_S: Final = 8.0  # How long a node may take to leave when the interpreter ends.


def _in_threads(join: Callable[P, _node.Node]) -> "Callable[P, Node]":
    """Return a `join` for threads, with the very arguments of the other."""

    @wraps(join)
    def joined(*group: P.args, **fields: P.kwargs) -> "Node":
        return Node(join(*group, **fields))

    joined.__doc__ = (join.__doc__ or "").replace("joins with `async with`", "joins with `with`, for threads")
    joined.__signature__ = inspect.signature(join).replace(return_annotation=Node)  # type: ignore[attr-defined]
    return joined


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._door = threading.Lock()  # Held while something is begun, and while the loop closes.

    def start(self) -> None:
        self.loop, self._process = asyncio.new_event_loop(), os.getpid()
        self._thread = threading.Thread(target=self._run, args=(self.loop,), name="doyen", daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], Coroutine[Any, Any, T]], timeout_s: float | None = None) -> T:
        """Run a coroutine on the loop and return its result; a caller that is interrupted meanwhile cancels it."""
        future = self.begin(work)
        try:
            return future.result(timeout_s)
        except BaseException:
            future.cancel()
            raise

    def begin(self, work: Callable[[], Coroutine[Any, Any, T]]) -> "Future[T]":
        if self.loop is None:
            raise LocalProtocolError("this node has not joined yet: with doyen.sync.join(…) as node")
        if self.foreign:
            raise LocalProtocolError("this process was forked from the one that joined: call doyen.sync.join(…) here")
        if self.here:
            raise LocalProtocolError("this would wait for itself: a score function must not wait for its own node")
        with self._door:
            if self.loop.is_closed():
                raise LocalProtocolError("this node has left: make another, doyen.sync.join(…)")
            return asyncio.run_coroutine_threadsafe(work(), self.loop)

    @property
    def here(self) -> bool:
        """Return whether this is its own thread."""
        return self.loop is not None and threading.current_thread() is self._thread

    @property
    def running(self) -> bool:
        return self.loop is not None and self.loop.is_running() and not self.foreign

    @property
    def foreign(self) -> bool:
        """Return whether this is a fork of the process that joined: its threads are not here."""
        return self._process != os.getpid()

    def is_over(self) -> bool:
        return self.loop is not None and self.loop.is_closed()

    def abandon(self, source: AsyncGenerator[Any, None]) -> None:
        """Have a source ended that nobody reads any more; a loop that closes does so itself.

        Nothing is waited for: this may be the collector's doing, on any thread, or at the interpreter's end.
        """
        if self.loop is not None and self.running and self._door.acquire(blocking=False):
            try:
                asyncio.run_coroutine_threadsafe(source.aclose(), self.loop)
            finally:
                self._door.release()

    def stop(self) -> None:
        """Let waiting callers know that nothing will come, then end the thread."""
        loop = self.loop
        assert loop is not None
        asyncio.run_coroutine_threadsafe(_settled(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.run_forever()
        with self._door:  # What was begun since it settled ends, too: its caller would wait without end.
            loop.run_until_complete(_settled())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()


async def _settled() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    if rest:
        _, late = await asyncio.wait(rest, timeout=1)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


class Term:
    """One leadership of this node."""

    def __init__(self, term: _turn.Term, loop: _Loop) -> None:
        self._term, self._loop = term, loop
        self._over = threading.Event()
        term.on_end = self._over.set
        if term.lost:  # Meanwhile.
            self._over.set()

    def __repr__(self) -> str:
        return repr(self._term)

    @property
    def number(self) -> int:
        """The number of this leadership; it is a fence only with a quorum election (`doyen.Pole`)."""
        return self._term.number

    @property
    def leader(self) -> str:
        """The name of the leader, which is this node."""
        return self._term.leader

    @property
    def lost(self) -> bool:
        """Return whether leadership is over; where there is a lease, the clock alone decides."""
        return self._term.lost

    @property
    def reason(self) -> str:
        """Why leadership was lost; an empty text while it is held."""
        return self._term.reason

    def check(self) -> None:
        """Raise `LeadershipLost` if leadership is over; call it before every step that only a leader may take."""
        self._term.check()

    @property
    def baton(self) -> bytes:
        """The bytes handed on by the last leader, or by this one since; b"" at first.  Raises without a quorum."""
        return self._term.baton

    def pass_on(self, baton: bytes) -> None:
        """Hand this to the next leader, at most 512 bytes: it is on the disks of a majority when this returns.

        Raises `LeadershipLost` if this leadership ends before: the next leader may then find this, or what was before.
        """
        self._loop.call(lambda: self._term.pass_on(baton))

    def wait_lost(self, timeout_s: float | None = None) -> bool:
        """Wait until leadership is lost, or for `timeout_s`; return whether it is lost."""
        self._over.wait(timeout_s)
        return self.lost

    def __enter__(self) -> "Term":
        return self

    def __exit__(self, *error: object) -> None:
        if self._loop.running:
            self._loop.call(self._end)

    async def _end(self) -> None:
        self._term.release()


class Campaign:
    """One election of a node."""

    def __init__(self, campaign: _campaign.Campaign, loop: _Loop) -> None:
        self._campaign, self._loop = campaign, loop

    def __repr__(self) -> str:
        return repr(self._campaign).replace("doyen.", "doyen.sync.", 1)

    @property
    def name(self) -> str:
        """The name of this election; the group's own has the name ""."""
        return self._campaign.name

    @property
    def is_leader(self) -> bool:
        """Return whether this node may act as leader at this very instant; with a weak election two nodes may."""
        return self._campaign.is_leader

    @property
    def term(self) -> TermId | None:
        """The number and the leader of the term that this node names, or None."""
        return self._campaign.term

    @property
    def leader(self) -> LeaderInfo | None:
        """The leader that this node names, or None."""
        return self._campaign.leader

    @property
    def heir(self) -> str | None:
        """The name of the next leader, as the present one says; None: not known, or no quorum."""
        return self._campaign.heir

    def prepare(self) -> "_Preparing":
        """Wait until this node is the heir; the body asks `standby.over` whether it still is."""
        return _Preparing(self._campaign, self._loop)

    def wait_for_leader(self, timeout: str | float | None = None) -> LeaderInfo:
        """Wait until this node names a leader that has said what it is, and return it; or raise `TimeoutError`."""
        return self._loop.call(lambda: self._campaign.wait_for_leader(timeout))

    def lead(self, timeout: str | float | None = None) -> "_Leading":
        """Wait until this node is elected, or raise `TimeoutError`; the body asks `term.check()` if it still leads."""
        return _Leading(self._campaign, self._loop, timeout)

    def terms(self) -> Iterator[Term]:
        """Yield one leadership after another, until the node leaves."""
        for term in _iterate(self._campaign.terms(), self._loop):
            yield Term(term, self._loop)

    def resign(self, cooldown: str | float = "30s", to: str | None = None) -> None:
        """Give leadership up, to the best of the others or to `to`, and do not contend before `cooldown` is over."""
        self._loop.call(lambda: self._campaign.resign(cooldown, to))


class _Preparing:
    def __init__(self, campaign: _campaign.Campaign, loop: _Loop) -> None:
        self._standby, self._loop = campaign.prepare(), loop

    def __enter__(self) -> _turn.Standby:
        return self._loop.call(self._standby.begin)

    def __exit__(self, *error: object) -> None:
        self._standby.release()


class _Leading:
    def __init__(self, campaign: _campaign.Campaign, loop: _Loop, timeout: str | float | None) -> None:
        self._campaign, self._loop, self._timeout = campaign, loop, timeout
        self._term: Term | None = None

    def __enter__(self) -> Term:
        leading = self._campaign.lead(self._timeout)
        self._term = Term(self._loop.call(leading.win), self._loop)
        return self._term

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        assert self._term is not None
        lost, reason = self._term.lost, self._term.reason
        self._term.__exit__()
        if lost and kind is None:
            raise LeadershipLost(self._term.number, reason)


class Node(Campaign):
    """This process in a group; every method may be called from any thread."""

    def __init__(self, node: _node.Node) -> None:
        self._node = node
        self._loop = _Loop()
        node.on_elected, node.on_lost = self._called_back(node.on_elected), self._called_back(node.on_lost)

    def _called_back(self, callback: Callback | None) -> Callback | None:
        """Return what calls it in a thread, with a term for threads: it may wait for its node."""
        if callback is None:
            return None

        async def call(term: _turn.Term) -> None:
            result = await asyncio.to_thread(callback, Term(term, self._loop))
            if inspect.isawaitable(result):
                await result

        return call

    def __repr__(self) -> str:
        return repr(self._node).replace("doyen.", "doyen.sync.", 1)

    def __enter__(self) -> "Node":
        if self._loop.loop is not None:
            raise LocalProtocolError("a node joins once: make another, doyen.sync.join(…)")
        self._loop.start()
        try:
            self._loop.call(self._node.__aenter__)
        except BaseException:
            self._loop.stop()
            raise
        if self._node.leaves_on_sigterm:
            unwind_on_sigterm(self, self._leave_at_exit)
        return self

    def __exit__(self, *error: object) -> None:
        if self._loop.foreign:
            return
        try:
            self.leave()
        finally:
            forget(self)
            self._loop.stop()

    @property
    def _campaign(self) -> _campaign.Campaign:  # type: ignore[override]
        return self._node.own_election

    @property
    def name(self) -> str:
        """The name of this process in its group."""
        return self._node.name

    @property
    def group(self) -> str:
        """The name of the group."""
        return self._node.group

    @property
    def address(self) -> str:
        """The address where this process listens, as host:port."""
        return self._node.address

    @property
    def running(self) -> bool:
        """Return whether this node takes part in its group: it has joined, and has neither left nor failed."""
        return self._node.running

    @property
    def is_leader(self) -> bool:
        """Return whether this process may act as leader now; with a weak election it may be true in two processes."""
        return self._node.is_leader

    @property
    def failure(self) -> BaseException | None:
        """Return what stopped this node, if something did: a bug, or its disk."""
        return self._node.failure

    def members(self) -> list[MemberInfo]:
        """Return the members that this node knows, itself included; those that failed or left stay for a while."""
        return self._ask(self._node.members)

    def explain(self, election: str = "") -> Explanation:
        """Explain in words why the present leader leads."""
        return self._ask(lambda: self._node.explain(election))

    def tell(self, meta: Mapping[str, str]) -> None:
        """Let the others know this of the process from now on, at most 512 bytes."""
        self._loop.call(lambda: self._node.tell(meta))

    def election(self, name: str, election: ElectionName | ElectionChoice | None = None) -> Campaign:
        """Return a named election of this group; begin it here if need be, of the group's own kind by default."""
        return Campaign(self._ask(lambda: self._node.election(name, election)), self._loop)

    def wait_for_members(self, count: int, timeout: str | float | None = None) -> list[MemberInfo]:
        """Wait until `count` members are present, this one included, and return them; or raise `TimeoutError`."""
        return self._loop.call(lambda: self._node.wait_for_members(count, timeout))

    def views(self) -> Iterator[View]:
        """Yield what this node sees of its group: now, and whenever it has changed, until the node stops."""
        return _iterate(self._ask(self._node.views), self._loop)

    def events(self) -> Iterator[Event]:
        """Yield what holds, marked `already`, and then every event until the node stops."""
        return _iterate(self._ask(self._node.events), self._loop)

    def leave(self) -> None:
        """Leave in order: stop the bodies that act as leader, notify the others, then fall silent."""
        if self._loop.loop is not None and not self._loop.is_over():
            self._loop.call(self._node.leave)

    def _ask(self, what: Callable[[], T]) -> T:
        """Ask on the loop, where nothing changes meanwhile; a node that has left does not change any more."""

        async def ask() -> T:
            return what()

        return what() if self._loop.is_over() or self._loop.here else self._loop.call(ask)

    def _leave_at_exit(self) -> None:
        if self._loop.running:
            self._loop.call(self._node.leave, EXIT_PATIENCE_S)


def _iterate(source: AsyncGenerator[T, None], loop: _Loop) -> Iterator[T]:
    """Yield what an asynchronous source yields; a reader that stops early ends the source too."""
    try:
        while not loop.is_over():
            try:
                found = loop.call(lambda: _next(source))
            except StopAsyncIteration:
                return
            except LocalProtocolError:
                if not loop.is_over():
                    raise
                return  # It has closed just now.
            yield found
    finally:
        loop.abandon(source)


async def _next(source: AsyncGenerator[T, None]) -> T:
    return await anext(source)


join = _in_threads(_join)
