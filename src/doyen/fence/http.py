"""A fence before a web application: requests carry their sender's term, and those of a smaller one are refused.

    app = Http(app, paths=["/orders"])           # Starlette, FastAPI: app.add_middleware(Http, paths=["/orders"])

    httpx.post(url, headers={"Doyen-Term": str(term.number)}, …)

A refused request is answered with 409, and one without a term with 428; a refused WebSocket is closed.
Without another fence the greatest term is in this process's memory: several workers, or a restart, need one that they
share (`fence=Files(…)`).
A request that was let in goes on although a greater term comes meanwhile: fence its writes, too, where that matters.
"""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final

from doyen.errors import DoyenError, LocalProtocolError, TermRefused
from doyen.fence.memory import Memory

HEADER: Final = b"doyen-term"
SAFE: Final = ("GET", "HEAD", "OPTIONS")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Http:
    """ASGI middleware: these paths, and those below them, need a term for every request that is no read."""

    def __init__(self, app: Any, *, paths: Sequence[str] = ("/",), fence: Any = None, reads: bool = False) -> None:
        self.app, self.reads = app, reads
        self.paths = tuple(path.rstrip("/") for path in paths)
        self.fence = Memory("http") if fence is None else fence

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or not self._covers(scope):
            await self.app(scope, receive, send)
            return
        given = [value for name, value in scope["headers"] if name.lower() == HEADER]
        if not given:
            await _answer(scope, send, 428, "give the term that you lead in, in the header Doyen-Term")
            return
        try:
            await self._check(_parsed(given))
        except TermRefused as refused:
            await _answer(scope, send, 409, str(refused), seen=refused.seen)
        except LocalProtocolError as wrong:
            await _answer(scope, send, 400, str(wrong))
        except (DoyenError, OSError) as failed:
            await _answer(scope, send, 503, f"the fence cannot be asked: {failed}")
        else:
            await self.app(scope, receive, send)

    async def _check(self, term: int) -> None:
        if isinstance(self.fence, Memory):
            self.fence.check(term)
        elif inspect.iscoroutinefunction(self.fence.check):
            await self.fence.check(term)
        else:
            said = await asyncio.to_thread(self.fence.check, term)
            if inspect.isawaitable(said):
                await said

    def _covers(self, scope: Scope) -> bool:
        path = scope["path"]
        covered = any(path == prefix or path.startswith(f"{prefix}/") for prefix in self.paths)
        return covered and (self.reads or scope.get("method") not in SAFE)


def _parsed(given: list[bytes]) -> int:
    text = given[0].decode("latin-1").strip()
    if len(given) > 1 or not text.isascii() or not text.isdigit() or len(text) > 20:
        raise LocalProtocolError(f"the header Doyen-Term has {text[:40]!r}: give one number from 1 to 2^53")
    return int(text)


async def _answer(scope: Scope, send: Send, status: int, detail: str, **more: Any) -> None:
    if scope["type"] == "websocket":  # Before it is accepted: its client gets 403.
        await send({"type": "websocket.close", "code": 1008, "reason": detail[:120]})
        return
    body = json.dumps({"detail": detail, **more}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
