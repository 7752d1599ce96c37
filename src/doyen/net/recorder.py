"""A flight recorder: whatever came into a node's machines, so that the same machines can be run on it again.

The file is a ring of two segments: FILE grows to half of the size allowed, becomes FILE.1, and a new FILE begins.  Each
segment begins with the machines as they are then, their chance included, and so can be run again by itself.

The recorder never harms the node: if the disk is full, or a machine cannot be kept, it says so and stops recording.
"""

import logging
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from doyen import __version__
from doyen.core.clock import Instant
from doyen.core.host import Port, Verbs
from doyen.errors import ConfigError
from doyen.net.driver import Driver
from doyen.net.recording import MAGIC, Header, Input, Machines, dump, frame

log = logging.getLogger("doyen")

SIZE_MIN: Final = 64 << 10
SIZE: Final = 16 << 20  # Days of a quiet group.

_encode = msgspec.msgpack.Encoder().encode


class Recorder:
    """`Recorder.attach(driver, path)` once all machines are added, and before the driver starts."""

    def __init__(self, driver: Driver, path: Path, size_max: int) -> None:
        if size_max < SIZE_MIN:
            raise ConfigError(f"{size_max} is too small: give at least {SIZE_MIN} bytes", field="record_max")
        self.driver, self.path, self.size_max = driver, path, size_max
        self.input_count = self.segment_count = 0
        self._file: int | None = None
        self._size = 0
        self._effects: list[str] | None = None  # Of the input under way.
        self._nested: list[tuple[int, str, bytes]] = []
        self._fresh_wanted = False  # The machines are other than the segment began with.

    @classmethod
    def attach(cls, driver: Driver, path: Path, size_max: int = SIZE) -> "Recorder":
        recorder = cls(driver, path, size_max)
        driver.recorder = recorder
        for port in driver.host.ports.values():
            port._open()  # Its verbs go through us from now on.
        driver._observers.insert(0, lambda channel, fact, now: recorder.note(driver.host.ports[channel], "emit", fact))
        driver.on_close(recorder.stop)
        recorder._begin_segment()
        return recorder

    def stop(self, why: str = "") -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if why:
            log.error("%s: nothing is recorded from here on: %s", self.driver.host.node, why)

    # What goes out.

    def overheard(self, port: Port, verbs: Verbs) -> Verbs:
        def send(to: Any, message: Any) -> None:
            self.note(port, "send", to, message)
            verbs.send(to, message)

        def multicast(message: Any) -> None:
            self.note(port, "multicast", message)
            verbs.multicast(message)

        def set_timer(timer: Any, at: Instant) -> None:
            self.note(port, "set timer", timer, at)
            verbs.set_timer(timer, at)

        return Verbs(send, multicast, set_timer)

    def note(self, port: Port, verb: str, *what: Any) -> None:
        if self._effects is not None:
            self._effects.append(effect_text(port.channel, verb, *what))

    # What comes in.

    def run(self, entry: Callable[[Instant], None], what: tuple[Any, ...], now: Instant) -> None:
        """Start, command, tell; the latter two may come while facts are carried, and then belong to that input."""
        if self._effects is not None:
            self._nested.append((len(self._effects), what[0], dump(what[1:])))
            entry(now)
        else:
            self._record(what[0], what[1:], entry, now)

    def step(self, entry: Callable[..., None], arguments: tuple[Any, ...], now: Instant) -> None:
        whole = partial(entry, *arguments)
        if self._effects is not None:  # A machine added by an observer: what follows cannot be told apart.
            self._fresh_wanted = True
            whole(now)
            return
        match entry.__name__:
            case "on_message":
                self._record("message", arguments, whole, now)
            case "on_timer":
                self._record("timer", (self.driver._fired_no,), whole, now)
            case "start_late":
                self._record("start late", (arguments[0].channel,), whole, now)
            case "durable":
                self._record("durable", (entry.__self__.channel,), whole, now)  # type: ignore[attr-defined]
            case other:
                raise AssertionError(f"the recorder does not know the input {other}")

    def on_added(self) -> None:
        """A machine that is not in the segment's machines: they are kept anew."""
        if self._effects is None:
            self._begin_segment()
        else:
            self._fresh_wanted = True

    def _record(self, kind: str, details: tuple[Any, ...], entry: Callable[[Instant], None], now: Instant) -> None:
        if self._file is None:
            entry(now)
            return
        try:
            said = dump(details)  # Before: a machine may change what it is given.
        except Exception as error:
            self.stop(f"{kind} cannot be kept: {error}")
            entry(now)
            return
        self._effects, self._nested = [], []
        failure = ""
        try:
            entry(now)
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
            raise
        finally:
            effects, self._effects = self._effects, None
            if not self._fresh_wanted:
                self._write(_encode(Input(kind, now, said, effects, self._nested, failure)))
            self.input_count += 1
            if self._fresh_wanted or self._size > self.size_max // 2:
                self._begin_segment()

    # The file.

    def _begin_segment(self) -> None:
        """Once nobody waits for the disk; until then the present one grows on."""
        driver = self.driver
        ports = driver.host.ports
        if any(port.waits_for_disk for port in ports.values()):
            if self._size > self.size_max:
                self.stop("the disk is too slow")
            return
        if self._file is None and self.input_count:
            return  # Stopped.
        machines = Machines(
            [(channel, port.follows, port.machine) for channel, port in ports.items()],
            sorted((at, number, port.channel, timer) for at, number, port, timer in driver._timers),
            _peek(driver._sequence),
        )
        try:
            kept = dump(machines, lambda obj: obj.channel if isinstance(obj, Port) else None)
        except Exception as error:
            self.stop(f"a machine cannot be kept: {error}")
            return
        header = Header(
            doyen=__version__,
            node=driver.host.node,
            incarnation=driver.incarnation,
            group=driver.codec.group,
            at=time.time(),
            machines=kept,
        )
        try:
            if self._file is not None:
                os.close(self._file)
                self._file = None
            if self.path.exists():
                os.replace(self.path, older(self.path))
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self.stop(f"{self.path}: {error.strerror}")
            return
        self._size, self._fresh_wanted = 0, False
        self.segment_count += 1
        self._write_all(MAGIC + frame(_encode(header)))
        self._size = 0  # Of inputs alone: large machines must not leave them no room.

    def _write(self, body: bytes) -> None:
        self._write_all(frame(body))

    def _write_all(self, data: bytes) -> None:
        if self._file is None:
            return
        try:
            while data:
                written = os.write(self._file, data)
                self._size += written
                data = data[written:]
        except OSError as error:
            self.stop(f"{self.path}: {error.strerror}")


def older(path: Path) -> Path:
    """The segment before."""
    return path.with_name(path.name + ".1")


def effect_text(channel: str, verb: str, *what: Any) -> str:
    return f"{channel}: {verb} {' '.join(map(repr, what))}"


def _peek(counter: Any) -> int:
    """The next number of an `itertools.count`."""
    return int(counter.__reduce__()[1][0])
