"""A program that joins with a will, and writes who leads in the lines of an agent.

`python -m doyen_lab.contest.will_member JOIN`: JOIN has the arguments of `doyen.join` as JSON.
It starts no process but the keeper of its will.
"""

import asyncio
import os
import sys
from typing import Any

import msgspec

from doyen.net.driver import boot_time_ns
from doyen.node.agent_line import AgentLine, encode_line
from doyen.node.join import join


async def main(arguments: dict[str, Any]) -> None:
    async with join(**arguments, will=True, control=False) as node:
        async for event in node.events():
            if event.kind in ("elected", "lost"):
                line = AgentLine(event.kind, node.name, 0.0, boot_time_ns(), leader=event.leader)
                os.write(sys.stdout.fileno(), encode_line(line))


asyncio.run(main(msgspec.json.decode(sys.argv[1])))
