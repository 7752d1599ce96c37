"""A node's process does without OpenSSL, and says so only by its size."""

import subprocess
import sys

PROBE = """
import sys
from doyen.cli.lean import lean
lean()
import asyncio, msgspec, doyen.agent.node, doyen.net.leaderlink, doyen.agent.http
loaded = [name for name in ("ssl", "_ssl", "_hashlib", "typing_extensions") if name in sys.modules]
print(loaded)
async def main():
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    await asyncio.open_connection(*server.sockets[0].getsockname())
    server.close()
asyncio.run(main())
import ssl
print(ssl.create_default_context().verify_mode.name)
"""


def test_what_a_node_never_uses_is_not_loaded_and_can_be_later() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], check=True, capture_output=True, text=True, timeout=30)
    assert done.stdout.splitlines() == ["[]", "CERT_REQUIRED"]
