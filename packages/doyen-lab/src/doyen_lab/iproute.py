"""The command `ip`, and the little that every network made here shares: rights, names, leftovers, the ARP table."""

import ctypes
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TypeVar

from doyen.errors import TransportError

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000
_NAME = re.compile(r"doyen(\d+)-\d+-\w+")
_LAB_NO = count()
_NETNS = Path("/run/netns")
_NEIGHBOURS = {version: Path(f"/proc/sys/net/{version}/neigh/default") for version in ("ipv4", "ipv6")}
QUIET = {  # What Linux would say by itself on a new interface: off, before it comes up.
    "ipv6/conf/all/router_solicitations": 0,
    "ipv6/conf/default/router_solicitations": 0,
    "ipv6/conf/all/accept_ra": 0,
    "ipv6/conf/default/accept_ra": 0,
    "ipv6/conf/all/accept_dad": 0,
    "ipv6/conf/default/accept_dad": 0,
    "ipv6/conf/default/dad_transmits": 0,
    "ipv6/conf/default/addr_gen_mode": 1,  # No address but those given.
}
NO_IPV6 = {"ipv6/conf/all/disable_ipv6": 1, "ipv6/conf/default/disable_ipv6": 1}


def new_prefix() -> str:
    """Return a prefix for names that holds this process's id, so that what a killed one left is known by it."""
    return f"doyen{os.getpid()}-{next(_LAB_NO)}"


def check_rights() -> None:
    if os.geteuid() != 0:
        raise TransportError("network namespaces need root: run this as root, or with sudo")
    try:
        ip("-V")
    except FileNotFoundError:
        raise TransportError("network namespaces need the command `ip`: install iproute2") from None


def ip(*arguments: str, lines: Sequence[str] = ()) -> str:
    done = subprocess.run(
        ["ip", *arguments],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,  # Ctrl-C is for us: half a command would leave half a network.
    )
    if done.returncode:
        raise TransportError(f"ip {' '.join(arguments)}: {' '.join(done.stderr.split()) or done.returncode}")
    return done.stdout


def batch(lines: Sequence[str], *, namespace: str | None = None) -> None:
    """Run many commands in one process of `ip`: its start costs more than the work."""
    ip(*(("-n", namespace) if namespace else ()), "-batch", "-", lines=lines)


def sysctl(namespace: str, values: dict[str, int]) -> None:
    script = "; ".join(f"echo {value} > /proc/sys/net/{key}" for key, value in values.items())
    ip("netns", "exec", namespace, "sh", "-ec", script)


def existing_namespaces() -> list[str]:
    try:
        return os.listdir(_NETNS)
    except FileNotFoundError:
        return []


def delete_namespaces(names: Sequence[str]) -> None:
    """Delete namespaces one by one: one that somebody else removed meanwhile must not keep the others."""
    there = set(existing_namespaces())
    for name in names:
        if name in there:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False, start_new_session=True)


def remove_leftovers() -> list[str]:
    """Remove the namespaces of processes that have ended; return their names."""
    left = [name for name in existing_namespaces() if (made := _NAME.fullmatch(name)) and not _lives(int(made[1]))]
    delete_namespaces(left)
    return left


def enter(namespace: str) -> None:
    """Move the calling thread, and nothing else, into that namespace."""
    with open(_NETNS / namespace, "rb") as inside:
        if ctypes.CDLL(None, use_errno=True).setns(inside.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")


def within(namespace: str, make: Callable[[], T]) -> T:
    """Return what `make` makes inside: a socket stays in the namespace where it was made."""

    def made() -> T:
        enter(namespace)
        return make()

    with ThreadPoolExecutor(1) as thread:  # Of its own: the caller's must not move.
        return thread.submit(made).result()


@contextmanager
def room_for_neighbours(entries: int) -> Iterator[None]:
    """Make room in the kernel's table of neighbours, which all namespaces share: where it overflows, hosts look dead.

    The table shrinks again in the end, unless somebody else has raised it further meanwhile.
    """
    changed: list[tuple[Path, str, str]] = []
    for folder in _NEIGHBOURS.values():
        for name, wanted in (("gc_thresh3", 2 * entries), ("gc_thresh2", 3 * entries // 2), ("gc_thresh1", entries)):
            path = folder / name
            if path.exists() and int(before := path.read_text()) < wanted:
                path.write_text(str(wanted))
                changed.append((path, before, str(wanted)))
    try:
        yield
    finally:
        for path, before, ours in reversed(changed):
            if path.read_text().strip() == ours:
                path.write_text(before)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
