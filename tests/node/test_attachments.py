"""In which order a node gets what it has besides its machines."""

import asyncio
from typing import Any

import pytest

from doyen.net.driver import Driver
from doyen.net.leaderlink import LeaderLink
from doyen.node.agent import Agent
from doyen.node.config import NodeConfig


def test_calls_of_others_are_heard_from_the_first_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members that started before call already: what came before somebody listened was dropped, with a warning."""
    listening = []

    async def attach(driver: Driver, **_: Any) -> None:
        listening.append("discovery" in driver.host.ports)

    monkeypatch.setattr(LeaderLink, "attach", attach)

    async def main() -> None:
        at = {"bind": "127.0.0.1:0", "multicast": "239.192.0.61:7661"}
        agent = Agent(NodeConfig(group="g", name="ant", election="hybrid", **at))
        await agent.start()
        agent.driver.close()

    asyncio.run(main())
    assert listening == [True]
