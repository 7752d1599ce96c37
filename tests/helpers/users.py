"""Runs commands as other users, for tests that run as root."""

import sys
from pathlib import Path
from typing import Final

# An interpreter in a folder that only root may enter is put where it can be seen.
_REVEAL: Final = (
    'mount --bind "$1" /mnt; mount -t tmpfs -o mode=755 tmpfs "$0"; mkdir -p "$1"; mount --move /mnt "$1"; '
    'shift; exec "$@"'
)


def as_user(uid: int, *, groups: tuple[int, ...] = ()) -> list[str]:
    """Return what goes before a command that runs as that user, who needs no account."""
    further = ["--groups", ",".join(map(str, groups))] if groups else ["--clear-groups"]
    become = ["setpriv", "--reuid", str(uid), "--regid", str(uid), *further, "--"]
    base = Path(sys.base_prefix).resolve()
    hidden = next((folder for folder in reversed(base.parents) if not folder.stat().st_mode & 0o001), None)
    if hidden is None:
        return become
    own_mounts = ["unshare", "--mount", "--propagation", "private", "sh", "-ec"]
    return [*own_mounts, _REVEAL, str(hidden), str(base), *become]
