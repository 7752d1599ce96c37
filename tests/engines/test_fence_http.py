"""The fence before a web application: what it lets in, and what it refuses, by any sort of connection."""

import asyncio
from typing import Any

import pytest

from doyen.fence import Http

REACHED = {"type": "reached"}


def asked(app: Http, kind: str, path: str, *terms: int, method: str = "POST") -> dict[str, Any]:
    """Return the first that the application, or the fence before it, says."""
    said: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        said.append(message)

    async def receive() -> Any:
        return {"type": f"{kind}.connect"}

    scope: dict[str, Any] = {"type": kind, "path": path, "headers": [(b"doyen-term", b"%d" % term) for term in terms]}
    asyncio.run(app(scope | ({"method": method} if kind == "http" else {}), receive, send))
    return said[0]


@pytest.fixture
def app() -> Http:
    async def reached(scope: Any, receive: Any, send: Any) -> None:
        await send(REACHED)

    return Http(reached, paths=["/fenced"])


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_smaller_term_and_none_are_refused_by_any_sort_of_connection(app: Http, kind: str) -> None:
    assert asked(app, kind, "/fenced", 7) == REACHED
    assert asked(app, kind, "/fenced/deep", 7) == REACHED
    for terms in ((), (6,), (7, 7)):
        refused = asked(app, kind, "/fenced/deep", *terms)
        assert refused["type"] == {"http": "http.response.start", "websocket": "websocket.close"}[kind]
    assert asked(app, kind, "/open") == REACHED


def test_reads_need_no_term(app: Http) -> None:
    assert asked(app, "http", "/fenced", method="GET") == REACHED
