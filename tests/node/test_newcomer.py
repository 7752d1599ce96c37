"""A voter without a record of its votes: what it says, so that a person knows what to do."""

import asyncio
import logging
from pathlib import Path

import pytest

from doyen.node.agent import Agent
from doyen.node.config import NodeConfig
from doyen.node.events import Event


@pytest.mark.parametrize("newcomer", [False, True])
def test_a_voters_first_start_asks_for_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture, newcomer: bool) -> None:
    told: list[Event] = []

    async def main() -> None:
        config = NodeConfig(
            group="g", name="ant", election="pole", voters=("ant",), state=str(tmp_path), newcomer=newcomer
        )
        agent = Agent(config, told.append)
        await agent.start()
        agent.driver.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    asked = ["newcomer" in event.reason for event in told if event.kind == "shortage"]
    assert asked == ([] if newcomer else [True])
    assert ("start it once with --newcomer" in caplog.text) is not newcomer
