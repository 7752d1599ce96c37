"""Stands for locks, random numbers and C functions of the real world while a made-up process runs."""

import _thread
import os
import queue
import random
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from doyen.testing.madeup.refusal import (
    C_CODE,
    CLOCK_ADVICE,
    WAIT_ADVICE,
    is_library,
    refuse,
    running,
    urandom,
)

LOCK: Final = type(_thread.allocate_lock())
_MAKE_LOCK: Final = _thread.allocate_lock
_WAIT: Final = threading.Condition.wait
_JOIN: Final = threading.Thread.join
_SEED: Final = random.Random.seed
_ANOTHER: Final = "a wait for another thread"


# Locks: a made-up world has one thread, so one that is held is never released meanwhile.


class Lock:
    """A lock that a made-up process may take where it is free, and never waits for."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.release, self.locked = real.release, real.locked

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        waits = blocking and timeout != 0
        if running() is None or not waits:
            taken: bool = self._real.acquire(blocking, timeout)
            return taken
        if not self._real.acquire(False):
            refuse(_ANOTHER, WAIT_ADVICE)
        return True

    __enter__ = acquire

    def __exit__(self, *error: object) -> None:
        self.release()


def _lock() -> Any:
    made = _MAKE_LOCK()
    return made if running() is None or is_library(sys._getframe(1).f_code.co_filename) else Lock(made)


def _wait(condition: threading.Condition, timeout: float | None = None) -> bool:
    if running() is not None and (timeout is None or timeout > 0):  # In the only thread that could end it.
        refuse(_ANOTHER, WAIT_ADVICE)
    return _WAIT(condition, timeout)


def _join(thread: threading.Thread, timeout: float | None = None) -> None:
    if running() is not None and thread.is_alive() and (timeout is None or timeout > 0):
        refuse(_ANOTHER, WAIT_ADVICE)
    _JOIN(thread, timeout)


# Chance.


def _seed(self: random.Random, a: Any = None, version: int = 2) -> None:
    """Seed a generator; where the system's random bytes would do it, those of the run's seed do."""
    here = running()
    if a is None and here is not None:
        a = int.from_bytes(here.chance.randbytes(32), "big")
    _SEED(self, a, version)


def _seed_global(a: Any = None, version: int = 2) -> None:
    _seed(random._inst, a, version)


def _getrandom(size: int, flags: int = 0) -> bytes:
    return urandom(size) if running() is not None else os.getrandom(size, flags)


# What is refused.


def _refusing(what: str, advice: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def refused(*given: Any, **named: Any) -> Any:
        if running() is not None:
            refuse(what, advice)
        return real(*given, **named)

    return refused


def _call_c(function: Any, *given: Any, **named: Any) -> Any:
    if running() is not None and not is_library(sys._getframe(1).f_code.co_filename):
        refuse(*C_CODE)
    return type(function).__mro__[1].__call__(function, *given, **named)


def _libraries() -> list[type]:
    """Return the classes of the functions of C libraries that were loaded: each library has one."""
    loaded = sys.modules.get("_ctypes")
    return [] if loaded is None else [kind for kind in loaded.CFuncPtr.__subclasses__() if kind.__name__ == "_FuncPtr"]


def pairs() -> list[tuple[Any, Any]]:
    """Return what stands for which real thing while a run lasts."""
    found: list[tuple[Any, Any]] = [
        (_MAKE_LOCK, _lock),
        (queue.SimpleQueue, queue._PySimpleQueue),  # type: ignore[attr-defined]
        (random.seed, _seed_global),
        (os.times, _refusing("os.times()", CLOCK_ADVICE, os.times)),
    ]
    if threading.Lock is not _MAKE_LOCK:
        found.append((threading.Lock, _lock))
    if hasattr(os, "getrandom"):
        found.append((os.getrandom, _getrandom))
    by_time = getattr(uuid, "_generate_time_safe", None)  # In C, by the real clock.
    if by_time is not None:
        found.append((by_time, _refusing("uuid.uuid1()", "uuid.uuid4() comes from the seed", by_time)))
    return found


@contextmanager
def standing_in() -> Iterator[None]:
    """Replace methods on the classes themselves, where every caller finds them."""
    methods: list[tuple[Any, str, Any]] = [
        (threading.Condition, "wait", _wait),
        (threading.Thread, "join", _join),
        (random.Random, "seed", _seed),
    ]
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in methods]
    libraries = _libraries()
    for owner, name, method in methods:
        setattr(owner, name, method)
    for library in libraries:
        setattr(library, "__call__", _call_c)  # noqa: B010
    try:
        yield
    finally:
        for owner, name, method in before:
            setattr(owner, name, method)
        for library in libraries:
            del library.__call__
