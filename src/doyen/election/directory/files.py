"""The directory of an election on a real file system: single steps, each durable before it returns.

A claim is a file that was written, flushed, and then given its name by `link`, which fails where the name exists: on
one host and between hosts, on NFS too.  Whether a link was made is decided by reading the file, for over a network the
answer to a link that succeeded may be lost.
"""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from doyen.core.outside import Outside, Verdict, Work
from doyen.election.directory.messages import Found, ToDirectory
from doyen.election.directory.steps import (
    MARKER,
    SIZE_MAX,
    TEMPORARY,
    Link,
    ListNames,
    Marker,
    Read,
    Remove,
    Replace,
    Step,
    numbered,
    packed,
    perform,
)
from doyen.errors import ConfigError

NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)
NETWORK: Final = {"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "fuse.glusterfs", "fuse.sshfs", "virtiofs"}
STALE_NFS: Final = "mount it with -o hard,noac,lookupcache=none: what NFS keeps in its cache is old, and two could lead"


class Folder:
    """One directory of the file system."""

    def __init__(self, path: Path, node: str) -> None:
        self.path = path
        self._temporary = path / numbered(f"{TEMPORARY}new", 0, node)

    def do(self, step: Step) -> Any:
        """Do one step; raise `OSError` where that fails."""
        match step:
            case ListNames():
                return tuple(os.listdir(self.path))
            case Read(name):
                return self._read(name)
            case Link(name, data):
                self._write(data)
                try:
                    os.link(self._temporary, self.path / name)
                except FileExistsError:
                    return None
                except OSError as error:
                    if error.errno in NO_LINKS:
                        words = "its file system has no hard links, which claims need: take another"
                        raise OSError(error.errno, words, str(self.path)) from None
                    raise
                finally:
                    os.unlink(self._temporary)
                self._flush_names()
            case Replace(name, data):
                self._write(data)
                os.replace(self._temporary, self.path / name)
                self._flush_names()
            case Remove(name):
                try:
                    os.unlink(self.path / name)
                except OSError:
                    return None  # Another user's, or gone: the next renewal tries again.
        return None

    def _read(self, name: str) -> bytes | None:
        try:
            with open(self.path / name, "rb") as file:
                return file.read(SIZE_MAX)
        except FileNotFoundError:
            return None
        except (IsADirectoryError, PermissionError):
            return b""  # There, and unreadable.

    def _write(self, data: bytes) -> None:
        with open(self._temporary, "wb") as file:
            os.fchmod(file.fileno(), 0o644)  # Members may run as different users, whatever their umask.
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def _flush_names(self) -> None:
        opened = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def answer(folder: Folder, request: ToDirectory, outside: Outside) -> Found:
    """Do a request, step by step; raise `OSError` with words for people where the directory cannot be used."""
    steps = perform(request, outside)
    step = next(steps)
    while True:
        try:
            result = folder.do(step)
        except OSError as error:
            raise OSError(f"{outside.shared} cannot be used: {_why(error)}") from None
        try:
            step = steps.send(result)
        except StopIteration as ended:
            found: Found = ended.value
            return found


def _why(error: OSError) -> str:
    said = error.strerror or str(error)
    advice = {
        errno.ENOENT: "make or mount it",
        errno.ENOTDIR: "give a directory",
        errno.EACCES: "give this process's user the right to read and write there",
        errno.EROFS: "mount it for writing",
        errno.ENOSPC: "make room",
        errno.EDQUOT: "make room",
        errno.ESTALE: "mount it again",
    }.get(error.errno or 0, "")
    return f"{said}: {advice}" if advice else said


class Files:
    """The other half of elections by a directory (`core.outside.OtherHalf`)."""

    def work(self, outside: Outside) -> Work:
        folder = Folder(Path(outside.shared), outside.node)
        return Work(lambda request: msgspec.msgpack.encode(answer(folder, request, outside)))

    def prepare(self, outside: Outside) -> bool:
        folder = Folder(Path(outside.shared), outside.node or "init")
        try:
            if folder.do(Read(MARKER)) is None:
                folder.do(Link(MARKER, packed(Marker(outside.group, outside.name))))
                return True
            answer(folder, ToDirectory(number=0, do="look"), outside)
        except OSError as error:
            words = f"{outside.shared}: {_why(error)}" if error.errno else str(error)
            raise ConfigError(words, field="shared") from None
        return False

    def examine(self, outside: Outside, pause: Callable[[float], None]) -> Iterator[tuple[Verdict, str, str]]:
        folder = Folder(Path(outside.shared), f"{outside.node}-doctor")
        probe = numbered(f"{TEMPORARY}probe", 0, outside.node)
        try:
            found = answer(folder, ToDirectory(number=0, do="look"), outside)
            folder.do(Replace(probe, b"doctor"))
            folder.do(Remove(probe))
        except OSError as error:
            yield "wrong", error.strerror or str(error), ""
            return
        held = "no epoch was claimed yet" if found.top is None else f"epoch {found.top.epoch}, {found.top.node}"
        yield "ok", f"shared directory {outside.shared}: {held}", ""
        if found.odd:
            yield "note", f"{outside.shared} holds other files: {', '.join(found.odd)}", "they are passed over"
        yield from _mounted(Path(outside.shared))
        yield from self._renews(folder, found, outside, pause)

    def _renews(
        self, folder: Folder, before: Found, outside: Outside, pause: Callable[[float], None]
    ) -> Iterator[tuple[Verdict, str, str]]:
        """Find out whether what another host writes is seen here: the leader's renewals."""
        if before.top is None or before.top.phase != "acting" or before.top.node == outside.node:
            return
        pause(2 * outside.config.renew_interval / 1e9)
        try:
            after = answer(folder, ToDirectory(number=0, do="look"), outside)
        except OSError:
            return
        if after.top is not None and after.top.mark != before.top.mark:
            yield "ok", f"renewals of {before.top.node} are seen here", ""
        else:
            what = f"no renewal of {before.top.node} is seen here"
            yield "note", what, f"it has stopped, or what it writes is not seen: {STALE_NFS}"


def _mounted(path: Path) -> Iterator[tuple[Verdict, str, str]]:
    """Look at the file system below a directory, as far as the kernel tells."""
    device = os.stat(path).st_dev
    where = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if line.split()[2] == where:
            yield judged(path, line)
            return


def judged(path: Path, mounted: str) -> tuple[Verdict, str, str]:
    """Return what a line of /proc/self/mountinfo says of a directory's file system."""
    left, _, right = mounted.partition(" - ")
    kind, _, options = right.split(" ", 2)
    given = {*left.split()[5].split(","), *options.split(",")}
    if kind not in NETWORK:
        return "note", f"{path} is on {kind}: only this machine sees it, unless a cluster shares the disk", ""
    if not kind.startswith("nfs"):
        advice = "take it only if a file made on one host is seen at once on the other: see the two-hosts how-to"
        return "note", f"{path} is on {kind}; whether its reads may be old is not known here", advice
    if _uncached(given) and "lookupcache=none" in given:
        return "ok", f"{path} is on {kind}, and nothing of it is cached", ""
    return "wrong", f"{path} is on {kind}, whose reads may be old", STALE_NFS


def _uncached(options: set[str]) -> bool:
    """Return whether attributes are asked of the server each time; the kernel shows `noac` as four times 0."""
    return "noac" in options or {"acregmin=0", "acregmax=0", "acdirmin=0", "acdirmax=0"} <= options
