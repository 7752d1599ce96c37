"""One worker of many leads, in Starlette and FastAPI.

    leadership = Leadership("web", work=refresh_caches, url="http://10.0.0.1:8000")
    app = FastAPI(lifespan=leadership.lifespan)

    @app.post("/orders", dependencies=[Depends(leadership.leader_only)])     # FastAPI: one route
    app.add_middleware(LeaderOnly, leadership=leadership, paths=["/admin"])  # Starlette and FastAPI: paths

`work` runs on the leader, and is cancelled when leadership is lost.  A process that does not lead redirects to the one
that does (307), by the URL that each gives the others; while nobody leads it answers 503.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

import doyen
from doyen.errors import LocalProtocolError

log = logging.getLogger("doyen")

URL: Final = "url"  #: The word of `meta` that has a process's URL.
TRY_AGAIN: Final = 1013  #: WebSocket: try again later, for it cannot be redirected.

Work = Callable[[doyen.Term], Awaitable[object]]


class Leadership:
    """This process in a group while its application runs.  All arguments but these three are those of `doyen.join`."""

    def __init__(self, group: str, *, work: Work | None = None, url: str | None = None, **joined: Any) -> None:
        self._group, self._work, self._joined = group, work, {"leave_on_sigterm": False, **joined}
        if url is not None:
            given: Mapping[str, str] = joined.get("meta") or {}
            self._joined["meta"] = {**given, URL: url.rstrip("/")}
        self._node: doyen.Node | None = None

    @property
    def node(self) -> doyen.Node:
        if self._node is None:
            raise LocalProtocolError("the application has not started: give it lifespan=leadership.lifespan")
        return self._node

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncGenerator[None, None]:
        """Join while the application runs; for a lifespan of your own: `async with leadership.lifespan(app): yield`."""
        async with doyen.join(self._group, **self._joined) as node:
            self._node = node
            if self._work is not None:
                node.spawn(self._lead(node, self._work))
            yield

    async def _lead(self, node: doyen.Node, work: Work) -> None:
        async for term in node.terms():
            failed = False
            async with term:
                try:
                    await work(term)
                except Exception:
                    log.exception("%s: the work failed in term %d; another may try", node.name, term.number)
                    failed = True
            if failed and node.is_leader:
                try:
                    await node.resign()
                except LocalProtocolError as error:  # This kind of election has no resignation.
                    log.warning("%s: %s", node.name, error)

    async def leader_only(self, connection: HTTPConnection) -> None:
        """Let a request pass on the leader; as a dependency of FastAPI it redirects all others, or answers 503."""
        if not self.node.is_leader:
            url = self.url_of_leader(connection.scope)
            if url is None:
                raise HTTPException(503, "nobody leads at the moment", headers={"Retry-After": "1"})
            raise HTTPException(307, headers={"Location": url})

    def url_of_leader(self, scope: Scope) -> str | None:
        """Return where the leader answers this request; None if nobody leads, or its URL is not known here."""
        leader = self.node.leader
        if leader is None or leader.name == self.node.name or URL not in leader.meta:
            return None
        asked = HTTPConnection(scope).url
        return leader.meta[URL] + asked.path + (f"?{asked.query}" if asked.query else "")


class LeaderOnly:
    """Middleware: these paths, and those below them, are answered by the leader only."""

    def __init__(self, app: ASGIApp, leadership: Leadership, paths: Sequence[str] = ("/",)) -> None:
        self.app, self.leadership = app, leadership
        self.paths = tuple(path.rstrip("/") for path in paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] not in ("http", "websocket")
            or not self._covers(scope["path"])
            or self.leadership.node.is_leader
        ):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": TRY_AGAIN, "reason": "another process leads"})
        else:
            url = self.leadership.url_of_leader(scope)
            nobody = JSONResponse({"detail": "nobody leads at the moment"}, 503, headers={"Retry-After": "1"})
            response: Response = nobody if url is None else RedirectResponse(url, 307)
            await response(scope, receive, send)

    def _covers(self, path: str) -> bool:
        return any(path == covered or path.startswith(f"{covered}/") for covered in self.paths)
