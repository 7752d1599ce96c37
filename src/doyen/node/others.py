"""Finds the nodes that other users run on this machine, as far as the kernel tells everybody.

A control socket is its user's alone, and so is the folder that it is in.  But the kernel lists the paths of all
sockets, so a user who asks for a node can be told that it is there, whose it is, and how to reach it.
"""

import os
import pwd
import re
from pathlib import Path
from typing import Final

_SOCKETS: Final = "/proc/net/unix"
_LISTENS: Final = 0x10000  # The flag of a socket that takes connections.
_USUAL: Final = re.compile(r"(/.*/doyen|/tmp/doyen-\d+)/([^/]+)/([^/]+)\.sock")


def advice_about_others(group: str | None, name: str | None) -> str | None:
    """Return whose node runs here and how to reach it; None if no other user's node fits.  Names are file names."""
    for place, its_group, its_name in _listening():
        user = _owner(place) if group in (None, its_group) and name in (None, its_name) else None
        if user is not None:
            command = f"doyen members --group {its_group}"
            if os.access(place / its_group / f"{its_name}.sock", os.W_OK):
                how = f"DOYEN_RUNTIME_DIR={place} {command}"
            else:
                how = f"sudo -u {user} {command}, or {user} shares it with a unix group (--control-group)"
            return f"user {user} runs {its_name} of group {its_group} on this machine: {how}"
    return None


def _listening() -> list[tuple[Path, str, str]]:
    """Return the runtime directory, the group and the name of every node whose socket the kernel lists."""
    try:
        lines = Path(_SOCKETS).read_text(encoding="utf-8", errors="replace").splitlines()[1:]
    except OSError:
        return []  # Another system than Linux.
    found = []
    for line in lines:
        columns = line.split(maxsplit=7)
        usual = _USUAL.fullmatch(columns[7]) if len(columns) == 8 and int(columns[3], 16) & _LISTENS else None
        if usual is not None:
            found.append((Path(usual[1]), usual[2], usual[3]))
    return found


def _owner(place: Path) -> str | None:
    """Return whose directory it is, by the nearest folder that may be looked at; None if it is not there."""
    for folder in (place, *place.parents):
        try:
            user = folder.stat().st_uid
        except PermissionError:
            continue
        except OSError:
            return None  # A container's, perhaps: it shares the network, and has its own files.
        try:
            return pwd.getpwuid(user).pw_name
        except KeyError:
            return f"#{user}"  # As sudo -u takes it.
    return None
