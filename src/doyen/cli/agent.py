"""`doyen agent`: one process of a group, telling what it sees as JSON lines."""

import asyncio
import os
import sys
from pathlib import Path

import click

from doyen.agent.config import NodeConfig
from doyen.agent.told import Told, encode_told
from doyen.api.node import Node
from doyen.cli.nodeflags import chosen_node, node_flags
from doyen.cli.options import named_by_flag
from doyen.cli.signals import on_ending_signal
from doyen.errors import ConfigError


@click.command("agent", help="One process of a group: tells what it sees as JSON lines, until SIGTERM.")
@click.option("--status-every", type=float, default=1.0, show_default=True, help="Seconds between status lines.")
@node_flags
def command(status_every: float, config_file: Path | None, **given: object) -> None:
    if not 0.01 <= status_every < 1e9:
        raise ConfigError(f"--status-every {status_every} is out of range: give seconds from 0.01 on")
    config = chosen_node(config_file, given)
    sys.exit(asyncio.run(_run(config, status_every)))


async def _run(config: NodeConfig, status_every: float) -> int:
    def tell(told: Told) -> None:
        try:
            os.write(sys.stdout.fileno(), encode_told(told))
        except OSError:
            node.ended.set()  # Whoever listened is gone.

    with named_by_flag():
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
