"""`doyen bench`: measure doyen, and its peers where there are any."""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

from doyen.cli.lazy import LazyGroup

T = TypeVar("T")

command = LazyGroup(
    "bench",
    __name__,
    {
        "sim": "The simulator beside SimPy: ratios of CPU time.",
        "kill": "A real group on loopback: its leader is killed again and again; how long until the next?",
        "spanning": "Twelve processes on a mesh of namespaces: links and nodes fail and return.  Needs root.",
        "pole": "A real group that elects by score: kills, a witness of every act, the paper's round trips.  [POLE]",
        "partial": "Links cut one by one: who leads, beside real etcd and ZooKeeper servers.  Needs root.",
        "idle": "A real group in network namespaces: what it sends while nothing happens.  Needs root.",
        "mesh": "The four churn-tolerant elections as real processes on one lossy mesh.  Needs root.",
        "zookeeper": "Sixteen processes beside a real 16-server ZooKeeper ensemble, on one lossy mesh.  Needs root.",
        "serf": "Sixteen processes beside sixteen real serf agents: how soon a death is known.  Needs root.",
        "engines": "Elections that a store decides, beside the store's own recipe: takeovers and requests.",
        "steer": "A real etcd at Deployment 1's round trips, before and after `doyen steer etcd`.  Needs root.",
        "peers": "Leaders lost and replaced beside ZooKeeper, etcd, serf and swim-protocol, and the cost.  Needs root.",
    },
    help="Measure doyen on this machine.",
)


def run(measurement: Coroutine[Any, Any, T]) -> T:
    """Run the measurement; SIGTERM ends it in order, like Ctrl-C, so that no process and no namespace is left."""

    async def guarded() -> T:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await measurement

    try:
        return asyncio.run(guarded())
    except asyncio.CancelledError:
        sys.exit(128 + signal.SIGTERM)
