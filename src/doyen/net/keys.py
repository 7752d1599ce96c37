"""The keys of one group: one seals, all open, and the file they are kept in may change at any time.

    file = one key per line, "primary KEY" or "also KEY", where KEY is 32 bytes in URL-safe base64, or the word
           "clear": no seal at all; # begins a comment

Every sealed thing names its key by an id, four bytes of the key's hash, so that who lacks the key can say which.
Rotation: add the new key everywhere, then make it primary everywhere, then remove the old one everywhere.
A group that runs without a key gets its first in the same way: "clear" is the old one.
"""

import os
import stat
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from doyen.core.hashes import blake2b
from doyen.errors import ConfigError, RemoteProtocolError
from doyen.net import aead
from doyen.net.aead import KEY_BYTES as KEY_BYTES
from doyen.net.aead import NONCE_BYTES as NONCE_BYTES
from doyen.net.aead import TAG_BYTES as TAG_BYTES

ID_BYTES: Final = 4
CLEAR: Final = b""  # In the place of a key: what is not sealed.
KEYS_MAX: Final = 16
_FILE_MAX: Final = 64 * 1024
_HEADER: Final = "# Keys of a doyen group: anybody who reads this can speak in it.  Change it with `doyen keys`.\n"


class Keyring:
    """A group's keys: the primary one seals, any of them opens.  PyNaCl is loaded here, and only here."""

    def __init__(self, keys: Iterable[bytes], *, path: Path | None = None) -> None:
        """Take these keys, of which the first is the primary one."""
        found = tuple(dict.fromkeys(keys))
        if not 0 < len(found) <= KEYS_MAX or any(len(key) != KEY_BYTES for key in found if key != CLEAR):
            raise ConfigError(f"a group has 1 to {KEYS_MAX} keys of {KEY_BYTES} bytes: make one with `doyen keys new`")
        self.path = path
        self.on_change: list[Callable[[], None]] = []  # What to do once other keys count.
        self._seal, self._open = aead.load()
        self._put(found)

    def _put(self, keys: tuple[bytes, ...]) -> None:
        self.keys = keys
        self.by_id = {key_id(key): key for key in keys if key != CLEAR}
        self.hears_clear, self.speaks_clear = CLEAR in keys, keys[0] == CLEAR
        self.primary = next(iter(self.by_id), CLEAR)  # Seals, where anything is sealed.

    def seal(self, plain: bytes, associated: bytes, nonce: bytes) -> bytes:
        """Seal a text under the primary key, or the first there is; a nonce must never come twice."""
        return self._seal(plain, associated, nonce, self.by_id[self.primary])

    def open(self, key: bytes, sealed: bytes, associated: bytes, nonce: bytes) -> bytes:
        """Open a sealed text with the key of that id.

        Raises `RemoteProtocolError` for a key that is not here, or for a text that it did not seal.
        """
        secret = self.by_id.get(key)
        if secret is None:
            raise UnknownKey(key)
        try:
            return self._open(sealed, associated, nonce, secret)
        except aead.Unsealable:
            raise RemoteProtocolError("seal", "is damaged, forged, or for another group") from None

    def replace(self, other: "Keyring") -> None:
        """Take the other ring's keys, for everybody who holds this one."""
        self._put(other.keys)
        for told in self.on_change:
            told()


class UnknownKey(RemoteProtocolError):
    def __init__(self, key: bytes, *, have_any: bool = True) -> None:
        super().__init__("key", f"key id {key.hex()}")
        self.key = key
        self.advice = f"are sealed with a key I do not have (key id {key.hex()}). Rotate: doyen keys list"
        if not have_any:
            self.advice = f"are sealed (key id {key.hex()}), and I have no key: give the group's key file, --key-file"


def new_key() -> bytes:
    return os.urandom(KEY_BYTES)


def id_text(key: bytes) -> str:
    """Return the id of a key as people write it."""
    return "clear" if key == CLEAR else key_id(key).hex()


def key_ids(ring: Keyring | None) -> tuple[str, ...]:
    """Return the ids of a node's keys, the primary one first; a node without any hears, and speaks, in the clear."""
    return ("clear",) if ring is None else tuple(map(id_text, ring.keys))


def key_id(key: bytes) -> bytes:
    return blake2b(key, digest_size=ID_BYTES, person=b"doyen key id").digest()


def key_text(key: bytes) -> str:
    return "clear" if key == CLEAR else urlsafe_b64encode(key).decode().rstrip("=")


def parse_key(text: str) -> bytes:
    try:
        key = urlsafe_b64decode(text.strip() + "=" * (-len(text.strip()) % 4))
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError("that is not a key: give 43 letters and digits as `doyen keys new` makes them")
    return key


# The file.


def read_keys(path: Path) -> tuple[bytes, ...]:
    """Return the keys of a file, the primary one first."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_FILE_MAX + 1)
    except FileNotFoundError as error:
        raise ConfigError(f"key file {path}: {error.strerror}: make one with `doyen keys new --file {path}`") from None
    except OSError as error:
        who = f"user {os.geteuid()} must be able to read it" if isinstance(error, PermissionError) else "give a file"
        raise ConfigError(f"key file {path}: {error.strerror}: {who}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"key file {path} is not text: make one with `doyen keys new --file {path}`") from None
    primary: list[bytes] = []
    also: list[bytes] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or words[0] not in ("primary", "also"):
            raise ConfigError(f'key file {path}, line {number}: give "primary KEY" or "also KEY"')
        try:
            key = CLEAR if words[1] == "clear" else parse_key(words[1])
            (primary if words[0] == "primary" else also).append(key)
        except ConfigError as error:
            raise ConfigError(f"key file {path}, line {number}: {error}") from None
    if len(primary) != 1 or len(text) > _FILE_MAX:
        raise ConfigError(f"key file {path} has {len(primary)} primary keys: exactly one seals (`doyen keys use`)")
    return (*primary, *also)


def write_keys(path: Path, keys: Iterable[bytes], note: str = "") -> None:
    """Write a whole key file, with a note as comment.

    A new file is its owner's alone; one that was there keeps its owner and its rights.
    """
    lines = [f"{'primary' if i == 0 else 'also   '} {key_text(key)}  # {id_text(key)}" for i, key in enumerate(keys)]
    whole = Path(os.path.realpath(path))  # Not the link to it.
    beside = whole.with_name(whole.name + ".new")
    try:
        beside.unlink(missing_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            _give_to_owner(descriptor, whole)
            file.write(_HEADER + note + "\n".join(lines) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, whole)
    except OSError as error:
        raise ConfigError(f"key file {path} cannot be written: {error.strerror}") from None


def _give_to_owner(descriptor: int, path: Path) -> None:
    """Give the new file to the owner of the old one: members often run as another user than who changes their keys."""
    with suppress(FileNotFoundError, PermissionError):
        found = os.stat(path)
        os.fchown(descriptor, found.st_uid, found.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(found.st_mode))


def exposure(path: Path) -> str:
    """Return what is wrong with the rights of a key file; an empty text if nothing is."""
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return ""
    can = "read" if mode & 0o004 else "write" if mode & 0o022 else ""
    return f"key file {path}: others than its owner can {can} it (mode {mode:o}): chmod 600 {path}" if can else ""


def load_keyring(path: Path) -> Keyring:
    return Keyring(read_keys(path), path=path)
