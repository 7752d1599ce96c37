"""XChaCha20-Poly1305, as PyNaCl carries it.

`nacl.bindings` loads the bindings of everything else in libsodium along, 0.4 MB, and checks each argument in Python
again and again.  Here its library is called directly, for two functions, with arguments that `Keyring` has checked
once.  A PyNaCl that keeps its library elsewhere is used through `nacl.bindings`.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from doyen.errors import ConfigError

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 24
TAG_BYTES: Final = 16

Crypt: TypeAlias = Callable[[bytes, bytes, bytes, bytes], bytes]  # (text, associated, nonce, key)


class Unsealable(Exception):
    """A sealed text is damaged, forged, or sealed with another key."""


def load() -> tuple[Crypt, Crypt]:
    """Return a function that seals and one that opens; the latter raises `Unsealable`."""
    try:
        from nacl import _sodium  # type: ignore[attr-defined, unused-ignore]
    except ImportError:
        return _by_bindings()
    ffi, lib = _sodium.ffi, _sodium.lib
    if not hasattr(lib, "crypto_aead_xchacha20poly1305_ietf_encrypt") or lib.sodium_init() == -1:
        return _by_bindings()
    return _seal_by(ffi, lib), _open_by(ffi, lib)


def _seal_by(ffi: Any, lib: Any) -> Crypt:
    encrypt, text_of, new, null = lib.crypto_aead_xchacha20poly1305_ietf_encrypt, ffi.buffer, ffi.new, ffi.NULL
    kind = ffi.typeof("unsigned char[]")

    def seal(plain: bytes, associated: bytes, nonce: bytes, key: bytes) -> bytes:
        if len(nonce) != NONCE_BYTES or len(key) != KEY_BYTES:  # The library reads as many, whatever is there.
            raise ValueError("a nonce of 24 bytes and a key of 32")
        sealed = new(kind, len(plain) + TAG_BYTES)
        encrypt(sealed, null, plain, len(plain), associated, len(associated), null, nonce, key)
        return bytes(text_of(sealed))

    return seal


def _open_by(ffi: Any, lib: Any) -> Crypt:
    decrypt, text_of, new, null = lib.crypto_aead_xchacha20poly1305_ietf_decrypt, ffi.buffer, ffi.new, ffi.NULL
    kind = ffi.typeof("unsigned char[]")

    def open_(sealed: bytes, associated: bytes, nonce: bytes, key: bytes) -> bytes:
        if len(nonce) != NONCE_BYTES or len(key) != KEY_BYTES or len(sealed) < TAG_BYTES:
            raise Unsealable
        plain = new(kind, len(sealed) - TAG_BYTES)
        if decrypt(plain, null, null, sealed, len(sealed), associated, len(associated), nonce, key) != 0:
            raise Unsealable
        return bytes(text_of(plain))

    return open_


def _by_bindings() -> tuple[Crypt, Crypt]:
    try:
        from nacl import bindings
    except ImportError:
        raise ConfigError("keys need PyNaCl, which is not installed: pip install 'doyen[secure]'") from None
    decrypt = bindings.crypto_aead_xchacha20poly1305_ietf_decrypt

    def open_(sealed: bytes, associated: bytes, nonce: bytes, key: bytes) -> bytes:
        try:
            return decrypt(sealed, associated, nonce, key)
        except Exception:  # nacl.exceptions.CryptoError, and TypeError for what is too short.
            raise Unsealable from None

    return bindings.crypto_aead_xchacha20poly1305_ietf_encrypt, open_
