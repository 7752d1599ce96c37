"""What must survive a crash: one small file per channel, replaced whole, flushed before anything relies on it.

    file = 4 bytes CRC-32 · msgpack [version, record]

A file that was half written is never seen: it is written beside, flushed, renamed, and its directory flushed.
A damaged one is refused with advice, not repaired: a guessed promise is a broken promise.
"""

import os
import re
import zlib
from pathlib import Path
from typing import Any

import msgspec

from doyen.errors import TransportError

_VERSION = 1


class Storage:
    """The durable records of one node, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TransportError(
                f"state directory {directory}: {error.strerror}: give another, or its rights"
            ) from None

    def encode(self, record: Any) -> bytes:
        body = msgspec.msgpack.encode((_VERSION, record))
        return zlib.crc32(body).to_bytes(4, "big") + body

    def save(self, channel: str, data: bytes) -> None:
        """Returns once the encoded record is on the disk; the old one stays whole until then."""
        path = self._path(channel)
        beside = path.with_suffix(".new")
        try:
            with open(beside, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
            directory = os.open(self.directory, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise TransportError(f"state file {path}: {error.strerror}: nothing was promised on it") from None

    def load(self, channel: str, kind: Any) -> Any:
        """The record, checked to be of that type, or None if there never was one."""
        path = self._path(channel)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TransportError(f"state file {path}: {error.strerror}") from None
        if len(data) < 5 or zlib.crc32(data[4:]).to_bytes(4, "big") != data[:4]:
            raise TransportError(
                f"state file {path} is damaged (checksum): this node must not go on under its old name"
            )
        try:
            version, record = msgspec.msgpack.decode(data[4:], type=tuple[int, kind])
        except msgspec.MsgspecError as error:
            raise TransportError(f"state file {path} is not what this version wrote: {error}") from None
        if version != _VERSION:
            raise TransportError(f"state file {path} has version {version}; this doyen reads {_VERSION}")
        return record

    def _path(self, channel: str) -> Path:
        return self.directory / (re.sub(r"[^A-Za-z0-9_.-]", lambda found: f"%{ord(found[0]):02x}", channel) + ".state")
