"""Reads a recording that nobody vouches for: frame by frame, each bounded, checked and of its declared type."""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Any, Final, Never

import msgspec

from doyen import __version__
from doyen.errors import TransportError
from doyen.net.recording.format import (
    BODY_MAX,
    FORMAT,
    FRAME_BYTES,
    MAGIC,
    MAGIC_START,
    Entry,
    Header,
    Input,
)
from doyen.net.recording.recorder import older

CHUNKS_MAX: Final = 256  # Frames of a snapshot: a gigabyte.
DECODING: Final = (msgspec.DecodeError, ValueError, RecursionError)
_HEADS: Final = Struct(">III")  # Of a frame: its length, and the checksums of the length and of the body.
_HEADERS: Final = msgspec.msgpack.Decoder(Header)
_ENTRIES: Final = msgspec.msgpack.Decoder(list[Entry])
_INPUTS: Final = msgspec.msgpack.Decoder(Input)


def segments(path: Path) -> list[Path]:
    """Return the files of a recording, the older one first; the path itself where there is none."""
    return [segment for segment in (older(path), path) if segment.exists()] or [path]


class Reader:
    """One segment, open.  Raises `TransportError` for whatever is damaged, or is no recording of this format."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut_off_bytes = 0  # Of a last frame that is not whole, once it was met.
        try:
            if path.exists() and not path.is_file():  # A pipe would be waited for.
                raise TransportError(f"{path} is no file: a recording is one")
            self._file = open(path, "rb")  # noqa: SIM115
        except OSError as error:
            raise TransportError(f"{path}: {error.strerror}") from None
        try:
            self.size = os.fstat(self._file.fileno()).st_size
            self._check_format()
            first = self._body()
            if first is None:
                raise TransportError(f"{path} ends before it begins: nothing was recorded")
            self.header: Header = self._decoded(_HEADERS, first)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def state(self) -> Iterator[list[Entry]]:
        """Yield the snapshot's entries; to be read before the inputs."""
        count = 0 if self.header.state is None else self.header.state.chunks
        if not 0 <= count <= CHUNKS_MAX:
            raise TransportError(f"{self.path} claims a snapshot of {count} frames, at most {CHUNKS_MAX}")
        for _ in range(count):
            body = self._body()
            if body is None:
                raise TransportError(f"{self.path} ends within its machines")
            yield self._decoded(_ENTRIES, body)

    def inputs(self) -> Iterator[Input]:
        """Yield the inputs; a last one that was cut short ends them."""
        decode = _INPUTS.decode
        while (body := self._body()) is not None:
            try:
                found = decode(body)
            except DECODING as error:
                raise self._foreign(error) from None
            yield found

    def _check_format(self) -> None:
        found = self._file.read(len(MAGIC))
        if found == MAGIC:
            return
        if not found.startswith(MAGIC_START):
            raise TransportError(f"{self.path} is not a recording of doyen")
        number = found.removeprefix(MAGIC_START).decode("ascii", "replace").strip()
        why = ": it holds pickled machines, and to read those could run code of its maker" if number == "1" else ""
        raise TransportError(
            f"{self.path} is a recording of format {number}{why}; doyen {__version__} reads format {FORMAT} only"
        )

    def _body(self) -> bytes | None:
        """Return the next body; None at the end, and where the process was killed while it wrote."""
        head = self._file.read(FRAME_BYTES)
        if len(head) < FRAME_BYTES:
            self.cut_off_bytes = len(head)
            return None
        length, length_sum, body_sum = _HEADS.unpack(head)
        if zlib.crc32(head[:4]) != length_sum or length > BODY_MAX:
            self._refuse(FRAME_BYTES)
        body = self._file.read(length)
        if len(body) < length:
            self.cut_off_bytes = len(head) + len(body)
            return None
        if zlib.crc32(body) != body_sum:
            self._refuse(FRAME_BYTES + length)
        return body

    def _refuse(self, read: int) -> Never:
        """Say where the frame begins of which so many bytes were read."""
        raise TransportError(f"{self.path} is damaged at byte {self._file.tell() - read:,} (checksum)")

    def _decoded(self, decoder: Any, body: bytes) -> Any:
        try:
            return decoder.decode(body)
        except DECODING as error:
            raise self._foreign(error) from None

    def _foreign(self, error: Exception) -> TransportError:
        return TransportError(f"{self.path} is not what doyen {__version__} would have recorded: {error}")
