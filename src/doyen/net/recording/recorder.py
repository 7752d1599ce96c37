"""Writes down everything that comes into a node's machines, so that the same machines can be run on it again.

    driver ──inputs──▶ recorder ──▶ host and machines
           ◀─effects── recorder ◀──

The file is a ring of two segments: FILE grows to half of the size allowed, becomes FILE.1, and a new FILE begins.  The
first segment begins with what the machines were built from; later ones also with their state at that moment, so each
can be run again by itself.

The recorder never harms the node: if the disk is full, or something cannot be kept, it says so and stops recording.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar

from doyen import __version__
from doyen.core.clock import Instant
from doyen.core.codec import Codec, Envelope
from doyen.core.host import Port
from doyen.core.ids import NodeId
from doyen.errors import ConfigError, DoyenError
from doyen.net.driver import Driver
from doyen.net.recording.built import Built
from doyen.net.recording.declared import told
from doyen.net.recording.effects import DescribingWorld, Numbered, failure_text
from doyen.net.recording.format import (
    BODY_MAX,
    DATAGRAM_MAX,
    MAGIC,
    Added,
    Commanded,
    Durable,
    Entry,
    Fired,
    Given,
    Header,
    Heard,
    Input,
    MayAct,
    Origin,
    Reigning,
    Started,
    State,
    Told,
    encode,
    frame,
)
from doyen.net.recording.snapshot import Snapshot, Unkept

log = logging.getLogger("doyen")

SIZE_MIN: Final = 64 << 10

T = TypeVar("T")


class Recorder:
    """Stands between a driver and its machines: `Recorder(…)` before the first machine is added, then `begin`."""

    def __init__(self, driver: Driver, path: Path, size_max: int, origin: Origin) -> None:
        if size_max < SIZE_MIN:
            raise ConfigError(f"{size_max} is too small: give at least {SIZE_MIN} bytes", field="record_max")
        self.path, self.size_max, self.origin = path, size_max, origin
        self._driver, self._host = driver, driver.host
        self._codec = Codec(origin.group, datagram_max=DATAGRAM_MAX)
        self._built = Built()
        self._restored: dict[str, bytes] = {}
        self._additions: list[dict[str, str]] = []
        self._view: Callable[[], Any] = lambda: None
        self._reigns: Callable[[], dict[str, Reigning]] = dict
        self._world = DescribingWorld(driver)
        self._file: int | None = None
        self._size = 0  # Of inputs alone: large machines must not leave them no room.
        self._nested: list[tuple[int, Commanded | Told]] = []
        self._added: Added | None = None  # If that is the input under way.
        self._lost = False  # Something happened that the segment does not tell: another must begin.
        driver.interpose(self, self._world)
        driver.on_close(self.stop)

    # Building.

    def rng(self, channel: str) -> Random:
        """Return the random stream of a channel."""
        return self.origin.rng(channel)

    def restored(self, channel: str, kind: Any) -> Any:
        """Return what the disk holds of an earlier incarnation, and keep it."""
        found = self._driver.restored(channel, kind)
        if found is not None:
            self._restored[channel] = encode(found)
            if self._added is not None:
                self._added.restored[channel] = self._restored[channel]
        return found

    def begin(self, view: Callable[[], Any], reigns: Callable[[], dict[str, Reigning]] = dict) -> None:
        """Begin to record, once all machines are there and before they start.

        `view` gives the last view that the membership emitted: a machine that is added later hears of it.  `reigns`
        gives the elections as the node sees them: what no machine keeps.
        """
        self._view, self._reigns = view, reigns
        for port in self._host.ports.values():
            self._built.add(port.machine)
        state = self._state()  # What cannot be kept is said now, not when the first segment is full.
        if state is not None:
            self._begin_segment(None, [])

    def add(self, what: Mapping[str, str], build: Callable[[], T]) -> T:
        """Add machines to the running node; `what` says how replay builds them again."""
        before, found = len(self._host.ports), []

        def enter(now: Instant) -> None:
            found.append(build())
            self._additions.append(dict(what))

        try:
            if self._world.effects is None:
                self._added = Added(dict(what), [], {})
                self._record(self._added, enter, self._driver.clock())
            else:  # Within another input, what follows from which cannot be told apart.
                self._lost = True
                enter(self._driver.clock())
        except Exception:
            if len(self._host.ports) > before:
                self.stop(f"not all of {dict(what)} could be added")
            raise
        finally:
            self._added = None
        return found[0]

    def stop(self, why: str = "") -> None:
        """Stop recording; the node goes on."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if why:
            log.error("%s: nothing is recorded from here on: %s", self._host.node, why)

    # Inputs, from the driver.

    def start(self, now: Instant) -> None:
        self._record(Started(), self._host.start, now)

    def start_late(self, port: Port, now: Instant) -> None:
        self._built.add(port.machine)
        if self._added is not None:
            self._added.instants.append(now)
        elif self._file is not None and not self._lost:
            self.stop(f"nobody said how to build the machine on {port.channel!r} again")
        self._host.start_late(port, now)

    def may_act(self, election: str, now: Instant) -> None:
        """Note that the node's first act in an election has nothing left to wait for."""
        if self._file is not None and not self._lost:
            self._write(Input(now, MayAct(election), []))

    def on_datagram(self, envelope: Envelope, data: bytes, now: Instant) -> None:
        hear = partial(self._host.on_message, envelope.channel, envelope.sender, envelope.message)
        self._record(Heard(data), hear, now)

    def on_message(self, channel: str, sender: NodeId, message: Any, now: Instant) -> None:
        """Take a message of the node to itself, which was never a datagram."""
        hear = partial(self._host.on_message, channel, sender, message)
        self._try(lambda: Heard(self._codec.encode(sender, self.origin.incarnation, channel, message)), hear, now)

    def on_timer(self, port: Port, timer: Numbered, now: Instant) -> None:
        self._world.timers.pop(timer.number, None)
        self._record(Fired(timer.number), partial(self._host.on_timer, port, timer.timer), now)

    def on_durable(self, port: Port, now: Instant) -> None:
        self._record(Durable(port.channel), port.durable, now)

    def tell(self, fact: Any, now: Instant, *, channel: str | None = None) -> None:
        if self._added is not None and not self._host.settling:  # What a machine missed that was just added.
            self._added.instants.append(now)
            self._host.tell(fact, now, channel=channel)
            return
        self._try(lambda: told(channel, fact), partial(self._host.tell, fact, channel=channel), now)

    def _try(self, describe: Callable[[], Given], enter: Callable[[Instant], None], now: Instant) -> None:
        """Record an input that may be one that cannot be kept, or come while facts are carried."""
        if self._file is None:
            enter(now)
            return
        try:
            given = describe()  # Before it is entered: a machine may change what it is given.
        except (DoyenError, TypeError, ValueError) as error:
            self.stop(str(error))
            enter(now)
            return
        effects = self._world.effects
        if effects is None:
            self._record(given, enter, now)
        else:
            assert isinstance(given, Commanded | Told), "machines say nothing to themselves within a step"
            self._nested.append((len(effects), given))
            enter(now)

    def _record(self, given: Given, enter: Callable[[Instant], None], now: Instant) -> None:
        if self._file is None:
            enter(now)
            return
        effects = self._world.effects = []
        self._nested, failure = [], ""
        try:
            enter(now)
        except Exception as error:
            failure = failure_text(error)
            raise
        finally:
            self._world.effects = None
            if not self._lost:
                self._write(Input(now, given, effects, self._nested, failure))
            if self._file is not None and (self._lost or self._size > self.size_max // 2):
                self._next_segment()

    # The file.

    def _next_segment(self) -> None:
        """Begin another segment, unless a machine waits for its disk: until it does not, the present one grows on."""
        if any(port.waits_for_disk for port in self._host.ports.values()):
            if self._size > self.size_max:
                self.stop("the disk is too slow")
            return
        found = self._state()
        if found is not None:
            self._begin_segment(*found)

    def _state(self) -> tuple[State, list[bytes]] | None:
        """Return the machines as data, in frames; None if they cannot be kept, and then recording has stopped."""
        taken = Snapshot(self._built)
        try:
            for port in self._host.ports.values():
                taken.keep(port.machine)
            view = taken.keep(self._view())
            set_timers = self._world.timers.items()
            timers = [(number, at, channel, taken.keep(timer)) for number, (at, channel, timer) in set_timers]
            chunks = _chunks(taken.entries)
            built = taken.built_classes()
        except (DoyenError, TypeError, ValueError, OverflowError) as error:
            self.stop(f"a machine cannot be kept: {error}")
            return None
        state = State(
            classes=taken.classes,
            built=built,
            chunks=len(chunks),
            timers=timers,
            next_timer=self._world.next_timer,
            view=view,
        )
        return state, [frame(chunk) for chunk in chunks]

    def _begin_segment(self, state: State | None, chunks: list[bytes]) -> None:
        header = Header(
            doyen=__version__,
            at=time.time(),
            now=self._driver.clock(),
            origin=self.origin,
            restored=self._restored,
            additions=self._additions,
            state=state,
            reigns=self._reigns(),
        )
        start = encode(header)
        if len(start) > BODY_MAX:
            self.stop(f"what the machines were built from has {len(start):,} bytes")
            return
        beside = self.path.with_name(self.path.name + ".new")  # A process that is killed leaves whole segments.
        try:
            file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                _write_all(file, MAGIC + frame(start) + b"".join(chunks))
                if self.path.exists():
                    os.replace(self.path, older(self.path))
                os.replace(beside, self.path)
            except BaseException:
                os.close(file)
                raise
        except OSError as error:
            self.stop(f"{self.path}: {error.strerror}")
            return
        if self._file is not None:
            os.close(self._file)
        self._file, self._size, self._lost = file, 0, False

    def _write(self, item: Input) -> None:
        body = encode(item)
        if len(body) > BODY_MAX:
            self._lost = True  # One segment ends before it, and another begins after it.
            return
        if self._file is None:
            return
        try:
            framed = frame(body)
            _write_all(self._file, framed)
            self._size += len(framed)
        except OSError as error:
            self.stop(f"{self.path}: {error.strerror}")


def older(path: Path) -> Path:
    """Return where the segment before is."""
    return path.with_name(path.name + ".1")


def _chunks(entries: list[Entry]) -> list[bytes]:
    """Return entries as bodies of frames."""
    body = encode(entries)
    if len(body) <= BODY_MAX:
        return [body]
    if len(entries) == 1:
        raise Unkept(f"an object of {len(body):,} bytes is too large")
    half = len(entries) // 2
    return _chunks(entries[:half]) + _chunks(entries[half:])


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]
