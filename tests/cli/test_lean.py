"""A node's process does without OpenSSL and, once its command line is read, without click."""

import subprocess
import sys

PROBE = """
import sys
from doyen.cli.lean import lean
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


STAYING = """
import gc, sys, types, weakref
sys.argv = ["doyen", "agent", "--group", "lean", "--election", "hybrid"]
from doyen.cli import main
from doyen.cli.lean import Resident
def stay(self):
    loaded = [name for name in sys.modules if name.split(".")[0] in ("click", "gettext", "tomllib")]
    gc.collect()
    alive = {type(found).__module__ for found in gc.get_objects()}
    print(self.module, self.arguments["config"].group, loaded, sorted(n for n in alive if n.startswith("click")))
    from doyen.cli import app
    return len(app.lines) > 10
Resident.stay = stay
main()
"""


def test_the_command_line_is_let_go_of_before_the_node_begins() -> None:
    done = subprocess.run([sys.executable, "-c", STAYING], capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr) == ("doyen.node.process lean [] []\n", "")
    assert done.returncode == 1  # What staying came to; and the commands can be had again.


def test_bad_input_to_what_stays_is_told_as_to_any_command() -> None:
    line = [sys.executable, "-m", "doyen", "agent", "--group", "lean"]
    for more, said in {
        ("--name", "a" * 300): "doyen: --name",
        ("--bind", "192.0.2.1:7600"): "doyen: cannot listen on 192.0.2.1:7600",
        ("--nonsense",): "doyen: No such option",
    }.items():
        done = subprocess.run([*line, *more], capture_output=True, text=True, timeout=30)
        assert done.stderr.startswith(said) and done.stderr.count("\n") == 1 and done.returncode in (1, 2), done
