"""Keeps on the disk what must survive a crash: the identity of a node, and what its machines promised.

    directory = identity.state   who it is, how often it has started, which records there must be
                CHANNEL.state    one per machine that promises
                lock             held while a process runs here, as is the directory itself; not empty once there is
                                 an identity
    file      = 4 bytes CRC-32 · msgpack [version, name, channel, record]

A file that was half written is never seen: it is written beside, flushed, renamed, and its directory flushed.
A damaged or a missing one, or one of another node, is refused with advice, not repaired: a guessed promise is a broken
promise.  An older copy of a node's own file cannot be told from the latest: never put one back.  So a node
that lost its records must not speak under its old name again: `doyen state reset --new-identity` retires the name here
(decision 83).
"""

import asyncio
import errno
import fcntl
import os
import re
import time
import zlib
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from doyen.core.ids import Incarnation
from doyen.errors import ConfigError, TransportError
from doyen.net.tallies import Histogram

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_VERSION: Final = 2
_IDENTITY: Final = "identity"
_RECORD_MAX: Final = 1 << 20
WRITES_KEPT: Final = 16  # The slowest of the last writes tells how slow the disk is.


class Identity(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The identity of a node, kept in its own directory."""

    name: str
    incarnation: int = 0  # The last one; each is greater than the one before, whatever the wall clock says.
    began_at: int = 0  # Wall clock of the last start, in seconds.
    channels: tuple[str, ...] = ()  # Those that have promised something: their records must be there.
    retired: bool = False  # Its promises are lost, so it must not speak again.


class Storage:
    """The durable records of one node, in a directory of its own, named after it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._identity: Identity | None = None
        self._write_s: deque[float] = deque(maxlen=WRITES_KEPT)
        self.writes = Histogram()
        self._locks: list[int] = []  # The directory, then the file in it: of 0.1.0 the file alone is locked.
        self._writer: ThreadPoolExecutor | None = None
        try:
            made = [place for place in (directory, *directory.parents) if not place.exists()]
            directory.mkdir(parents=True, exist_ok=True)
            for place in made:
                _flush(place.parent)  # Else a crash could take the directory, and all promises in it.
        except OSError as error:
            raise TransportError(
                f"state directory {directory}: {error.strerror}: give another, or its rights"
            ) from None

    # An incarnation.

    def begin_incarnation(self, least: int) -> Incarnation:
        """Take the directory, before anything is sent, and return an incarnation greater than any before.

        Raises `TransportError` if another process runs here, or if something is damaged, missing or retired.
        """
        self._take()
        try:
            return self._begin(least)
        except TransportError:
            self.close()
            raise

    def _begin(self, least: int) -> Incarnation:
        found = self.load(_IDENTITY, Identity)
        if found is None and self._was_begun():
            raise TransportError(self._advice("identity file identity.state is missing"))
        identity = found or Identity(name=self.directory.name)
        if identity.retired:
            raise TransportError(
                f"state directory {self.directory}: {identity.name} was retired here, its promises are lost. "
                f"Start under another name, e.g. --name {next_name(identity.name)}"
            )
        for channel in identity.channels:
            if not self._exists(channel):
                raise TransportError(self._advice(f"promise file {self._path(channel).name} is missing"))
        identity = msgspec.structs.replace(
            identity, incarnation=max(identity.incarnation + 1, least), began_at=int(time.time())
        )
        self._write(_IDENTITY, self.encode(_IDENTITY, identity))
        if found is None:
            self._note_begun()
        self._identity = identity
        return Incarnation(identity.incarnation)

    def _was_begun(self) -> bool:
        """Return whether a process has begun here before, so that a missing identity is a lost one."""
        return bool(os.fstat(self._locks[-1]).st_size) or any(self.directory.glob("*.state"))

    def _note_begun(self) -> None:
        os.write(self._locks[-1], b"1")

    def _take(self) -> None:
        """Lock the directory, which nobody can remove from under a process, and the file in it."""
        try:
            for path, flags in ((self.directory, os.O_DIRECTORY), (self.directory / "lock", os.O_RDWR | os.O_CREAT)):
                self._locks.append(os.open(path, flags | os.O_NOFOLLOW * (path.name == "lock") | os.O_CLOEXEC, 0o600))
        except OSError as error:
            self.close()
            raise TransportError(
                f"state directory {self.directory}: its file lock: {error.strerror}: this user must be able to write it"
            ) from None
        for lock in self._locks:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if lock == self._locks[0] and error.errno != errno.EWOULDBLOCK:
                    continue  # Some network file systems lock no directories.
                self.close()
                raise TransportError(
                    f"state directory {self.directory}: another process runs as {self.directory.name} here: "
                    "stop it, or give this one another name"
                ) from None

    def close(self) -> None:
        """Give the directory free; the end of the process does so, too."""
        if self._writer is not None:
            self._writer.shutdown(wait=False)
        while self._locks:
            os.close(self._locks.pop())

    # Records.

    def encode(self, channel: str, record: Any) -> bytes:
        body = msgspec.msgpack.encode((_VERSION, self.directory.name, channel, record))
        return zlib.crc32(body).to_bytes(4, "big") + body

    def save_soon(self, channel: str, data: bytes) -> "asyncio.Future[None]":
        """Save an encoded record in a thread, one after the other in the order of the calls."""
        if self._writer is None:
            from concurrent.futures import ThreadPoolExecutor  # Most nodes keep nothing.

            self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="doyen-disk")
        return asyncio.get_running_loop().run_in_executor(self._writer, self.save, channel, data)

    def save(self, channel: str, data: bytes) -> None:
        """Write an encoded record, and return once it is on the disk; the old one stays whole until then."""
        self._write(channel, data)
        identity = self._identity
        if identity is not None and channel not in identity.channels:  # Before anybody hears of the first record.
            identity = msgspec.structs.replace(identity, channels=(*identity.channels, channel))
            self._write(_IDENTITY, self.encode(_IDENTITY, identity))
            self._identity = identity

    @property
    def slowest_write_s(self) -> float:
        """Return how long the slowest of the last writes took; each node has made one when it starts."""
        return max(self._write_s.copy(), default=0.0)

    def lost(self) -> str:
        """Return what of this running node's files is no longer there; "": nothing is lost."""
        try:
            if not os.path.samestat(os.fstat(self._locks[0]), os.stat(self.directory)):
                return f"state directory {self.directory} was replaced while it runs"
        except OSError as error:
            return f"state directory {self.directory} is gone while it runs: {error.strerror}"
        kept = (_IDENTITY, *(() if self._identity is None else self._identity.channels))
        missing = [self._path(channel).name for channel in kept if not self._exists(channel)]
        return f"state directory {self.directory} lacks {', '.join(missing)}" if missing else ""

    def _write(self, channel: str, data: bytes) -> None:
        path = self._path(channel)
        began = time.monotonic()
        try:
            if self._locks and not os.path.samestat(os.fstat(self._locks[0]), os.stat(self.directory)):
                raise TransportError(f"state directory {self.directory} was replaced while a process used it: stop it")
            _write_whole(path, data)
        except OSError as error:
            raise TransportError(f"state file {path}: {error.strerror}: nothing was promised on it") from None
        took_s = time.monotonic() - began
        self._write_s.append(took_s)
        self.writes.note(round(took_s * 1e9))

    def _read(self, channel: str) -> bytes | None:
        path = self._path(channel)
        try:
            with open(path, "rb") as file:
                return file.read(_RECORD_MAX + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TransportError(f"state file {path}: {error.strerror}: this user must be able to read it") from None

    def _exists(self, channel: str) -> bool:
        return self._path(channel).exists()

    def load(self, channel: str, kind: Any) -> Any:
        """Return the record, checked to be of that type, or None if there never was one."""
        path, data = self._path(channel), self._read(channel)
        if data is None:
            return None
        what = "identity file" if channel == _IDENTITY else "promise file"
        if not 5 <= len(data) <= _RECORD_MAX or zlib.crc32(data[4:]).to_bytes(4, "big") != data[:4]:
            raise TransportError(self._advice(f"{what} {path.name} is damaged (checksum)"))
        try:
            version, *rest = msgspec.msgpack.decode(data[4:], type=list)
            if version != _VERSION:
                raise TransportError(
                    f"state file {path} has version {version}; this doyen reads {_VERSION}: run the one that wrote it"
                )
            name, written, record = msgspec.convert(rest, tuple[str, str, Any])
            if (name, written) != (self.directory.name, channel):
                raise TransportError(self._advice(f"{what} {path.name} is not its own, but {written!r} of {name!r}"))
            return msgspec.convert(record, kind)
        except (msgspec.MsgspecError, ValueError) as error:
            raise TransportError(self._advice(f"{what} {path.name} is not what this version wrote ({error})")) from None

    def _advice(self, what: str) -> str:
        return (
            f"state directory {self.directory}: {what}. This node must not vote as {self.directory.name} again. "
            f"doyen state reset --new-identity {self.directory}"
        )

    def _path(self, channel: str) -> Path:
        as_ascii = "".join(map(chr, channel.encode()))
        return self.directory / (re.sub(r"[^A-Za-z0-9_.-]", lambda found: f"%{ord(found[0]):02x}", as_ascii) + ".state")


def _write_whole(path: Path, data: bytes) -> None:
    beside = path.with_suffix(".new")
    with open(beside, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    _flush(path.parent)


def write_time_s(directory: Path) -> float:
    """Return how long the slowest of three writes of a record takes in this directory; nothing is left there."""
    taken = []
    probe = directory / f".probe-{os.getpid()}.state"
    try:
        for _ in range(3):
            began = time.monotonic()
            _write_whole(probe, bytes(100))
            taken.append(time.monotonic() - began)
    finally:
        probe.unlink(missing_ok=True)
    return max(taken)


def _flush(directory: Path) -> None:
    """Flush a directory, so that what was made or renamed in it stays so after a crash."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# For people.


class Found(Struct, frozen=True):
    """One file of a state directory, as it is found."""

    file: str
    record: Any = None
    damage: str = ""


def look_at(directory: Path) -> list[Found]:
    """Return every record of one node, damaged or not; nothing is changed."""
    found = []
    storage = Storage.__new__(Storage)
    storage.directory = directory
    for path in sorted(directory.glob("*.state")):
        as_ascii = re.sub(r"%([0-9a-f]{2})", lambda hit: chr(int(hit[1], 16)), path.stem)
        try:
            channel = bytes(map(ord, as_ascii)).decode()
            found.append(Found(path.name, storage.load(channel, Any)))
        except ValueError:
            found.append(Found(path.name, damage="is no file of doyen's: its name is not one that doyen gives"))
        except TransportError as error:
            found.append(Found(path.name, damage=str(error).removeprefix(f"state directory {directory}: ")))
    return found


def is_node_directory(directory: Path) -> bool:
    return directory.is_dir() and (any(directory.glob("*.state")) or (directory / "lock").exists())


def lacking(directory: Path, channels: Iterable[str]) -> list[str]:
    """Return the channels that have no record in a node's directory; nothing is changed."""
    storage = Storage.__new__(Storage)
    storage.directory = directory
    return [channel for channel in channels if storage.load(channel, Any) is None]


def first_records(directory: Path, records: Mapping[str, Any]) -> list[str]:
    """Write the first record of each channel that has none; return those channels.  What is there stays as it is.

    Raises `TransportError` if something is damaged, missing or retired, or if a process runs here that lacks a record.
    """
    storage = Storage(directory)
    wanted = lacking(directory, records)
    if wanted or lacking(directory, [_IDENTITY]):
        storage.begin_incarnation(0)
        try:
            for channel in wanted:
                storage.save(channel, storage.encode(channel, records[channel]))
        finally:
            storage.close()
    return wanted


def retire(directory: Path) -> tuple[str, Path]:
    """Put the records aside and retire the name for good; return another name, and where the records are."""
    storage = Storage(directory)
    storage._take()
    try:
        aside = directory / time.strftime("retired-%Y%m%dT%H%M%S")
        while aside.exists():
            aside = aside.with_name(aside.name + "-")
        aside.mkdir()
        try:
            incarnation = (storage.load(_IDENTITY, Identity) or Identity(name=directory.name)).incarnation
        except TransportError:
            incarnation = 0
        for path in sorted(directory.glob("*.state")):
            os.replace(path, aside / path.name)
        marker = Identity(name=directory.name, incarnation=incarnation, began_at=int(time.time()), retired=True)
        storage._write(_IDENTITY, storage.encode(_IDENTITY, marker))
    except OSError as error:
        raise ConfigError(f"{directory}: {error.strerror}: nothing was retired") from None
    finally:
        storage.close()
    return next_name(directory.name), aside


def next_name(name: str) -> str:
    """Return a name for the successor of a retired one: `ant` → `ant-2` → `ant-3`."""
    stem, dash, number = name.rpartition("-")
    return f"{stem}-{int(number) + 1}" if dash and number.isdigit() and len(number) < 9 else f"{name}-2"
