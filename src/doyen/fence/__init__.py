"""Fences: the place where a leader's work arrives refuses a leader that has a successor.

    fence = Postgres(connection, "orders")
    with fence(term):                     # or `async with`
        connection.execute("UPDATE …")    # done in this term, or not at all

A fence keeps the greatest term that it has seen.  It refuses a smaller one with `TermRefused`, in the same atomic step
as the write.  A new leader calls `fence.check(term)` first: from then on nothing of its predecessor is accepted.
Terms must never go back: those of the elections quorum, directory and engine do not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from doyen.errors import TermRefused as TermRefused
    from doyen.fence.etcd import Etcd as Etcd
    from doyen.fence.files import Files as Files
    from doyen.fence.http import Http as Http
    from doyen.fence.memory import Memory as Memory
    from doyen.fence.postgres import AsyncPostgres as AsyncPostgres
    from doyen.fence.postgres import Postgres as Postgres
    from doyen.fence.redis import Redis as Redis
    from doyen.fence.zookeeper import ZooKeeper as ZooKeeper

_MODULE = {
    "AsyncPostgres": "doyen.fence.postgres",
    "Etcd": "doyen.fence.etcd",
    "Files": "doyen.fence.files",
    "Http": "doyen.fence.http",
    "Memory": "doyen.fence.memory",
    "Postgres": "doyen.fence.postgres",
    "Redis": "doyen.fence.redis",
    "TermRefused": "doyen.errors",
    "ZooKeeper": "doyen.fence.zookeeper",
}

__all__ = sorted(_MODULE)


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module 'doyen.fence' has no attribute {name!r}")
    return getattr(import_module(_MODULE[name]), name)
