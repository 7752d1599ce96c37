"""The same names for programs of threads: a loop of its own in the background, and plain calls.

    with doyen.sync.join("reports", seeds=["10.0.0.2"]) as node:
        with node.lead(timeout="30s") as term:
            nightly(fence=term.number, still_mine=term.check)

A thread cannot be stopped from outside, so a body asks: `term.check()` raises `LeadershipLost`, `term.lost` tells,
`term.wait_lost(seconds)` waits; and a body that ends after leadership was lost is told so by the same error.
"""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar

from doyen.api import campaign as _campaign
from doyen.api import node as _node
from doyen.api.events import Event as Event
from doyen.api.events import MemberInfo as MemberInfo
from doyen.core.ids import Term as TermId
from doyen.errors import LeadershipLost as LeadershipLost

T = TypeVar("T")

__all__ = ["Campaign", "Event", "LeadershipLost", "MemberInfo", "Node", "Term", "join"]


@wraps(_node.join, assigned=("__doc__",))
def join(group: str, **fields: Any) -> "Node":
    return Node(_node.join(group, **fields | {"leave_on_sigterm": False}), fields.get("leave_on_sigterm", True))


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="doyen", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def call(self, work: Awaitable[T]) -> T:
        return self.begin(work).result()

    def begin(self, work: Awaitable[T]) -> "Future[T]":
        async def run() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(run(), self._loop)

    @property
    def running(self) -> bool:
        return self._loop.is_running()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


class Term:
    """One leadership of this node."""

    def __init__(self, term: _campaign.Term, loop: _Loop) -> None:
        self._term, self._loop = term, loop
        self._over = threading.Event()
        term.on_end = self._over.set

    @property
    def number(self) -> int:
        return self._term.number

    @property
    def leader(self) -> str:
        return self._term.leader

    @property
    def lost(self) -> bool:
        """By the clock alone, where there is a lease."""
        return self._term.lost

    @property
    def reason(self) -> str:
        return self._term.reason

    def check(self) -> None:
        """Raises `LeadershipLost` if it is; call it before every step that only a leader may take."""
        self._term.check()

    def wait_lost(self, timeout_s: float | None = None) -> bool:
        """Waits until leadership is lost, at most so long; says whether it is."""
        self._over.wait(timeout_s)
        return self.lost

    def __enter__(self) -> "Term":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call(self._end())

    async def _end(self) -> None:
        self._term.release()


class Campaign:
    """One election of a node."""

    def __init__(self, campaign: _campaign.Campaign, loop: _Loop) -> None:
        self._campaign, self._loop = campaign, loop

    @property
    def name(self) -> str:
        return self._campaign.name

    @property
    def is_leader(self) -> bool:
        return self._campaign.is_leader

    @property
    def term(self) -> TermId | None:
        return self._campaign.term

    def leader(self) -> str | None:
        return self._campaign.leader()

    def lead(self, timeout: str | float | None = None) -> "_Leading":
        """Waits until this node is elected, or raises `TimeoutError`."""
        return _Leading(self._campaign, self._loop, timeout)

    def terms(self) -> Iterator[Term]:
        """Campaigns for ever; each pass is one leadership.  Ends when the node leaves."""
        for term in _iterate(self._campaign.terms(), self._loop):
            yield Term(term, self._loop)

    def resign(self, cooldown: str | float = "30s", to: str | None = None) -> None:
        self._loop.call(self._campaign.resign(cooldown, to))


class _Leading:
    def __init__(self, campaign: _campaign.Campaign, loop: _Loop, timeout: str | float | None) -> None:
        self._campaign, self._loop, self._timeout = campaign, loop, timeout
        self._term: Term | None = None

    def __enter__(self) -> Term:
        self._term = Term(self._loop.call(self._campaign.lead(self._timeout).win()), self._loop)
        return self._term

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._term is not None
        lost, reason = self._term.lost, self._term.reason
        self._term.__exit__(kind, error, trace)
        if lost and kind is None:
            raise LeadershipLost(self._term.number, reason)


class Node(Campaign):
    """This process in a group; every method may be called from any thread."""

    def __init__(self, node: _node.Node, leave_on_sigterm: bool) -> None:
        self._node, self._sigterm = node, leave_on_sigterm
        self._caught = False
        self._loop = _Loop()

    def __enter__(self) -> "Node":
        self._loop.start()
        try:
            self._loop.call(self._node.__aenter__())
        except BaseException:
            self._loop.stop()
            raise
        self._catch_sigterm()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._caught:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.leave()
        self._loop.stop()

    @property
    def _campaign(self) -> _campaign.Campaign:  # type: ignore[override]
        return self._node._own

    @property
    def name(self) -> str:
        return self._node.name

    @property
    def group(self) -> str:
        return self._node.group

    @property
    def address(self) -> str:
        return self._node.address

    @property
    def running(self) -> bool:
        return self._node.running

    @property
    def is_leader(self) -> bool:
        return self._node.is_leader

    def members(self) -> list[MemberInfo]:
        return self._loop.call(_soon(self._node.members))

    def tell(self, meta: Mapping[str, str]) -> None:
        self._loop.call(self._node.tell(meta))

    def election(self, name: str, election: Any = None) -> Campaign:
        return Campaign(self._loop.call(_soon(lambda: self._node.election(name, election))), self._loop)

    def events(self) -> Iterator[Event]:
        return _iterate(self._loop.call(_soon(self._node.events)), self._loop)

    def leave(self) -> None:
        self._loop.call(self._node.leave())

    def _catch_sigterm(self) -> None:
        def on_sigterm(number: int, frame: object) -> None:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self.leave()
            os.kill(os.getpid(), signal.SIGTERM)

        main = threading.current_thread() is threading.main_thread()
        if self._sigterm and main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, on_sigterm)
            self._caught = True


async def _soon(what: Callable[[], T]) -> T:
    return what()


def _iterate(source: AsyncIterator[T], loop: _Loop) -> Iterator[T]:
    """One at a time; a reader that stops early ends the source too."""
    try:
        while True:
            try:
                yield loop.call(anext(source))
            except StopAsyncIteration:
                return
    finally:
        close = getattr(source, "aclose", None)
        if close is not None and loop.running:
            loop.call(close())
