"""A program that leads by the rule "the lowest member that is there" over swim-protocol, at its defaults.

swim_member.py HOST:PORT PEER … : names are addresses, the rest are members to begin with.  Run as a file, so that
nothing of doyen is loaded into it.  It says, a JSON line each, whom it names whenever that changes.
"""

import asyncio
import json
import sys
import time
from contextlib import AsyncExitStack

from swimprotocol.members import Member, Members
from swimprotocol.status import Status
from swimprotocol.udp import UdpTransport
from swimprotocol.udp.config import UdpConfig
from swimprotocol.worker import Worker


async def main() -> None:
    own, *peers = sys.argv[1:]
    config = UdpConfig(secret="contest", local_name=own, peers=peers)
    members = Members(config)
    worker = Worker(config, members)
    named = ""

    async def on_change(_: Member | None = None) -> None:
        nonlocal named
        there = [member.name for member in members.non_local if member.status & Status.AVAILABLE]
        lowest = min([own, *there])
        if lowest != named:
            named = lowest
            print(json.dumps({"leader": named, "clock": time.clock_gettime_ns(time.CLOCK_BOOTTIME)}), flush=True)

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(UdpTransport(config, worker))
        await stack.enter_async_context(worker)
        await stack.enter_async_context(members.listener.on_notify(on_change))
        await on_change()
        await asyncio.Event().wait()


asyncio.run(main())
