"""`@doyen.singleton("group")`: a function that runs only where this process leads the group."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction, signature
from itertools import count
from threading import Lock
from typing import Any, Final, ParamSpec, TypeVar

from doyen import sync
from doyen.errors import ConfigError, LeadershipLost, LocalProtocolError
from doyen.node.join import ALSO_TAKEN, join
from doyen.node.layers import by_path
from doyen.node.node import Node
from doyen.node.premises import HERE
from doyen.node.term import Term

P = ParamSpec("P")
R = TypeVar("R")

_term: ContextVar[Term | sync.Term | None] = ContextVar("doyen_term", default=None)
_lock = Lock()
_ARGUMENTS: Final = signature(join).parameters.keys()
_running: set[int] = set()  # The numbers of the calls that run now.


def current_term() -> Term | sync.Term:
    """Return the term under which a singleton runs: `current_term().check()` raises once leadership is lost."""
    term = _term.get()
    if term is None:
        raise LocalProtocolError(
            "no singleton runs here: call it from within a function that @doyen.singleton decorates"
        )
    return term


@contextmanager
def _under(term: Term | sync.Term) -> Iterator[None]:
    before = _term.set(term)
    try:
        yield
    finally:
        _term.reset(before)


class _Singleton:
    """Decorates a function, and leaves its signature as it is."""

    def __init__(self, group: str, arguments: tuple[Any, ...], fields: dict[str, Any]) -> None:
        if not isinstance(group, str):
            raise ConfigError(f"{group!r} is no group's name: give it in brackets, @doyen.singleton('reports')")
        self._arguments, self._fields = arguments, fields
        if "config" in fields:  # The file may be written later; names can be checked without it.
            by_path({name: fields[name] for name in fields.keys() - _ARGUMENTS}, ALSO_TAKEN)
        else:
            join(*arguments, **fields)  # What every call would refuse is refused here; nothing starts yet.

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        if not callable(function) or isgeneratorfunction(function) or isasyncgenfunction(function):
            raise ConfigError(f"{function!r} cannot be a singleton: give a function, plain or async, that returns")
        made: Any = self._of_loops(function) if iscoroutinefunction(function) else self._of_threads(function)
        return wraps(function)(made)

    @contextmanager
    def _fields_of_call(self) -> Iterator[dict[str, Any]]:
        """Give the fields of one call's node: calls that run side by side are members with names of their own."""
        with _lock:
            number = next(number for number in count(1) if number not in _running)
            _running.add(number)
        try:
            yield ({} if number == 1 else {"name": f"{HERE.name()}-{number}"}) | self._fields
        finally:
            _running.discard(number)

    def _of_loops(self, function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        async def attempt(node: Node, *arguments: P.args, **named: P.kwargs) -> R:
            has_returned = False
            while True:
                try:
                    async with node.lead() as term:
                        with _under(term):
                            result = await function(*arguments, **named)
                        has_returned = True
                    return result
                except LeadershipLost:
                    if has_returned or not term.lost:
                        raise

        async def call(*arguments: P.args, **named: P.kwargs) -> R:
            with self._fields_of_call() as fields:
                async with join(*self._arguments, **fields) as node:
                    return await attempt(node, *arguments, **named)

        return call

    def _of_threads(self, function: Callable[P, R]) -> Callable[P, R]:
        def attempt(node: sync.Node, *arguments: P.args, **named: P.kwargs) -> R:
            has_returned = False
            while True:
                try:
                    with node.lead() as term:
                        with _under(term):
                            result = function(*arguments, **named)
                        has_returned = True
                    return result
                except LeadershipLost:
                    if has_returned or not term.lost:
                        raise

        def call(*arguments: P.args, **named: P.kwargs) -> R:
            with self._fields_of_call() as fields, sync.join(*self._arguments, **fields) as node:
                return attempt(node, *arguments, **named)

        return call


def _decorator_of(join: Callable[P, Node]) -> Callable[P, _Singleton]:
    """Return a decorator that takes the very arguments of `join`."""

    def singleton(*group: P.args, **fields: P.kwargs) -> _Singleton:
        """Run the function only where this process leads the group; takes what `join` takes.

        A call joins, waits until this process may act, runs the function, leaves, and returns what it returned.
        If leadership is lost meanwhile, an async function is cancelled, and the call waits to run it again from its
        beginning; a plain one cannot be stopped, so it asks `doyen.current_term().check()`, and if it returns
        too late, the call raises `LeadershipLost`.  Afterwards the next process runs it, if it waits for its turn.
        With a weak election, such as the default, two processes may run it while the network is split, and for a moment
        around starts and failures.
        """
        return _Singleton(group[0] if group else fields.get("group", ""), group, fields)  # type: ignore[arg-type]

    return singleton


singleton = _decorator_of(join)
