"""A node's small HTTP side, for load balancers, dashboards and Prometheus, and for people: its page (`page`).

    GET /leader[?election=NAME]   200 on the leader, 503 elsewhere; says who leads
    GET /members                  who is here
    GET /health                   200 while the node takes part in its group
    GET /livez                    200 while the process answers and its node has not failed
    GET /readyz                   200 once the node has joined, leader or not
    GET /events                   server-sent events: elected, lost, member
    GET /metrics                  OpenMetrics for those that accept it, else Prometheus' text format
    GET /openapi.json             all of this, for programs
    GET /                         the page, for a browser; POST /resign and /drain are for it, with the token only

On loopback or a unix socket as it is; anywhere else only with a token (`Authorization: Bearer TOKEN`).  By choice
(`http_open`) the two probes are answered without it, and to any name: nothing in them is secret.  Everything is
bounded: connections, the size of a request, the time it may take, and what waits for a slow reader, who is cut off.
Where all connections are taken the oldest makes room: a client that holds them idly keeps nobody out.
"""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

import h11
import msgspec

from doyen.core.clock import Instant, to_seconds
from doyen.core.ids import Address, Term
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.view import Member, ViewChanged
from doyen.errors import TransportError
from doyen.net.driver import Driver
from doyen.net.own_address import is_loopback
from doyen.net.udp import advice_on
from doyen.node.answers import Done, Health, HttpMember, Index, Leader, Live, Members, Problem, Ready
from doyen.node.http_place import http_place as http_place
from doyen.node.http_place import is_address
from doyen.node.metrics import OPENMETRICS, Meter, accepted_type
from doyen.node.registration import answers
from doyen.node.shown import members
from doyen.node.stack import Stack

if TYPE_CHECKING:
    from doyen.node.page import Page

CONNECTIONS_MAX: Final = 64
WATCHERS_MAX: Final = 32  # Of them, those that watch events.
REQUEST_BYTES_MAX: Final = 8192
REQUEST_S: Final = 10.0  # For a request to be said, an answer to be taken, a connection to be idle.
WAITING_BYTES_MAX: Final = 64 * 1024  # What a watcher has not read yet.
PATHS: Final = ("/leader", "/members", "/health", "/livez", "/readyz", "/events", "/metrics", "/openapi.json")
ACTIONS: Final = ("/resign", "/drain")  # By POST.
PROBES: Final = ("/livez", "/readyz")  # The paths that `http_open` opens.
HEARTBEAT_S: Final = 15.0  # A comment to watchers, so that the dead are noticed.

_STREAM_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\nconnection: close\r\n\r\n"
)

Answer = tuple[int, str, bytes]  # (status, content type, body)
_EVENTS: Final[Answer] = (200, "text/event-stream", b"")  # The body is still to come.
_REASONS: Final = {
    200: "OK",
    202: "Accepted",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    501: "Not Implemented",
    503: "Service Unavailable",
}
# Scripts, styles and data of this node only; no frame around it, no form that leaves it.
_POLICY: Final = (
    ("content-security-policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
     "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
)  # fmt: skip
_NOT_HTTP: Final = "that is not HTTP"
_TOO_LONG: Final = {413: "a body is not for us: ask by GET", 431: f"a request has {REQUEST_BYTES_MAX} bytes at most"}


class Http:
    """The HTTP server of a node, from `Http.attach` until the driver closes."""

    def __init__(self, driver: Driver, stack: Stack, token: str, link: Any, *, open_probes: bool = False) -> None:
        self.driver, self.stack = driver, stack
        self._open_probes = open_probes
        self._only_probes = False
        self.meter = Meter(driver, stack, link)
        self.displaced_count = self.cut_off_count = 0
        self.url = ""
        self._token = token.encode()
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}  # The oldest first.
        self._watchers: set[asyncio.StreamWriter] = set()
        self._lane_watchers: set[asyncio.StreamWriter] = set()  # Those whose page is open.
        self.owner: Any = None  # The `Node` that this is attached to, whose page is shown.
        self._heartbeat: asyncio.TimerHandle | None = None
        self._path: Path | None = None

    @classmethod
    async def attach(
        cls,
        driver: Driver,
        stack: Stack,
        where: str,
        *,
        token: str = "",
        link: Any = None,
        open_probes: bool = False,
    ) -> "Http":
        """Serve at host:port or unix:PATH.  Raises `ConfigError` for a place that others reach without a token."""
        place = http_place(where, token, open_probes=open_probes)
        http = cls(driver, stack, token, link, open_probes=open_probes)
        http._only_probes = not token and isinstance(place, Address) and not is_loopback(place.host)
        try:
            if isinstance(place, Address):
                http._server = await asyncio.start_server(
                    http._accept,
                    place.host,
                    place.port,
                    limit=REQUEST_BYTES_MAX,
                    backlog=CONNECTIONS_MAX,
                    start_serving=False,
                )
                host, port, *_ = http._server.sockets[0].getsockname()
                http.url = f"http://{Address(host, port)}"
            else:
                http._path = place
                if place.is_socket():
                    if answers(place):
                        raise TransportError(f"cannot serve HTTP on {where}: another process does")
                    place.unlink()
                http._server = await asyncio.start_unix_server(
                    http._accept, place, limit=REQUEST_BYTES_MAX, backlog=CONNECTIONS_MAX, start_serving=False
                )
                os.chmod(place, 0o600)
                http.url = f"unix:{place}"
            driver.on_close(http.close)  # Before the pause below, in which a start may be cancelled.
            await http._server.start_serving()
        except OSError as error:
            raise TransportError(f"cannot serve HTTP on {where}: {advice_on(error)}") from None
        driver.watch(http._on_fact)
        http._beat()
        return http

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        for connection in self._connections:
            connection.cancel()
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink()

    # Connections.

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= CONNECTIONS_MAX:
            self._displace_oldest()
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections[task] = writer
        task.add_done_callback(lambda done: self._connections.pop(done, None))

    def _displace_oldest(self) -> None:
        """Drop the oldest connection that does not watch: a request takes a moment, so that one says nothing."""
        oldest = next(task for task, writer in self._connections.items() if writer not in self._watchers)
        self._connections.pop(oldest).transport.abort()
        oldest.cancel()
        self.displaced_count += 1

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=REQUEST_BYTES_MAX)
        try:
            while True:
                async with asyncio.timeout(REQUEST_S):
                    request = await _next_request(connection, reader)
                    if request is None:
                        break
                    watches = await self._respond(connection, writer, request)
                if watches:
                    await self._watch(reader, writer, lanes=b"lanes" in request.target.partition(b"?")[2])
                    break
                if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                    break
                connection.start_next_cycle()
        except h11.RemoteProtocolError as error:
            status = error.error_status_hint
            with suppress(h11.LocalProtocolError, OSError):
                writer.write(_encoded(connection, (status, *_problem(_TOO_LONG.get(status, _NOT_HTTP))), close=True))
        except (OSError, TimeoutError, h11.LocalProtocolError):
            pass
        finally:
            writer.close()
            if writer.transport.get_write_buffer_size():  # One who does not read it would hold the socket.
                asyncio.get_running_loop().call_later(REQUEST_S, writer.transport.abort)

    async def _respond(self, connection: h11.Connection, writer: asyncio.StreamWriter, request: h11.Request) -> bool:
        """Write the answer; return True if the connection goes on as a stream of events."""
        try:
            target = urlsplit(request.target.decode("ascii", "replace"))
        except ValueError:
            raise h11.RemoteProtocolError("the target is no path") from None
        path, headers = target.path.rstrip("/") or "/", dict(request.headers)
        accept = headers.get(b"accept", b"").decode("ascii", "replace")
        is_file = _is_file(path, accept)
        answer = self._refusal(request.method, path, headers, is_file=is_file)
        query = parse_qs(target.query)
        if answer is None and request.method == b"POST":
            confirmed = headers.get(b"doyen-confirm", b"").decode("utf-8", "replace")
            status, text = await self._page().act(path, query, confirmed)
            answer = _json(status, Done(done=text)) if status < 400 else (status, *_problem(text))
        elif answer is None:
            answer = self._file(path) if is_file else self._answer(path, query, accept)
        if answer is _EVENTS and request.method == b"GET":
            writer.write(_STREAM_HEAD)  # Without a length: it lasts as long as the connection.
            return True
        writer.write(_encoded(connection, answer, close=False, only_head=request.method == b"HEAD"))
        await writer.drain()
        return False

    def _refusal(self, method: bytes, path: str, headers: dict[bytes, bytes], *, is_file: bool) -> Answer | None:
        """Return why a request is refused; None if it is answered.  The page's files are no secret."""
        host = headers.get(b"host", b"").decode("ascii", "replace")
        acts = method == b"POST" and path in ACTIONS and self.owner is not None
        if method not in (b"GET", b"HEAD") and not acts:
            return 405, *_problem("only GET and HEAD are served here")
        if path in ACTIONS and not acts:
            return 405, *_problem(f"{path} takes POST")
        if self._open_probes and path in PROBES:
            return None
        if self._only_probes:
            return 403, *_problem(f"without an --http-token only {' and '.join(PROBES)} are answered here")
        if acts and not self._token:
            return 403, *_problem("actions need a token: start this node with an --http-token")
        if self._token and not is_file and not self._knows_token(headers.get(b"authorization", b"")):
            return 401, *_problem("give the token: Authorization: Bearer TOKEN")
        if not self._token and self._path is None and host and not is_address(host):
            return 403, *_problem(f"ask for an address or localhost, not for {host[:100]!r}; or set an --http-token")
        return None

    def _knows_token(self, said: bytes) -> bool:
        from hmac import compare_digest  # It brings OpenSSL along.

        scheme, _, token = said.partition(b" ")
        return scheme.lower() == b"bearer" and compare_digest(token.strip(), self._token)

    # Answers.

    def _answer(self, path: str, query: dict[str, list[str]], accept: str) -> Answer:
        match path:
            case "/leader":
                return self._leader(query.get("election", [""])[-1])
            case "/members":
                return _json(200, Members(group=self.driver.codec.group, members=self.members()))
            case "/health":
                failure = self.driver.failure
                healthy = self.driver.running
                return _json(
                    200 if healthy else 503,
                    Health(healthy=healthy, failure=None if failure is None else str(failure)),
                )
            case "/livez":
                live = self.driver.failure is None
                return _json(200 if live else 503, Live(live=live))
            case "/readyz":
                ready = self._has_joined()
                return _json(200 if ready else 503, Ready(ready=ready))
            case "/metrics":
                kind = accepted_type(accept)
                return 200, kind, self.meter.page(openmetrics=kind is OPENMETRICS).encode()
            case "/events":
                return _EVENTS if len(self._watchers) < WATCHERS_MAX else (503, *_problem("too many watch already"))
            case "/openapi.json":
                from doyen.node.openapi import document  # Few ask for it.

                return 200, "application/json", document() + b"\n"
            case "/":
                return _json(200, Index(see=PATHS))
            case _ if path.startswith("/page/") and self.owner is not None:
                told = self._page().answer(path, query, may_act=bool(self._token))
                return (404, *_problem("the page has no such part")) if told is None else _json(200, told)
            case _:
                return 404, *_problem(f"see {', '.join(PATHS)}")

    # The page.

    def _file(self, path: str) -> Answer:
        from doyen.node.page import file  # Few look at it.

        return file(path) or (404, *_problem("the page has no such file"))

    def _page(self) -> "Page":
        from doyen.node.page import page_of

        page = page_of(self.owner)
        if self._tell_lanes not in page.tells:
            page.tells.append(self._tell_lanes)
        return page

    def _tell_lanes(self, data: bytes) -> None:
        self._tell(data, self._lane_watchers)

    def _has_joined(self) -> bool:
        """Return whether this node takes part and has heard of its group, or leads it because nobody answers."""
        stack = self.stack
        named = not stack.reigns or any(r.leader is not None and not r.waits_for for r in stack.reigns.values())
        return self.driver.running and (named or self.driver.received_count > 0)

    def _leader(self, election: str) -> Answer:
        reign = self.stack.reigns.get(election)
        if reign is None:
            known = ", ".join(repr(name) for name in self.stack.reigns)
            return 404, *_problem(f"no election {election!r} here: {known or 'none at all'}")
        now = self.driver.clock()
        leads = self.driver.running and reign.is_leader(now)
        leader = self.stack.leader_info(reign)
        told = Leader(
            group=self.driver.codec.group,
            election=election,
            name=self.driver.host.node,
            is_leader=leads,
            leader=reign.leader,
            term=None if reign.term is None else reign.term.number,
            since_s=round(to_seconds(now - reign.since), 3) if reign.term is not None else None,
            address=None if leader is None else leader.address,
            meta={} if leader is None else leader.meta,
            since=None if leader is None else leader.since,
            acts=reign.acts(now) if self.driver.running else None,
            waits_for=reign.waits_for,
            heir=None if reign.machine is None else reign.machine.heir,
            baton_bytes=reign.baton_bytes,
        )
        return _json(200 if leads else 503, told)

    def members(self) -> list[HttpMember]:
        """Return all that `node.members()` has, with the names that this page had first; it leads in any election."""
        leaders = {reign.leader for reign in self.stack.reigns.values()}
        found = zip(self.stack.members(), members(self.stack, self.driver.clock()), strict=True)
        return [
            HttpMember(
                **msgspec.structs.asdict(info) | {"leads": member.node in leaders},
                status=info.state,
                suspicion_count=member.suspicion_count,
            )
            for member, info in found
        ]

    # Events.

    async def _watch(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, lanes: bool) -> None:
        self._watchers.add(writer)
        if lanes and self.owner is not None:
            self._page()
            self._lane_watchers.add(writer)
        try:
            for event, told in self._present():
                writer.write(_event(event, told))
            while await reader.read(1024):  # A watcher has nothing to say; its end is all we wait for.
                pass
        finally:
            self._watchers.discard(writer)
            self._lane_watchers.discard(writer)

    def _present(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the events that a new watcher gets; `present` says that everything sent before it is void."""
        here = ("present", {"group": self.driver.codec.group, "name": self.driver.host.node})
        elected = [("elected", _term(r.name, r.term)) for r in self.stack.reigns.values() if r.term is not None]
        return [here, *(("member", _member(member)) for member in self.stack.members()), *elected]

    def _on_fact(self, channel: str, fact: Any, now: Instant) -> None:
        if not self._watchers:
            return
        match fact:
            case LeaderElected(term):
                self._tell(_event("elected", _term(self._election(channel), term)))
            case LeaderLost(term, reason):
                self._tell(_event("lost", _term(self._election(channel), term) | {"reason": reason}))
            case ViewChanged(view, changed):
                for node in changed:
                    member = view.members.get(node)
                    self._tell(
                        _event("member", {"name": node, "status": "forgotten"} if member is None else _member(member))
                    )

    def _election(self, channel: str) -> str:
        return next((reign.name for reign in self.stack.reigns.values() if reign.channel == channel), channel)

    def _tell(self, data: bytes, watchers: set[asyncio.StreamWriter] | None = None) -> None:
        for writer in list(self._watchers if watchers is None else watchers):
            if writer.transport.get_write_buffer_size() > WAITING_BYTES_MAX:
                self.cut_off_count += 1
                self._watchers.discard(writer)
                self._lane_watchers.discard(writer)
                writer.transport.abort()
            else:
                writer.write(data)

    def _beat(self) -> None:
        self._tell(b": still here\n\n")
        self._heartbeat = asyncio.get_running_loop().call_later(HEARTBEAT_S, self._beat)


def _is_file(path: str, accept: str) -> bool:
    """Return whether a request is for a file of the page; its data is asked for by its script, with the token."""
    return (path == "/" and "text/html" in accept) or (path.startswith("/page/") and "." in path)


async def _next_request(connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
    """Return the next whole request, or None at the end; a short body is passed over."""
    request: h11.Request | None = None
    body_bytes = 0
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(REQUEST_BYTES_MAX))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body_bytes += len(event.data)
            if body_bytes > REQUEST_BYTES_MAX:
                raise h11.RemoteProtocolError("a long body", error_status_hint=413)
        elif isinstance(event, h11.EndOfMessage):
            return request
        else:
            return None


def _encoded(connection: h11.Connection, answer: Answer, *, close: bool, only_head: bool = False) -> bytes:
    status, kind, body = answer
    headers = [("content-type", kind), ("cache-control", "no-store"), ("content-length", str(len(body)))]
    if status == 401:
        headers.append(("www-authenticate", "Bearer"))
    if status == 405:
        headers.append(("allow", "GET, HEAD"))
    if kind.startswith(("text/html", "text/javascript", "text/css", "image/")):
        headers += _POLICY
    if close:
        headers.append(("connection", "close"))
    response = h11.Response(status_code=status, reason=_REASONS.get(status, ""), headers=headers)
    events = [response, h11.Data(data=body), h11.EndOfMessage()]
    if only_head:
        del events[1]
    return b"".join(connection.send(event) or b"" for event in events)


def _json(status: int, value: Any) -> Answer:
    return status, "application/json", msgspec.json.encode(value) + b"\n"


def _problem(text: str) -> tuple[str, bytes]:
    return "application/json", msgspec.json.encode(Problem(error=text)) + b"\n"


def _event(name: str, told: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(told) + b"\n\n"


def _term(election: str, term: Term) -> dict[str, Any]:
    return {"election": election, "leader": term.leader, "term": term.number}


def _member(member: Member) -> dict[str, Any]:
    return {
        "name": member.node,
        "status": member.status.value,
        "address": None if member.address is None else str(member.address),
        "incarnation": member.incarnation,
        "suspicion_count": member.suspicion_count,
    }
