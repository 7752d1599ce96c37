"""The flight recorder's file: what a node's machines were, and everything that came in and went out since.

    file     = "DOYEN RECORDING 1\\n", frames…
    frame    = length (4) · CRC-32 of the length (4) · CRC-32 of the body (4) · body, msgpack
    first    = `Header`, with the machines as they were
    others   = [kind, now, details, effects]

Machines are kept as a pickle, read with an unpickler that makes nothing but doyen's own sans-IO objects, which can do
nothing to the world: a recording may come from somebody else.
"""

import io
import pickle
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import Struct

from doyen.errors import TransportError

MAGIC: Final = b"DOYEN RECORDING 1\n"
FRAME_BYTES: Final = 12
BODY_MAX: Final = 64 << 20
SANS_IO: Final = ("doyen.core.", "doyen.election.", "doyen.membership.", "doyen.score.")
HARMLESS: Final = {
    ("random", "Random"),
    ("collections", "OrderedDict"),
    ("collections", "deque"),
    ("collections", "Counter"),
    ("collections", "defaultdict"),
    ("builtins", "set"),
    ("builtins", "frozenset"),
    ("builtins", "bytearray"),
    ("functools", "partial"),
    ("itertools", "count"),
    ("msgspec._core", "rebuild"),
    ("msgspec._utils", "rebuild"),
    ("doyen.net.recording", "Machines"),
    ("doyen.net.discovery", "Beacon"),
    ("doyen.net.discovery", "CallDue"),
    ("doyen.net.discovery", "DiscoveryConfig"),
    ("doyen.net.discovery", "Here"),
}


class Header(Struct, frozen=True, kw_only=True):
    doyen: str
    node: str
    incarnation: int
    group: str
    at: float  # Wall clock, in seconds.
    machines: bytes  # A pickle of `Machines`.


class Machines(Struct):
    """A node at rest."""

    channels: list[tuple[str, frozenset[str] | None, Any]]  # (channel, follows, machine)
    timers: list[tuple[int, int, str, Any]]  # (at, number, channel, timer)
    next_timer_no: int


class Input(Struct, array_like=True):
    """One input, and everything that followed from it."""

    kind: str  # start, start late, message, timer, durable, command, tell
    now: int
    details: bytes  # A pickle of a tuple, by kind.
    effects: list[str]
    nested: list[tuple[int, str, bytes]] = []  # (after so many effects, "command" or "tell", details)
    failure: str = ""  # What the machines raised, if they did.


# ── Pickles ─────────────────────────────────────────────────────────────────────────────────────────────────


def dump(value: Any, name_of: Callable[[Any], str | None] | None = None) -> bytes:
    """`name_of` gives a name to what is not written but found again by it: the ports."""
    if name_of is None:
        return pickle.dumps(value, protocol=5)  # Each input: no Python is run for each object in it.
    buffer = io.BytesIO()
    _Pickler(buffer, name_of).dump(value)
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    def __init__(self, file: BinaryIO, name_of: Callable[[Any], str | None]) -> None:
        super().__init__(file, protocol=5)
        self._name_of = name_of

    def persistent_id(self, obj: Any) -> str | None:
        return self._name_of(obj)


def undump(data: bytes, named: Callable[[str], Any] | None = None) -> Any:
    try:
        return _Unpickler(io.BytesIO(data), named).load()
    except TransportError:
        raise
    except Exception as error:
        raise TransportError(f"a recording's machines cannot be read: {error}") from None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BinaryIO, named: Callable[[str], Any] | None) -> None:
        super().__init__(file)
        self._named = named

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("builtins", "getattr"):
            return _method
        found: Any = import_module(module) if _is_ours(module) or (module, name) in HARMLESS else None
        for part in name.split("."):
            found = getattr(found, part, None)
        at_home = callable(found) and _is_ours(getattr(found, "__module__", ""))  # Not what it imported.
        if not at_home and (module, name) not in HARMLESS:
            raise TransportError(f"a recording must not hold {module}.{name}: it was not made by doyen")
        return found

    def persistent_load(self, pid: Any) -> Any:
        if self._named is None:
            raise TransportError("a recording names a port where there is none")
        return self._named(pid)


def _is_ours(module: str) -> bool:
    return module.startswith(SANS_IO)


def _method(owner: Any, name: str) -> Any:
    """Bound methods are pickled as `getattr`: of our own objects, and nothing hidden."""
    if not _is_ours(type(owner).__module__) or name.startswith("__"):
        raise TransportError(f"a recording must not ask for {type(owner).__name__}.{name}")
    return getattr(owner, name)


# ── Files ───────────────────────────────────────────────────────────────────────────────────────────────────


def frame(body: bytes) -> bytes:
    length = len(body).to_bytes(4, "big")
    return length + zlib.crc32(length).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body


def frames(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """The bodies; a last one that was cut short ends them, anything else that is wrong is an error."""
    if file.read(len(MAGIC)) != MAGIC:
        raise TransportError(f"{path} is not a recording of doyen")
    while True:
        at = file.tell()
        head = file.read(FRAME_BYTES)
        if len(head) < FRAME_BYTES:
            return
        length = int.from_bytes(head[:4], "big")
        if zlib.crc32(head[:4]).to_bytes(4, "big") != head[4:8] or length > BODY_MAX:
            raise TransportError(f"{path} is damaged at byte {at:,} (checksum)")
        body = file.read(length)
        if len(body) < length:
            return  # The process was killed while it wrote.
        if zlib.crc32(body).to_bytes(4, "big") != head[8:12]:
            raise TransportError(f"{path} is damaged at byte {at:,} (checksum)")
        yield body


_HEADERS: Final = msgspec.msgpack.Decoder(Header)
_INPUTS: Final = msgspec.msgpack.Decoder(Input)


def read(path: Path) -> tuple[Header, Iterator[Input]]:
    """The header, and the inputs as they are asked for.  A segment is small enough to be read at once."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TransportError(f"{path}: {error.strerror}") from None
    bodies = frames(io.BytesIO(data), path)
    first = next(bodies, None)
    if first is None:
        raise TransportError(f"{path} ends before it begins: nothing was recorded")
    return _decoded(_HEADERS, first, path), (_decoded(_INPUTS, body, path) for body in bodies)


def _decoded(decoder: Any, body: bytes, path: Path) -> Any:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TransportError(f"{path} was not made by this version of doyen: {error}") from None
