"""A node's process does without OpenSSL, and without the command line that it was."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from doyen.cli.resident import Resident, unpacked
from doyen.node.layers import by_path, configure

PROBE = """
import sys
from doyen.cli.resident import lean
lean()
import asyncio, msgspec, doyen.node.agent, doyen.net.leaderlink, doyen.node.http
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


def test_a_nodes_process_has_never_seen_the_command_line() -> None:
    line = [sys.executable, "-m", "doyen", "agent", "--group", "lean", "--name", "ant", "--election", "hybrid"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as agent:
        try:
            assert agent.stdout is not None
            started = json.loads(agent.stdout.readline())
            while started["event"] != "started":
                started = json.loads(agent.stdout.readline())
            assert started["pid"] == agent.pid  # The command became the node.
            mapped = Path(f"/proc/{agent.pid}/maps").read_text()
            words = Path(f"/proc/{agent.pid}/cmdline").read_text().split("\0")
        finally:
            agent.terminate()
    assert agent.wait() == 0
    assert "libssl" not in mapped and "_hashlib" not in mapped
    assert words[-7:-1] == line[4:10] and "agent" in words  # `ps` shows what was asked for.


def test_what_is_handed_on_is_what_was_configured() -> None:
    given: dict[str, Any] = {
        "group": "g",
        "name": "ant",
        "election": "pole",
        "voters": ("ant", "bee"),
        "volatile": True,
    }
    given |= {"volatile": True}
    given |= {"elections": ("mail=hybrid",), "standing": 2.5, "pole": {"retry_max": "61s"}, "swim": {"period": "3s"}}
    config = configure(by_path(given), environment={})
    found = unpacked(Resident("agent", config, status_every=0.5).packed())
    assert found.arguments == {"status_every": 0.5}
    assert {name: found.config.tables[name] for name in ("pole", "swim", "ctolerant")} == {
        name: config.tables[name] for name in ("pole", "swim", "ctolerant")
    }
    assert replace(found.config, tables={}) == replace(config, tables={})


def test_bad_input_to_what_stays_is_told_as_to_any_command() -> None:
    line = [sys.executable, "-m", "doyen", "agent", "--group", "lean"]
    for more, said in {
        ("--name", "a" * 300): "doyen: --name",
        ("--bind", "192.0.2.1:7600"): "doyen: cannot listen on 192.0.2.1:7600",
        ("--nonsense",): "doyen: there is no option --nonsense",
    }.items():
        done = subprocess.run([*line, *more], capture_output=True, text=True, timeout=30)
        assert done.stderr.startswith(said) and done.stderr.count("\n") == 1 and done.returncode in (1, 2), done
