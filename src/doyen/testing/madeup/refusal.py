"""Keeps a program in made-up time: what would leave it is refused, with the file and line that wanted it.

Sockets, child processes and C libraries are seen by an audit hook, however they were imported.  Clocks, and before
Python 3.13 also threads and `time.sleep`, have no audit event: while a run lasts those functions, and the classes of
`datetime`, are replaced wherever they are kept (`swap` says where).  The standard library and doyen itself read made-up
time from them.  Random bytes come from the run's seed, so that `uuid4()` and `random` are the same in each run of it.
"""

import _posixsubprocess
import _thread
import datetime
import os
import select
import signal
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol

import doyen
from doyen.core.clock import Instant
from doyen.errors import LocalProtocolError
from doyen.sim.streams import Stream

EPOCH_NS: Final = 1_767_225_600 * 10**9  # Made-up runs begin at the start of 2026, UTC.

_SLEEP: Final = ("time.sleep()", "await asyncio.sleep(…)")
_THREAD: Final = ("a thread", "use a task; doyen.join in place of doyen.sync")
_AUDITED: Final = {
    "time.sleep": _SLEEP,
    "_thread.start_new_thread": _THREAD,
    "_thread.start_joinable_thread": _THREAD,
    "socket.__new__": ("a real socket", "use asyncio.open_connection and asyncio.start_server between nodes"),
    "socket.getaddrinfo": ("a name server", "the names of nodes are host names: asyncio.open_connection('n1', 80)"),
    "socket.gethostbyname": ("a name server", "the names of nodes are host names"),
    "subprocess.Popen": ("a child process", "leave it out of the test, or pass it in as a function"),
    "socket.gethostbyaddr": ("a name server", "the names of nodes are host names"),
    "socket.getnameinfo": ("a name server", "the names of nodes are host names"),
    "os.forkpty": ("a child process", "leave it out of the test, or pass it in as a function"),
    "os.fork": ("a child process", "leave it out of the test, or pass it in as a function"),
    "os.posix_spawn": ("a child process", "leave it out of the test, or pass it in as a function"),
    "os.system": ("a child process", "leave it out of the test, or pass it in as a function"),
}
C_CODE: Final = ("C code by ctypes", "leave it out of the test, or pass it in as a function")
_FOREIGN: Final = {"ctypes.dlopen", "ctypes.dlsym", "ctypes.dlsym/handle", "ctypes.call_function"}
CLOCK_ADVICE: Final = "asyncio.get_running_loop().time() is made-up; or make the cluster with wall_clock='made-up'"
_CPU_CLOCKS: Final = (time.CLOCK_PROCESS_CPUTIME_ID, time.CLOCK_THREAD_CPUTIME_ID)


class EscapedMadeUpTime(LocalProtocolError):
    """A program in made-up time used a clock, a thread, a socket or a process of the real world."""


class Resident(Protocol):
    """A made-up process, as far as it is asked here."""

    shows_wall_clock: bool
    escapes: list[EscapedMadeUpTime]
    chance: Stream

    def now(self) -> Instant: ...
    def wall_ns(self) -> int: ...


_resident: Resident | None = None  # Whose code runs now; None: the test's own.
_thread_id = 0  # Of the thread in which it runs: others stay in real time.
_library: dict[str, bool] = {}
_STDLIB: Final = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
_CTYPES: Final = str(Path(sysconfig.get_path("stdlib")) / "ctypes")
_OURS: Final = str(Path(doyen.__file__).parent)


def is_library(file: str) -> bool:
    """Return whether a file is of the standard library or of doyen."""
    known = _library.get(file)
    if known is None:
        standard = file.startswith(_STDLIB) and "site-packages" not in file
        known = _library[file] = standard or file.startswith(("<", _OURS))
    return known


def refuse(what: str, advice: str) -> NoReturn:
    """Raise for the caller, with the innermost line that is neither doyen's nor the standard library's."""
    frame: Any = sys._getframe(1)
    place = None
    while frame is not None and place is None:
        if not is_library(frame.f_code.co_filename):
            place = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back
    error = EscapedMadeUpTime(f"{place or 'doyen'}: {what} would leave made-up time: {advice}")
    if _resident is not None:
        _resident.escapes.append(error)
    raise error


def audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse by Python's audit events, however what raises them was imported."""
    if _resident is None or running() is None:
        return
    if event in _AUDITED:
        refuse(*_AUDITED[event])
    if event in _FOREIGN and not _is_loading():
        refuse(*C_CODE)


def _is_loading() -> bool:
    """Return whether the standard library or doyen wants C code, as `import ctypes` itself does."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_CTYPES):
        frame = frame.f_back
    return frame is None or is_library(frame.f_code.co_filename)


def enter(resident: Resident | None) -> Resident | None:
    """Say whose code runs from now on; return whose ran before."""
    global _resident, _thread_id
    before, _resident, _thread_id = _resident, resident, _thread.get_ident()
    return before


def running() -> Resident | None:
    """Return whose code runs now in this thread; None: not a made-up process's."""
    return _resident if _resident is not None and _thread.get_ident() == _thread_id else None


# Clocks.


def _reading(name: str) -> Callable[[Resident], Any]:
    """Return how a function of `time` without arguments reads made-up time."""
    scale = 1 if name.endswith("_ns") else 10**9
    base = name.removesuffix("_ns")
    if base == "time":
        return lambda of: of.wall_ns() if scale == 1 else of.wall_ns() / scale
    return lambda of: of.now() if scale == 1 else of.now() / scale


def _checked(name: str, file: str) -> Resident | None:
    """Return the process that may read its clock from that file; None: not in made-up time.  Else refuse."""
    here = running()
    if here is not None and not here.shows_wall_clock and not is_library(file):
        refuse(name, CLOCK_ADVICE)
    return here


def _clock(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    read = _reading(name)

    def clock() -> Any:
        of = _checked(f"time.{name}()", sys._getframe(1).f_code.co_filename)
        return real() if of is None else read(of)

    return clock


def _gettime(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    scale = 1 if name.endswith("_ns") else 10**9

    def clock(number: int) -> Any:
        of = None if number in _CPU_CLOCKS else _checked(f"time.{name}()", sys._getframe(1).f_code.co_filename)
        if of is None:
            return real(number)
        shown = of.wall_ns() if number == time.CLOCK_REALTIME else of.now()
        return shown if scale == 1 else shown / scale

    return clock


def _calendar(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def calendar(*given: Any) -> Any:
        if given and given[-1] is not None and (name != "strftime" or len(given) == 2):
            return real(*given)
        of = _checked(f"time.{name}()", sys._getframe(1).f_code.co_filename)
        if of is None:
            return real(*given)
        now_s = of.wall_ns() / 1e9
        if name == "strftime":
            return real(given[0], _REAL["localtime"](now_s))
        return real(_REAL["localtime"](now_s) if name == "asctime" else now_s)

    return calendar


_REAL: Final = {
    name: vars(time)[name]
    for name in """time time_ns monotonic monotonic_ns perf_counter perf_counter_ns clock_gettime clock_gettime_ns
    localtime gmtime ctime asctime strftime""".split()  # noqa: SIM905
}
_URANDOM: Final = os.urandom
_SLEEPS: Final = time.sleep
_START_THREAD: Final[Any] = _thread.start_new_thread
_FORK: Final[Any] = _posixsubprocess.fork_exec
WAIT_ADVICE: Final = "await asyncio.sleep(…), or asyncio's Event, Queue or Lock"
_WAITS: Final = {
    f"{module.__name__}.{name}": vars(module)[name]
    for module, names in ((select, "select poll epoll"), (signal, "alarm setitimer sigtimedwait sigwait pause"))
    for name in names.split()
    if name in vars(module)  # Not all systems have each.
}


def urandom(size: int, /) -> bytes:
    here = running()
    return _URANDOM(size) if here is None else here.chance.randbytes(size)


def _sleep(seconds: float, /) -> None:
    if running() is not None:
        refuse(*_SLEEP)
    _SLEEPS(seconds)


def _start_thread(*given: Any, **named: Any) -> int:
    if running() is not None:
        refuse(*_THREAD)
    started: int = _START_THREAD(*given, **named)
    return started


def _fork(*given: Any) -> Any:
    """Stand for what `multiprocessing` begins its processes by; there is no audit event for it."""
    if running() is not None:
        refuse(*_AUDITED["os.fork"])
    return _FORK(*given)


def _waiting(name: str, real: Any) -> Callable[..., Any]:
    """Return what stands for a function that would make the real world wait, or be told by it when time is over."""

    def wait(*given: Any, **named: Any) -> Any:
        if running() is not None and not (name == "select.select" and given[3:] == (0,)):
            refuse(f"{name}()", WAIT_ADVICE)
        return real(*given, **named)

    return wait


class _Alike(type):
    """Makes the replaced class of `datetime` accept what the real one made, and equal it where types are looked up.

    A class that a program derives from it is none of these.
    """

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.__mro__[1]) if "STANDS_IN" in vars(cls) else type.__instancecheck__(cls, value)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.__mro__[1]) if "STANDS_IN" in vars(cls) else type.__subclasscheck__(cls, other)

    def __eq__(cls, other: object) -> bool:
        return cls is other or ("STANDS_IN" in vars(cls) and cls.__mro__[1] is other)

    def __hash__(cls) -> int:
        return type.__hash__(cls.__mro__[1] if "STANDS_IN" in vars(cls) else cls)


class _Datetime(datetime.datetime, metaclass=_Alike):
    STANDS_IN: Final = True

    def __new__(cls, *given: Any, **named: Any) -> Any:
        return super().__new__(cls.__mro__[1] if "STANDS_IN" in vars(cls) else cls, *given, **named)

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        of = _checked("datetime.now()", sys._getframe(1).f_code.co_filename)
        return super().now(tz) if of is None else super().fromtimestamp(of.wall_ns() / 1e9, tz)

    @classmethod
    def utcnow(cls) -> Any:
        of = _checked("datetime.utcnow()", sys._getframe(1).f_code.co_filename)
        made = datetime.timezone.utc  # noqa: UP017
        now = super().now(made) if of is None else super().fromtimestamp(of.wall_ns() / 1e9, made)
        return now.replace(tzinfo=None)

    @classmethod
    def today(cls) -> Any:
        of = _checked("datetime.today()", sys._getframe(1).f_code.co_filename)
        return super().now() if of is None else super().fromtimestamp(of.wall_ns() / 1e9)


class _Date(datetime.date, metaclass=_Alike):
    STANDS_IN: Final = True

    def __new__(cls, *given: Any, **named: Any) -> Any:
        return super().__new__(cls.__mro__[1] if "STANDS_IN" in vars(cls) else cls, *given, **named)

    @classmethod
    def today(cls) -> Any:
        of = _checked("date.today()", sys._getframe(1).f_code.co_filename)
        return super().today() if of is None else super().fromtimestamp(of.wall_ns() / 1e9)


for _kind in (_Datetime, _Date):  # So that a pickle names the real one, and reads as it.
    _kind.__module__, _kind.__name__ = "datetime", _kind.__mro__[1].__name__
    _kind.__qualname__ = _kind.__name__

_CALENDARS: Final = ("localtime", "gmtime", "ctime", "asctime", "strftime")


def pairs() -> list[tuple[Any, Any]]:
    """Return what stands for which real thing while a run lasts."""
    found: list[tuple[Any, Any]] = [(_URANDOM, urandom), (_SLEEPS, _sleep), (_START_THREAD, _start_thread)]
    found += [(datetime.datetime, _Datetime), (datetime.date, _Date)]
    found += [(real, _waiting(name, real)) for name, real in _WAITS.items()]
    found.append((_FORK, _fork))
    for name, real in _REAL.items():
        made = _gettime if name.startswith("clock_") else _calendar if name in _CALENDARS else _clock
        found.append((real, made(name, real)))
    return found
