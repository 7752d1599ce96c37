"""A fence on a file system that all hosts share: each term has a file of its own, and readers take the greatest.

    fence = Files("/mnt/orders", "state")
    with fence(term) as file:                    # an io.BytesIO: the whole content
        file.write(b"17")
    Files("/mnt/orders", "state").read()  # what the greatest term wrote

A term's file is made by a link, which succeeds once, and then replaced only by its maker.  A late leader can write
its own file, which nobody reads any more, and it gets an error.  A new term first copies what the last term left; where
that changed between the copy and the link, it copies again, so nothing that was accepted is lost.
On NFS mount with `-o hard,noac,lookupcache=none`.
"""

import io
import os
import re
import socket
import threading
from pathlib import Path
from typing import Any

from doyen.errors import ConfigError, TermRefused, TransportError
from doyen.fence.base import DIGITS, Fence, judge, number_of


class Files(Fence[io.BytesIO]):
    """A fence in a folder, kept in the files NAME.TERM."""

    def __init__(self, folder: str | os.PathLike[str], name: str) -> None:
        super().__init__(name)
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise ConfigError(f"{self.folder} is no folder: make or mount it", field="folder")
        self._pattern = re.compile(re.escape(self.name) + rf"\.(\d{{{DIGITS}}})")
        self._made = 0  # The term whose file this object has made.
        self._temporary = self.folder / f".{self.name}.{socket.gethostname()}.{os.getpid()}.{id(self):x}"
        self._lock = threading.Lock()

    def check(self, term: Any) -> None:
        """Raise `TermRefused` if there is a greater term's file; otherwise make this term's, with the last content."""
        number = number_of(term)
        with self._lock:
            self._check(number)

    def read(self) -> bytes | None:
        """Return what the greatest term wrote; None: nobody has."""
        while True:
            seen = self.seen()
            try:
                return self._path(seen).read_bytes() if seen else None
            except FileNotFoundError:  # A greater term has removed it since.
                if self.seen() == seen:
                    raise

    def seen(self) -> int:
        """Return the greatest term that has a file; 0: there is none."""
        try:
            found = (self._pattern.fullmatch(name) for name in os.listdir(self.folder))
            return max((int(match[1]) for match in found if match), default=0)
        except OSError as error:
            raise TransportError(f"{self.folder} cannot be read: {error.strerror}") from None

    def begin(self, number: int) -> io.BytesIO:
        return io.BytesIO()

    def end(self, number: int, inside: io.BytesIO) -> None:
        with self._lock:
            self._check(number)
            self._write(inside.getvalue())
            os.replace(self._temporary, self._path(number))
            self._flush()
            judge(self.name, number, self.seen())
            self._tidy(number)

    def _check(self, number: int) -> None:
        seen = self.seen()
        judge(self.name, number, seen)
        if self._made == number:
            return
        if seen == number:
            raise TermRefused(number, self.name, seen, because="another process has made this term's file")
        last = self._content(seen)
        self._write(last)
        try:
            os.link(self._temporary, self._path(number))
        except FileExistsError:
            raise TermRefused(number, self.name, number, because="another process has made this term's file") from None
        finally:
            self._temporary.unlink()
        self._flush()
        self._made = number
        judge(self.name, number, self.seen())
        if (changed := self._content(seen)) != last:  # Written before this term's file was made: it was accepted.
            self._write(changed)
            os.replace(self._temporary, self._path(number))
            self._flush()

    def _content(self, term: int) -> bytes:
        try:
            return self._path(term).read_bytes() if term else b""
        except FileNotFoundError:
            return b""

    def _path(self, term: int) -> Path:
        return self.folder / f"{self.name}.{term:0{DIGITS}}"

    def _write(self, data: bytes) -> None:
        with open(self._temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def _flush(self) -> None:
        opened = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)

    def _tidy(self, number: int) -> None:
        """Remove the files of smaller terms: nobody reads them."""
        for name in os.listdir(self.folder):
            match = self._pattern.fullmatch(name)
            if match and int(match[1]) < number:
                (self.folder / name).unlink(missing_ok=True)
