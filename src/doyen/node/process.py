"""The process of `doyen agent`: a node that reports what it sees as JSON lines until it is told to end."""

import asyncio
import os
import sys

from doyen.node.config import NodeConfig
from doyen.node.node import Node
from doyen.node.signals import on_ending_signal
from doyen.node.told import Told, encode_told


def stay(config: NodeConfig, status_every: float) -> int:
    return asyncio.run(_run(config, status_every))


async def _run(config: NodeConfig, status_every: float) -> int:
    def tell(told: Told) -> None:
        try:
            os.write(sys.stdout.fileno(), encode_told(told))
        except OSError:
            node.ended.set()  # Whoever listened is gone.

    node = Node(config, tell=tell, leave_on_sigterm=False)
    on_ending_signal(node.ended.set)
    async with node:
        agent = node.agent
        served = agent.attached.http
        agent.told(
            "started",
            pid=os.getpid(),
            address=str(agent.driver.transport.address),
            http=None if served is None else served.url,
        )
        while not node.ended.is_set():
            agent.status()
            try:
                async with asyncio.timeout(status_every):
                    await node.ended.wait()
            except TimeoutError:
                continue
    agent.told("stopped")
    return 0 if node.failure is None else 1
