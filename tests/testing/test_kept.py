"""Clocks that a program kept before its run, locks, C libraries and the system's randomness: nothing escapes."""

import asyncio
import copy
import copyreg
import ctypes
import dataclasses
import datetime
import functools
import importlib
import os
import pickle
import queue
import random
import secrets
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import doyen
from doyen.testing import Cluster, EscapedMadeUpTime


class Kept:
    """Keeps clocks as attributes."""

    now: Any = time.monotonic
    still = staticmethod(time.time)
    today = datetime.datetime.now
    lock = threading.Lock()
    wait = signal.sigwait

    def __init__(self) -> None:
        self.clock = time.time


class Slotted:
    __slots__ = ("clock",)

    def __init__(self) -> None:
        self.clock = time.time


@dataclasses.dataclass
class Stamped:
    at: float = dataclasses.field(default_factory=time.time)


class Lazy:
    """Is asked for what it stands for too early, as Django's settings may be."""

    def __init__(self) -> None:
        self.clock = time.time

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise LookupError("not configured")

    def __getattr__(self, name: str) -> Any:
        raise LookupError("not configured")


LAZY = Lazy()
KEPT, SLOTTED = Kept(), Slotted()
TABLE: dict[str, Any] = {"clock": time.time}
NESTED = {"inner": [time.time]}
PARTIAL = functools.partial(time.time)
NOW = datetime.datetime.now
LOCK, HELD, LIBC = threading.Lock(), threading.Lock(), ctypes.CDLL(None)
LIBC_TIME = LIBC.time
SIMPLE: queue.SimpleQueue[int] = queue.SimpleQueue()
HELD.acquire()
OVER = threading.Event()
THREAD = threading.Thread(target=lambda: OVER.wait(60), daemon=True)


def _closed() -> Callable[[], float]:
    clock = time.time
    return lambda: clock()


CLOSURE = _closed()


def by_default(clock: Callable[[], float] = time.time) -> float:
    return clock()


def by_keyword(*, clock: Callable[[], float] = time.time) -> float:
    return clock()


def takes(lock: Any) -> None:
    lock.acquire(timeout=0.01)


def deadlocks() -> None:
    lock = threading.Lock()
    with lock, lock:
        pass


def joins(thread: threading.Thread) -> None:
    thread.join(0.01)


def calls_c() -> int:
    found: int = ctypes.CDLL(None).time(None)
    return found


ESCAPES: dict[str, Callable[[], Any]] = {
    "a class attribute": lambda: Kept.now(),
    "a static method": lambda: Kept.still(),
    "a class attribute, by an object": lambda: KEPT.now(),
    "a class's datetime.now": lambda: Kept.today(),
    "an attribute": lambda: KEPT.clock(),
    "a slot": lambda: SLOTTED.clock(),
    "a default argument": lambda: by_default(),
    "a default argument by keyword": lambda: by_keyword(),
    "a dict": lambda: TABLE["clock"](),
    "a list in a dict": lambda: NESTED["inner"][0](),
    "a partial": lambda: PARTIAL(),
    "a variable of a closure": lambda: CLOSURE(),
    "datetime.now by name": lambda: NOW(),
    "a lock of the module": lambda: takes(HELD),
    "a lock of the program": lambda: deadlocks(),
    "a queue of the program": lambda: queue.SimpleQueue().get(timeout=0.01),
    "a thread that was started before": lambda: joins(THREAD),
    "ctypes": lambda: calls_c(),
    "a library that was loaded before": lambda: LIBC.clock(),
    "a C function that was looked up before": lambda: LIBC_TIME(None),
    "uuid1": lambda: uuid.uuid1(),
    "os.times": lambda: os.times(),
}


@pytest.fixture(scope="module", autouse=True)
def other_thread() -> Any:
    THREAD.start()
    yield
    OVER.set()


@pytest.mark.parametrize("name", ESCAPES)
def test_what_was_kept_before_the_run_does_not_leave_made_up_time(name: str) -> None:
    escapes = ESCAPES[name]

    async def program(node: doyen.Node) -> None:
        escapes()

    with Cluster(1, program=program) as cluster, pytest.raises(EscapedMadeUpTime) as caught:
        cluster.run_for("1s")
    assert str(caught.value).startswith(f"{Path(__file__)}:")


def test_what_was_swapped_is_as_before_after_the_run() -> None:
    async def program(node: doyen.Node) -> None: ...

    with Cluster(1, program=program) as cluster:
        cluster.run_for("1s")
        assert vars(Kept)["now"] is time.monotonic and KEPT.clock is SLOTTED.clock is time.time
        assert by_default.__defaults__ == (time.time,) and by_keyword.__kwdefaults__ == {"clock": time.time}
        assert TABLE["clock"] is NESTED["inner"][0] is PARTIAL.func is time.time
        assert vars(Kept)["wait"] is signal.sigwait
        assert vars(Kept)["still"].__func__ is time.time and NOW == datetime.datetime.now
        assert CLOSURE() == pytest.approx(time.time(), abs=60)
        assert type(Kept.lock) is type(LOCK) and LIBC_TIME(None) == pytest.approx(time.time(), abs=60)
    assert "__call__" not in vars(type(LIBC_TIME))


def test_they_show_made_up_time_where_that_is_asked_for() -> None:
    read: list[list[float]] = []

    async def program(node: doyen.Node) -> None:
        local = Slotted()
        for _ in range(2):
            read.append(
                [
                    KEPT.clock(),
                    (lambda: SLOTTED.clock())(),
                    SLOTTED.clock(),
                    by_default(),
                    by_keyword(),
                    Stamped().at,
                    PARTIAL(),
                    CLOSURE(),
                ]
            )
            read[-1] += [Kept.still(), TABLE["clock"](), NOW().timestamp(), local.clock()]
            await asyncio.sleep(5)

    with Cluster(1, program=program, wall_clock="made-up") as cluster:
        cluster.run_for("6s")
    first, then = read
    assert max(first) - min(first) < 1e-3
    assert [b - a for a, b in zip(first, then, strict=True)] == pytest.approx([5] * len(first), abs=1e-3)


def test_a_clock_that_is_kept_in_the_test_itself() -> None:
    clock = time.time

    class Mine:
        now: Any = time.time

    async def program(node: doyen.Node, read: Callable[[], float] = time.time) -> None:
        clocks.append((clock(), Mine.now(), read()))

    clocks: list[tuple[float, float, float]] = []
    with Cluster(1, program=program, wall_clock="made-up") as cluster:
        cluster.run_for("1s")
    assert max(clocks[0]) - min(clocks[0]) < 1e-3 and abs(clocks[0][0] - time.time()) > 3600
    assert clock is Mine.now is time.time


def test_what_does_not_let_itself_be_looked_at_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def program(node: doyen.Node) -> bool:
        return LAZY is None

    with Cluster(1, program=program) as cluster:
        cluster.run_for("1s")
    monkeypatch.setitem(sys.modules, "one_more", ModuleType("one_more"))  # So all are looked through again.
    with Cluster(1, program=program) as cluster:
        cluster.run_for("1s")


def test_free_locks_may_be_taken() -> None:
    async def program(node: doyen.Node) -> tuple[bool, bool, bool]:
        with LOCK, threading.Lock(), Kept.lock:
            return LOCK.locked(), LOCK.acquire(blocking=False), LOCK.acquire(timeout=0)

    with Cluster(1) as cluster:
        assert cluster.run("n0", program(cluster.node("n0"))) == (True, False, False)
    assert not LOCK.locked()


def test_all_chance_is_the_seeds() -> None:
    async def draws(node: doyen.Node) -> list[Any]:
        own = random.Random()
        random.seed()
        drawn = [own.random(), random.random(), random.SystemRandom().random(), secrets.token_hex(8), os.urandom(4)]
        own.seed()
        return [*drawn, own.random(), uuid.uuid4(), os.getrandom(4), random.Random(5).random()]

    def drawn(seed: int) -> list[Any]:
        with Cluster(1, seed=seed) as cluster:
            return cluster.run("n0", draws(cluster.node("n0")))

    first, again, other = drawn(1), drawn(1), drawn(2)
    assert first == again
    assert not any(a == b for a, b in zip(first[:-1], other[:-1], strict=True))
    assert first[-1] == other[-1] == random.Random(5).random()  # A seed of one's own stays.
    assert random.Random().random() != random.Random().random()


# Dates in the run are those of every other program.


class Meta(type):
    """Of a class that its author derives from a date."""


BY_TYPE = {datetime.datetime: "datetime", datetime.date: "date"}


def pickled() -> None:
    for made in (datetime.datetime.now(datetime.UTC), datetime.date.today()):
        data = pickle.dumps(made)
        assert pickle.loads(data) == made == copy.deepcopy(made)
        PICKLES.append((data, made))
    assert pickle.loads(pickle.dumps(datetime.datetime)) is datetime.datetime


def looked_up() -> None:
    made: Any = datetime.datetime.now()
    assert BY_TYPE[datetime.datetime] == BY_TYPE[type(made)] == "datetime" != BY_TYPE[datetime.date] == "date"
    assert type(made) == datetime.datetime != datetime.date  # noqa: E721
    assert issubclass(datetime.datetime, datetime.date) and not issubclass(datetime.date, datetime.datetime)


def derived() -> None:
    class Day(datetime.datetime):
        def hours(self) -> int:
            return 24

    day: Any = Day(2026, 1, 1)
    assert type(day) is type(Day.now()) is type(Day.today()) is Day and day.hours() == 24
    assert Day.now().year == 2026 and isinstance(day, datetime.datetime)
    assert not isinstance(datetime.datetime.now(), Day) and not issubclass(datetime.datetime, Day)
    assert Day != datetime.datetime and len({Day, datetime.datetime}) == 2


def imported() -> None:
    kept_late = importlib.import_module("kept_late")
    assert kept_late.Day(2026, 1, 1).year == 2026
    assert [read().year for read in (kept_late.now, kept_late.by_default, kept_late.Kept.now)] == [2026] * 3
    assert kept_late.datetime.now().year == kept_late.Kept.kind.now().year == 2026


LATE = """
from datetime import date, datetime
from test_kept import Meta
class Day(date, metaclass=Meta): pass
now = datetime.now
def by_default(read=datetime.now): return read()
class Kept:
    now, kind = datetime.now, datetime
"""
PICKLES: list[tuple[bytes, Any]] = []


@pytest.mark.parametrize("use", [pickled, looked_up, derived, imported])
def test_dates_are_used_as_anywhere_else(
    use: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept_late.py").write_text(LATE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "test_kept", sys.modules[__name__])
    monkeypatch.delitem(sys.modules, "kept_late", raising=False)
    PICKLES.clear()
    done = []

    async def program(node: doyen.Node) -> None:
        use()
        done.append(True)

    table, loaders = dict(copyreg.dispatch_table), dict(vars(SourceFileLoader))
    with Cluster(1, seed=1, wall_clock="made-up", program=program) as cluster:
        cluster.run_for(1)
    assert done
    assert (table, loaders) == (copyreg.dispatch_table, dict(vars(SourceFileLoader)))
    assert all(pickle.loads(data) == made and data == pickle.dumps(made) for data, made in PICKLES)
    late = sys.modules.pop("kept_late", None)
    if late is not None:
        assert late.datetime is late.Kept.kind is datetime.datetime and late.now.__self__ is datetime.datetime


class Rows(list[Any]):
    """Asks a data base when it is looked at."""

    def __iter__(self) -> Any:
        raise AssertionError("was iterated")


class Lookup(dict[str, Any]):
    def items(self) -> Any:
        raise AssertionError("was asked")

    values = items


ROWS, LOOKUP = Rows([time.time]), Lookup(clock=time.time, rows=Rows([time.time]))


@pytest.mark.parametrize("read", [lambda: ROWS[0](), lambda: LOOKUP["clock"](), lambda: LOOKUP["rows"][0]()])
def test_collections_of_their_own_kind_are_looked_into_without_their_code(read: Callable[[], float]) -> None:
    async def program(node: doyen.Node) -> None:
        read()

    with Cluster(1, seed=1, program=program) as cluster, pytest.raises(EscapedMadeUpTime):
        cluster.run_for(1)
