"""Processes of one user on one machine find each other: each keeps a small file in the runtime directory.

    RUNTIME/GROUP/NAME.node      where the node listens, and in which network namespace; locked while its process lives
    RUNTIME/GROUP/NAME.sock      its control socket, where it has one

A lock ends with its process, whatever ended it, so a file that can be locked is of a dead one and is removed, with its
socket.  Files come and go under the lock of their folder: of two that start at once, one registers first, and the
second sees it.
"""

import fcntl
import os
import re
import socket
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from doyen.core.clock import Instant

FOLDER_PATIENCE_S: Final = 0.5  # How long to wait for a folder's lock: its holder may be stopped.
ENTRY_MAX: Final = 4096  # Bytes that are read of an entry.
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Entry(Struct, frozen=True, kw_only=True):
    """One node of this machine, as it registered itself."""

    group: str
    name: str
    pid: int
    network: str  # Its machine and network namespace: another one's loopback is not ours.
    registered_at: Instant  # On CLOCK_BOOTTIME: of two nodes of a group, the order in which they registered.
    address: str = ""  # Where others of this machine reach it; "": it does not want to be found.
    seeds: tuple[str, ...] = ()  # The addresses that it was given.
    keys: tuple[str, ...] = ()  # The ids of its keys; "clear" where it hears what is not sealed; none: not said.

    def shares_key(self, other: "Entry") -> bool:
        """Return whether the two may understand each other, as far as they have said."""
        return not (self.keys and other.keys) or not {*self.keys}.isdisjoint(other.keys)


class Registration:
    """The entry of one running node, in the runtime directory until `close`."""

    def __init__(self, entry: Entry, path: Path, file: int) -> None:
        self.entry, self.path, self._file = entry, path, file
        self._stamp: object = None  # Of the folders, when they were read last.
        self._known: list[Entry] = []
        _open_files.add(file)

    @classmethod
    def make(
        cls, group: str, name: str, address: str, seeds: Iterable[str] = (), keys: Iterable[str] = ()
    ) -> "Registration":
        """Register a node.  Raises `OSError` where there is no place of this user's own."""
        folder = runtime_dir() / safe(group)
        make_private(folder)
        clear(folder.parent)
        with _locked(folder, make=True):
            path = folder / f"{safe(name)}.node"
            if path.exists():  # A namesake lives: its files stay its own.
                path = folder / f"{safe(name)}-{os.getpid()}.node"
            path.with_suffix(".sock").unlink(missing_ok=True)
            entry = Entry(
                group=group,
                name=name,
                pid=os.getpid(),
                network=network_namespace(),
                registered_at=time.clock_gettime_ns(time.CLOCK_BOOTTIME),
                address=address,
                seeds=tuple(seeds),
                keys=tuple(keys),
            )
            return cls(entry, path, _write(path, entry))

    def others(self, *, anew: bool = True) -> list[Entry]:
        """Return the living nodes of this group, user and network, but this one, in the order of their registration.

        Without `anew`, what was read last is returned unless an entry has come or gone since.
        """
        self._renew()
        folders = [place / self.path.parent.name for place in runtime_dirs()]
        stamp = [_changed_at(folder) for folder in folders]
        if anew or stamp != self._stamp:
            self._stamp, here = stamp, (self.entry.group, self.entry.network)
            paths = [path for folder in folders for path in sorted(folder.glob("*.node")) if path != self.path]
            found = [entry for path in paths if (entry := _read(path)) and (entry.group, entry.network) == here]
            self._known = sorted(found, key=lambda entry: (entry.registered_at, entry.name))
        return self._known

    def earlier(self) -> list[Entry]:
        """Return the others that registered before this node, but those that were told to look for it."""
        mine = self.entry
        return [
            entry
            for entry in self.others()
            if entry.registered_at < mine.registered_at and mine.address not in entry.seeds
        ]

    def tell_keys(self, keys: Iterable[str]) -> None:
        """Note that the node has other keys from now on."""
        self.entry = msgspec.structs.replace(self.entry, keys=tuple(keys))
        self._put()

    def sweep(self) -> None:
        """Remove what dead processes of this group left behind."""
        with suppress(OSError), _locked(self.path.parent):
            _sweep(self.path.parent)

    def close(self) -> None:
        """Remove the entry; the folder, too, if nothing is left in it."""
        if self.entry.pid != os.getpid():
            return  # A fork's: the parent's stays.
        with suppress(OSError), _locked(self.path.parent):
            if self._is_there():
                self.path.unlink()
            _sweep(self.path.parent)
            self.path.parent.rmdir()
        self._close_file()

    def _is_there(self) -> bool:
        return _is(self._file, self.path)

    def _renew(self) -> None:
        """Register again if somebody removed the file: systems clean what is old in /tmp."""
        if not self._is_there():
            self._put()

    def _put(self) -> None:
        with suppress(OSError), _locked(self.path.parent, make=True):
            file = _write(self.path, self.entry)
            self._close_file()
            self._file = file
            _open_files.add(file)

    def _close_file(self) -> None:
        _open_files.discard(self._file)
        with suppress(OSError):
            os.close(self._file)


def clear(place: Path) -> None:
    """Remove from a runtime directory what dead processes left, with the folders that get empty by it."""
    for folder in place.iterdir():
        if any(folder.glob("*.node")):
            with suppress(OSError), _locked(folder):
                _sweep(folder)
                folder.rmdir()


# ── Folders ─────────────────────────────────────────────────────────────────────────────────────────────────


def runtime_dir() -> Path:
    """Return where this user's nodes register; what another user has put in the usual place is left alone."""
    given = os.environ.get("DOYEN_RUNTIME_DIR")
    if given:
        return Path(given)
    return next((place for place in _usual_dirs()[1:] if not _is_there(place) or is_private(place)), _usual_dirs()[-1])


def runtime_dirs() -> list[Path]:
    """Return where this user's nodes may be: a login session has an XDG_RUNTIME_DIR, cron and services have none."""
    if os.environ.get("DOYEN_RUNTIME_DIR"):
        return [runtime_dir()]
    return [place for place in dict.fromkeys((runtime_dir(), *_usual_dirs())) if is_private(place)]


def _usual_dirs() -> list[Path]:
    """Return the places in the order in which they are taken, but for the first, where nodes of a session may be."""
    user, xdg, home = os.getuid(), os.environ.get("XDG_RUNTIME_DIR"), os.environ.get("HOME")
    places = [Path(f"/run/user/{user}/doyen"), *([Path(xdg) / "doyen"] if xdg else []), Path(f"/tmp/doyen-{user}")]
    return [*places, Path(home) / ".doyen"] if home else places  # Anybody may take the one in /tmp first.


def safe(text: str) -> str:
    """Return a name of a group or a node as a file can have it."""
    return re.sub(r"[^A-Za-z0-9_.-]", lambda found: f"%{ord(found[0]):02x}", text).lstrip(".") or "%"


def make_private(directory: Path) -> None:
    """Make a directory that only this user can write: another who replaced the socket could pretend to be the node."""
    for made in (directory.parent, directory):
        with suppress(FileExistsError):  # A link that leads nowhere: `is_private` refuses it.
            made.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_private(made.resolve() if made == Path(os.environ.get("DOYEN_RUNTIME_DIR", "")) else made):
            raise OSError(0, f"{made} is not this user's alone: set DOYEN_RUNTIME_DIR to a directory that is")


def is_private(directory: Path) -> bool:
    """Return whether it is a directory of this user's that nobody else can write, and no link to one."""
    try:
        found = os.lstat(directory)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o022


def _is_there(place: Path) -> bool:
    return os.path.lexists(place)


@contextmanager
def _locked(folder: Path, *, make: bool = False) -> Iterator[None]:
    """Hold the lock of a group's folder, which may be removed and made again while this waits for it."""
    file = _take(folder, make)
    try:
        yield
    finally:
        os.close(file)


def _take(folder: Path, make: bool) -> int:
    deadline = time.monotonic() + FOLDER_PATIENCE_S
    while True:
        if make:
            make_private(folder)
        try:
            file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            if make and time.monotonic() < deadline:
                continue
            raise
        locked = _lock(file, fcntl.LOCK_EX)
        # A stopped process that holds the lock must not keep others from starting.
        if (locked or time.monotonic() >= deadline) and _is(file, folder):
            return file
        os.close(file)
        time.sleep(0.002)


def _sweep(folder: Path) -> None:
    """Remove the files of dead processes; the folder's lock is held."""
    for path in (*folder.glob("*.node"), *folder.glob(".*.node-*")):
        if _is_dead(path):
            path.unlink(missing_ok=True)
            path.with_suffix(".sock").unlink(missing_ok=True)


def answers(path: Path) -> bool:
    """Return whether a process listens on that socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.5)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def _changed_at(folder: Path) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def _is(file: int, path: Path) -> bool:
    """Return whether that open file is the one that has the name now."""
    try:
        return os.fstat(file).st_ino == os.stat(path).st_ino
    except OSError:
        return False


# ── Entries ─────────────────────────────────────────────────────────────────────────────────────────────────


def _write(path: Path, entry: Entry) -> int:
    """Write an entry, locked before others can see it, and return its open file; the folder's lock is held."""
    draft = path.with_name(f".{path.name}-{os.getpid()}")
    file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        _lock(file, fcntl.LOCK_EX)
        os.write(file, msgspec.json.encode(entry))
        os.rename(draft, path)
    except BaseException:
        os.close(file)
        raise
    return file


def _read(path: Path) -> Entry | None:
    """Return the entry of a living node; None for that of a dead one, and for what is none."""
    if _is_dead(path):
        return None
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(ENTRY_MAX), type=Entry)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _is_dead(path: Path) -> bool:
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return True
    try:
        return _lock(file, fcntl.LOCK_SH)  # Shared: others who ask at the same instant must not take it for alive.
    finally:
        os.close(file)


def _lock(file: int, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def network_namespace() -> str:
    """Return the name of this process's network namespace: no other one, on any machine, has it."""
    try:
        return f"{_BOOT_ID.read_text().strip()}/{os.stat('/proc/self/ns/net').st_ino}"
    except OSError:  # A system that has none.
        return socket.gethostname()


_open_files: set[int] = set()


def _forget_open_files() -> None:
    """Close, in a fork, what its parent holds: a lock lasts until its last holder has closed it."""
    for file in _open_files:
        with suppress(OSError):
            os.close(file)
    _open_files.clear()


os.register_at_fork(after_in_child=_forget_open_files)
