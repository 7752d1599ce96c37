"""FastAPI under a real server: the leader works and answers, the others redirect to it."""

import json
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from copies import copies, free_ports, until

PROGRAM = """
import asyncio, os
import doyen
from fastapi import Depends, FastAPI
from doyen.contrib.starlette import LeaderOnly, Leadership

async def work(term: doyen.Term) -> None:
    while True:
        with open(os.environ["ACTS"], "a") as acts:
            acts.write(os.environ["NAME"] + "\\\\n")
        await asyncio.sleep(0.05)

leadership = Leadership(
    "web", work=work, url=os.environ["URL"] + "/", name=os.environ["NAME"], preset="local",
    bind=os.environ["BIND"], seeds=os.environ["SEEDS"].split(","),
)
app = FastAPI(lifespan=leadership.lifespan)
app.add_middleware(LeaderOnly, leadership=leadership, paths=["/admin"])

@app.get("/anybody")
async def anybody() -> dict[str, str]:
    return {"name": leadership.node.name}

@app.post("/orders/{number}", dependencies=[Depends(leadership.leader_only)])
async def order(number: int, size: int = 0) -> dict[str, object]:
    return {"name": leadership.node.name, "number": number, "size": size}

@app.get("/admin/users")
async def users() -> dict[str, str]:
    return {"name": leadership.node.name}
""".replace("\\\\n", "\\n")


def asked(url: str, method: str, path: str) -> tuple[int, str, Any]:
    """Return status, Location and body; nothing is followed."""
    connection = HTTPConnection(url.removeprefix("http://"), timeout=5)
    connection.request(method, path)
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    return reply.status, reply.headers.get("location", ""), json.loads(body or b"null")


@pytest.mark.live
def test_one_worker_works_and_the_others_redirect_to_it(tmp_path: Path) -> None:
    (tmp_path / "web.py").write_text(PROGRAM)
    with copies(tmp_path, "ant", "bee") as made:
        urls = dict(zip(made.addresses, [f"http://127.0.0.1:{port}" for port in free_ports(2)], strict=True))
        for name, url in urls.items():
            server = [sys.executable, "-m", "uvicorn", "web:app", "--port", url.rpartition(":")[2], "--no-access-log"]
            made.start(name, server, URL=url)
        leader = until(made.acted, "nobody acts")[0]
        (other,) = urls.keys() - {leader}
        expected = f"{urls[leader]}/orders/7?size=2"
        until(lambda: asked(urls[other], "POST", "/orders/7?size=2")[:2] == (307, expected), "it does not redirect")
        assert asked(urls[other], "GET", "/anybody") == (200, "", {"name": other})
        assert asked(urls[other], "GET", "/admin/users")[:2] == (307, f"{urls[leader]}/admin/users")
        assert asked(urls[leader], "POST", "/orders/7?size=2") == (200, "", {"name": leader, "number": 7, "size": 2})
        with urlopen(Request(f"{urls[other]}/admin/users"), timeout=5) as reply:  # A client that follows gets there.
            assert json.load(reply) == {"name": leader}
        assert made.one_acts_and_the_next_after_it() == (leader, other)
        assert asked(urls[other], "GET", "/admin/users") == (200, "", {"name": other})
        made.running[other].terminate()  # The server's own way with SIGTERM.
        assert made.running[other].wait(10) in (0, -15)


def test_work_that_fails_leaves_leadership_to_others_and_nobody_leads_is_said() -> None:
    import asyncio

    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import HTTPConnection as Asked

    from doyen.contrib.starlette import LeaderOnly, Leadership

    terms: list[int] = []

    async def work(term: Any) -> None:
        terms.append(term.number)
        raise RuntimeError("the disk is full")

    async def main() -> None:
        leadership = Leadership("web", work=work, preset="local", election="le-s", name="ant")
        scope = {"type": "http", "path": "/x", "query_string": b"", "headers": [], "server": ("ant", 80)}
        async with leadership.lifespan(Starlette()):
            async with asyncio.timeout(10):
                while not terms or leadership.node.is_leader:
                    await asyncio.sleep(0.01)
            with pytest.raises(HTTPException) as refused:
                await leadership.leader_only(Asked(scope))
            assert refused.value.status_code == 503 and leadership.url_of_leader(scope) is None
            sent: list[Any] = []

            async def send(message: Any) -> None:
                sent.append(message)

            async def never(*_: Any) -> None:
                raise AssertionError("it must not be answered here")

            await LeaderOnly(never, leadership)(scope, never, send)
            await LeaderOnly(never, leadership)({**scope, "type": "websocket"}, never, send)
            assert sent[0]["status"] == 503 and sent[-1] == {
                "type": "websocket.close",
                "code": 1013,
                "reason": "another process leads",
            }
        assert len(terms) == 1

    asyncio.run(main())
