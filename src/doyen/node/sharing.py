"""Shares a node's control socket with a unix group, by the choice of its user (`control_group`).

Members of the unix group can do all that the node's user can do with `doyen`: ask it, make it resign, leave or join.
They find it by DOYEN_RUNTIME_DIR, for a directory that others have made is believed only where it is named.
"""

import grp
import os
from pathlib import Path

from doyen.errors import ConfigError
from doyen.node.registration import runtime_dir


def unix_group(name: str) -> int:
    """Return the number of a unix group that sockets can be shared with; refuse one that would not work."""
    try:
        number = int(name) if name.isdecimal() else grp.getgrnam(name).gr_gid
    except KeyError:
        raise ConfigError(
            f"{name!r} is no unix group of this machine: see getent group", field="control_group"
        ) from None
    if os.geteuid() != 0 and number not in (os.getegid(), *os.getgroups()):
        raise ConfigError(
            f"{name!r} is a unix group that this user is not in: one of {', '.join(_own_groups())}",
            field="control_group",
        )
    for folder in runtime_dir().absolute().parents:
        if not _may_enter(folder, number):
            raise ConfigError(
                f"{name!r} cannot be given the control socket: its members may not enter {folder}; "
                "set DOYEN_RUNTIME_DIR to a directory that they can reach, such as /run/doyen",
                field="control_group",
            )
    return number


def share(path: Path, number: int) -> None:
    """Let a unix group use that socket, and enter the two folders above it."""
    for folder in (path.parent.parent, path.parent):
        found = folder.stat()
        if found.st_mode & 0o005 == 0o005:
            continue  # Everybody may enter.
        if found.st_mode & 0o050 and found.st_gid != number:
            raise OSError(0, f"{folder} is shared with another unix group already: set DOYEN_RUNTIME_DIR to a new one")
        os.chown(folder, -1, number)
        os.chmod(folder, 0o750)
    os.chown(path, -1, number)
    os.chmod(path, 0o660)


def _may_enter(folder: Path, number: int) -> bool:
    try:
        found = folder.stat()
    except OSError:
        return True  # It is not there yet, or a folder above it is closed to this user, too.
    return bool(found.st_mode & (0o010 if found.st_gid == number else 0o001))


def _own_groups() -> list[str]:
    names = []
    for number in sorted({os.getegid(), *os.getgroups()}):
        try:
            names.append(grp.getgrgid(number).gr_name)
        except KeyError:
            names.append(str(number))
    return names
