"""A leader in a process of its own, to be killed: `python leader_process.py SEED_HOST SEED_PORT [KEY]`."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from net_nodes import Node

from doyen.core.ids import Address
from doyen.net.keys import Keyring, parse_key
from doyen.net.leaderlink import LeaderLink


async def main(host: str, port: str, *key: str) -> None:
    node = Node("leader", standing=9, seeds=(Address(host, int(port)),))
    await node.driver.start()
    await LeaderLink.attach(node.driver, keyring=Keyring([parse_key(key[0])]) if key else None)
    print("started", flush=True)
    await asyncio.sleep(60)


asyncio.run(main(*sys.argv[1:]))
