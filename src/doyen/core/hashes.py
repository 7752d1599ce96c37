"""Hashes without what else `hashlib` loads: OpenSSL, and five others.  A node is smaller by that."""

try:  # CPython's own; the same functions that `hashlib` gives.
    from _blake2 import blake2b as blake2b
    from _sha3 import sha3_256 as sha3_256  # type: ignore[import-not-found, unused-ignore]
except ImportError:  # Another Python.
    from hashlib import blake2b as blake2b
    from hashlib import sha3_256 as sha3_256
