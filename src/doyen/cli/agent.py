"""`doyen agent`: one process of a group, telling what it sees as JSON lines."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import click

from doyen.agent.node import Agent, AgentConfig, Told, encode_told
from doyen.cli.options import chosen, flags, named_by_flag
from doyen.core.ids import node_id, parse_address
from doyen.election.announce import AnnounceConfig
from doyen.errors import ConfigError
from doyen.net.udp import UdpConfig


@click.command("agent", help="One process of a group: tells what it sees as JSON lines, until SIGTERM.")
@click.option("--group", required=True, help="The group's name; processes of other groups are not heard.")
@click.option("--name", required=True, help="This process's name in the group.")
@click.option("--bind", default="127.0.0.1:0", show_default=True, help="Where to listen, host:port.")
@click.option("--multicast", default=None, help="The group's multicast address, host:port.")
@click.option("--interface", default="", help="The interface for multicast; by default the one of --bind.")
@click.option("--seed", "seeds", multiple=True, help="Another member's host:port, where there is no multicast.")
@click.option("--standing", type=float, default=0, help="The greatest leads; ties by the greatest name.")
@click.option("--state", type=click.Path(file_okay=False, path_type=Path), help="A directory: terms survive restarts.")
@click.option("--status-every", type=float, default=1.0, show_default=True, help="Seconds between status lines.")
@flags(AnnounceConfig)
def command(
    group: str,
    name: str,
    bind: str,
    multicast: str | None,
    interface: str,
    seeds: tuple[str, ...],
    standing: float,
    state: Path | None,
    status_every: float,
    **given: object,
) -> None:
    if not 0.01 <= status_every < 1e9:
        raise ConfigError(f"--status-every {status_every} is out of range: give seconds from 0.01 on")
    udp = UdpConfig(
        bind=parse_address(bind), multicast=parse_address(multicast) if multicast else None, interface=interface
    )
    with named_by_flag(AnnounceConfig):
        config = AgentConfig(
            group=group,
            name=node_id(name),
            udp=udp,
            election=chosen(AnnounceConfig, given),
            seeds=tuple(parse_address(seed) for seed in seeds),
            standing=standing,
            state=state,
        )
    sys.exit(asyncio.run(_run(config, status_every)))


async def _run(config: AgentConfig, status_every: float) -> int:
    def tell(told: Told) -> None:
        try:
            os.write(sys.stdout.fileno(), encode_told(told))
        except OSError:
            ended.set()  # Whoever listened is gone.

    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    agent = Agent(config, tell)
    await agent.start()
    agent.told("started", pid=os.getpid(), address=str(agent.driver.transport.address))
    while not ended.is_set() and agent.driver.failure is None:
        agent.status()
        try:
            async with asyncio.timeout(status_every):
                await ended.wait()
        except TimeoutError:
            continue
    agent.leave()
    agent.told("stopped")
    return 0 if agent.driver.failure is None else 1
