"""A leader that was stopped for longer than its lease writes when it is continued: a fence refuses it every time."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from writers import KINDS, opened, writer

from doyen_lab.servers import Server, free_port

pytestmark = pytest.mark.live
ZOMBIE = Path(__file__).parents[1] / "helpers" / "zombie.py"
STORES = (*KINDS, "files", "http")
LEASE_S = 0.02
APP = """
import asyncio, sys, uvicorn
from doyen.fence import Http
texts = {}
async def plain(scope, receive, send):
    assert scope["type"] == "http"
    if scope["method"] == "POST":
        texts[scope["path"]] = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": texts.get(scope["path"], b"")})
uvicorn.run(Http(plain, paths=["/fenced"]), port=int(sys.argv[1]), log_level="critical", lifespan="off")
"""


@pytest.fixture
def where(request: pytest.FixtureRequest, server_of: Callable[[str], Server], tmp_path: Path) -> Iterator[str]:
    kind = request.node.callspec.params["kind"]
    if kind == "files":
        yield str(tmp_path)
    elif kind == "http":
        port = free_port()
        app = subprocess.Popen([sys.executable, "-c", APP, str(port)])
        try:
            _wait_for(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            app.kill()
            app.wait()
    else:
        yield server_of(kind).url


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "the application did not start"
            time.sleep(0.02)


def haunt(kind: str, where: str, tries: int, *, fenced: bool) -> dict[str, int]:
    """Stop a leader after it saw that it leads, let a successor write, and continue it; return how its writes went."""
    store = opened(kind, where)
    succeed, read = writer(store, fenced=fenced), store.read if fenced else store.read_bare
    command = [sys.executable, str(ZOMBIE), kind, where, str(tries), str(LEASE_S), str(int(fenced))]
    zombie = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    assert zombie.stdin and zombie.stdout
    counts = {"accepted": 0, "refused": 0, "survived": 0}
    try:
        for i in range(tries):
            zombie.stdin.write("go on\n")
            _, status = os.waitpid(zombie.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status), "the zombie ended"
            time.sleep(LEASE_S)  # Its lease is over.
            assert succeed(2 * i + 2, f"successor {i}"), "the successor is never refused"
            os.kill(zombie.pid, signal.SIGCONT)
            counts[zombie.stdout.readline().strip()] += 1
            counts["survived"] += read() == f"successor {i}"
    finally:
        zombie.kill()
        zombie.communicate()
        store.close()
    return counts


def check(kind: str, where: str, tries: int, tell: Callable[[str], None]) -> None:
    fenced = haunt(kind, where, tries, fenced=True)
    few = tries // 4
    bare = haunt(kind, where, few, fenced=False)
    late = f"{fenced['accepted']} of {tries} late writes accepted"
    tell(f"zombie on {kind}: {late}; without the fence {bare['accepted']} of {few}")
    assert fenced == {"accepted": 0, "refused": tries, "survived": tries}
    assert bare == {"accepted": few, "refused": 0, "survived": 0}, "without the fence the same test fails"


@pytest.mark.parametrize("kind", STORES)
def test_a_zombies_write_is_refused(kind: str, where: str, tell: Callable[[str], None]) -> None:
    check(kind, where, 12, tell)


@pytest.mark.soak
@pytest.mark.parametrize("kind", STORES)
def test_a_zombies_write_is_refused_a_thousand_times(kind: str, where: str, tell: Callable[[str], None]) -> None:
    check(kind, where, 1000, tell)
