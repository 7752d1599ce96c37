"""The agent's HTTP: what load balancers, dashboards and Prometheus get, and what floods and slow readers do not."""

import asyncio
import json
import select
import socket
import tomllib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import h11
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from packaging.requirements import Requirement
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from doyen.core.clock import ms, seconds
from doyen.core.commands import LeaveGroup
from doyen.core.ids import NodeId, Term
from doyen.core.leadership import LeaderLost
from doyen.election.announce.config import AnnounceConfig
from doyen.errors import ConfigError, TransportError
from doyen.node import http as module
from doyen.node.agent import Agent
from doyen.node.config import NodeConfig
from doyen.node.http import CONNECTIONS_MAX, PATHS, WATCHERS_MAX, Http, http_place

QUICK = AnnounceConfig(announce_interval=ms(50), listen_timeout=seconds(5), suppress_interval=ms(20), group_size=2)
TOKEN = "0123456789abcdef-token"


class Reply:
    def __init__(self, raw: bytes) -> None:
        head, _, self.body = raw.partition(b"\r\n\r\n")
        first, *headers = head.decode().split("\r\n")
        self.status, self.reason = int(first.split()[1]), first.split(" ", 2)[2]
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in headers)}

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(
    http: Http,
    target: str,
    *,
    method: str = "GET",
    headers: str = "",
    http_version: str = "1.1",
    host: str = "localhost",
    body: str = "",
) -> Reply:
    reader, writer = await open_to(http)
    head = f"{method} {target} HTTP/{http_version}\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n"
    writer.write((head + body).encode())
    async with asyncio.timeout(5):
        raw = await reader.read()
    writer.close()
    return Reply(raw)


async def open_to(http: Http) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if http.url.startswith("unix:"):
        return await asyncio.open_unix_connection(http.url.removeprefix("unix:"))
    host, _, port = http.url.removeprefix("http://").rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.005)


async def answers(http: Http, path: str, status: int) -> bool:
    return (await ask(http, path)).status == status


async def watchers_have_room(http: Http) -> bool:
    return (await ask(http, "/events", method="HEAD")).status == 200


async def all_have_ended(http: Http) -> bool:
    """Whether no connection is left over: then as many as may be open at once displace none."""
    displaced_count = http.displaced_count
    opened = [await open_to(http) for _ in range(CONNECTIONS_MAX)]
    reader, writer = opened[-1]
    writer.write(b"GET /leader HTTP/1.1\r\nhost: localhost\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    for _, writer in opened:
        writer.close()
    return http.displaced_count == displaced_count


async def become(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(10):
        while not await holds():
            await asyncio.sleep(0.005)


def served(
    check: Callable[[Agent, Http], Awaitable[None]],
    where: str = "127.0.0.1:0",
    token: str = "",
    open_probes: bool = False,
    **config: Any,
) -> None:
    """Runs a check with an agent that leads a group of its own, and its HTTP."""

    async def main() -> None:
        agent = Agent(NodeConfig(group="web", name="ant", election="announce", tables={"announce": QUICK}, **config))
        await agent.start()
        try:
            http = await Http.attach(agent.driver, agent.stack, where, token=token, open_probes=open_probes)
            await until(lambda: agent.reign is None or agent.reign.is_leader(agent.driver.clock()))
            await check(agent, http)
        finally:
            agent.driver.close()
            await asyncio.sleep(0)

    asyncio.run(main())


def test_the_leader_answers_200_and_everybody_else_503() -> None:
    async def check(agent: Agent, http: Http) -> None:
        told = await ask(http, "/leader")
        assert (told.status, told.reason) == (200, "OK")
        assert told.json["leader"] == "ant" and told.json["is_leader"] and told.json["term"] >= 1
        assert told.json["acts"] is True and told.json["waits_for"] == ""
        better = Agent(
            NodeConfig(
                group="web",
                name="bee",
                standing=5,
                election="announce",
                tables={"announce": QUICK},
                seeds=(str(agent.driver.transport.address),),
            )
        )
        await better.start()
        await until(lambda: agent.reign is not None and agent.reign.leader == "bee")
        other = await Http.attach(better.driver, better.stack, "127.0.0.1:0")
        assert (await ask(http, "/leader")).status == 503
        assert (await ask(http, "/leader")).json["leader"] == "bee"
        assert (await ask(http, "/leader")).json["acts"] is None  # Only bee knows.
        await until(lambda: better.reign is not None and better.reign.is_leader(better.driver.clock()))
        assert (await ask(other, "/leader")).status == 200
        head = await ask(http, "/leader", method="HEAD")
        assert head.status == 503 and head.body == b"" and int(head.headers["content-length"]) > 10
        better.driver.close()

    served(check)


def test_members_health_and_what_is_not_there() -> None:
    async def check(agent: Agent, http: Http) -> None:
        members = (await ask(http, "/members")).json["members"]
        assert [(member["name"], member["status"]) for member in members] == [("ant", "alive")]
        health = await ask(http, "/health")
        assert health.status == 200 and health.json == {"healthy": True, "failure": None}
        assert (await ask(http, "/nothing")).status == 404
        assert (await ask(http, "/leader?election=mail")).status == 404
        refused = await ask(http, "/leader", method="POST")
        assert refused.status == 405 and refused.headers["allow"] == "GET, HEAD"
        posted = await ask(http, "/leader", method="POST", headers="content-length: 2\r\n", body="{}")
        assert posted.status == 405 and posted.json == {"error": "only GET and HEAD are served here"}
        head = await ask(http, "/events", method="HEAD")
        assert head.status == 200 and head.headers["content-type"] == "text/event-stream" and head.body == b""
        assert (await ask(http, "/leader", http_version="1.0")).status == 200

    served(check, membership="swim")


def test_several_elections_each_have_their_leader() -> None:
    async def check(agent: Agent, http: Http) -> None:
        reigns = agent.stack.reigns
        await until(
            lambda: len(reigns) == 2 and all(reign.is_leader(agent.driver.clock()) for reign in reigns.values())
        )
        for path, election in (("/leader", ""), ("/leader?election=mail", "mail")):
            told = await ask(http, path)
            assert told.status == 200
            assert (told.json["election"], told.json["leader"], told.json["is_leader"]) == (election, "ant", True)
        agent.driver.tell(LeaveGroup(), channel="election/mail")  # It stops leading one, and goes on leading the other.
        await become(lambda: answers(http, "/leader?election=mail", 503))
        assert (await ask(http, "/leader")).status == 200

    served(check, elections=("mail",))


@pytest.mark.parametrize(
    ("accept", "kind", "read"),
    [
        ("*/*", "text/plain; version=0.0.4", text_string_to_metric_families),
        ("application/openmetrics-text", "application/openmetrics-text; version=1.0.0", read_openmetrics),
    ],
)
def test_metrics_are_what_prometheus_reads(accept: str, kind: str, read: Callable[[str], Any]) -> None:
    async def check(agent: Agent, http: Http) -> None:
        page = await ask(http, "/metrics", headers=f"accept: {accept}\r\n")
        assert page.headers["content-type"].startswith(kind)
        families = {family.name: family for family in read(page.body.decode())}
        value = {
            (s.name, s.labels.get("election", s.labels.get("status", ""))): s.value
            for family in families.values()
            for s in family.samples
        }
        assert value["doyen_is_leader", ""] == 1 and value["doyen_members", "alive"] == 1
        assert value["doyen_datagrams_sent_total", ""] == agent.driver.transport.sent_count
        assert value["process_resident_memory_bytes", ""] > 1e6 and value["doyen_leader_changes_total", ""] == 1
        assert families["doyen_datagrams_sent"].type == "counter"
        assert all(s.labels["group"] == "web" for family in families.values() for s in family.samples)
        assert value["doyen_takeover_seconds_count", ""] == 0

    served(check, membership="swim")


def test_a_leader_named_before_anybody_served_metrics_is_counted() -> None:
    async def check(agent: Agent, http: Http) -> None:
        late = await Http.attach(agent.driver, agent.stack, "127.0.0.1:0")
        for page in (await ask(http, "/metrics"), await ask(late, "/metrics")):
            assert b'doyen_leader_changes_total{group="web",election=""} 1\n' in page.body

    served(check)


def test_events_come_as_they_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WATCHERS_MAX", 1)

    async def check(agent: Agent, http: Http) -> None:
        reader, writer = await open_to(http)
        writer.write(b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        async with asyncio.timeout(5):
            assert b"text/event-stream" in await reader.readuntil(b"\r\n\r\n")
            present = await reader.readuntil(b"\n\n")  # Whoever comes back forgets what it knew.
            assert present == b'event: present\ndata: {"group":"web","name":"ant"}\n\n'
            member = await reader.readuntil(b"\n\n")
            assert member.startswith(b"event: member\ndata: {")
            assert json.loads(member.split(b"data: ")[1]) == {
                "name": "ant",
                "status": "alive",
                "address": str(agent.driver.transport.address),
                "incarnation": agent.driver.incarnation,
                "suspicion_count": 0,
            }
            assert b'"leader":"ant"' in await reader.readuntil(b"\n\n")
            agent.driver.tell(LeaveGroup(), channel="election")
            lost = await reader.readuntil(b"\n\n")
        assert lost.startswith(b"event: lost\n") and json.loads(lost.split(b"data: ")[1])["reason"] == "left"
        assert not await watchers_have_room(http)
        writer.close()
        await become(lambda: watchers_have_room(http))

    served(check)


def test_one_connection_may_ask_again_and_again() -> None:
    async def check(agent: Agent, http: Http) -> None:
        reader, writer = await open_to(http)
        for _ in range(50):
            writer.write(b"GET /leader HTTP/1.1\r\nhost: localhost\r\n\r\n")
            async with asyncio.timeout(5):
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                told = json.loads(await reader.readexactly(length))
            assert head.startswith(b"HTTP/1.1 200 ") and told["leader"] == "ant"
        writer.close()

    served(check)


# ── Who may ask ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_token_is_wanted_where_one_is_set() -> None:
    async def check(agent: Agent, http: Http) -> None:
        assert (await ask(http, "/leader")).status == 401
        for wrong in (f"{TOKEN}x", TOKEN[:-1], TOKEN[:1], TOKEN[1:], ""):
            assert (await ask(http, "/leader", headers=f"authorization: Bearer {wrong}\r\n")).status == 401, wrong
        assert (await ask(http, "/events", headers="authorization: Basic abc\r\n")).status == 401
        assert (await ask(http, "/leader", headers=f"authorization: bearer {TOKEN}\r\n")).status == 200

    served(check, token=TOKEN)


def test_probes_are_open_by_choice() -> None:
    async def refuses(agent: Agent, http: Http) -> None:
        assert {(await ask(http, path)).status for path in ("/livez", "/readyz")} == {401}

    async def answers(agent: Agent, http: Http) -> None:
        for path, told in (("/livez", {"live": True}), ("/readyz", {"ready": True}), ("/readyz/", {"ready": True})):
            reply = await ask(http, path, host="probed.example")
            assert (reply.status, reply.json) == (200, told)
        assert (await ask(http, "/livez", method="POST")).status == 405
        assert {(await ask(http, path)).status for path in ("/leader", "/metrics", "/health", "/livezz")} == {401}

    async def answers_nothing_else(agent: Agent, http: Http) -> None:
        assert (await ask(http, "/livez")).status == 200
        refused = await ask(http, "/leader")
        assert refused.status == 403 and "only /livez and /readyz" in refused.json["error"]

    served(refuses, token=TOKEN)
    served(answers, token=TOKEN, open_probes=True)
    served(answers_nothing_else, where="0.0.0.0:0", open_probes=True)


def test_a_node_that_failed_is_neither_live_nor_ready() -> None:
    async def check(agent: Agent, http: Http) -> None:
        http.driver.failure = OSError("the disk is full")
        live = await ask(http, "/livez")
        assert live.status == 503 and live.json == {"live": False}
        http.driver.failure = None

    served(check)


def test_a_node_is_ready_once_it_names_a_leader_or_hears_somebody() -> None:
    async def check(agent: Agent, http: Http) -> None:
        assert (await ask(http, "/readyz")).json == {"ready": True}
        seeking = Agent(
            NodeConfig(
                group="far",
                name="bee",
                seeds=("127.0.0.1:9",),
                find_local=False,
                election="announce",
                tables={"announce": QUICK},
            )
        )
        await seeking.start()
        try:
            waits = await Http.attach(seeking.driver, seeking.stack, "127.0.0.1:0")
            await until(lambda: seeking.reign is not None and seeking.reign.mine is not None)
            assert (await ask(waits, "/readyz")).status == 503  # Its seed is silent, and it still waits.
        finally:
            seeking.driver.close()
        voter = Agent(
            NodeConfig(
                group="far", name="cat", find_local=False, election="pole", voters=("ant", "bee", "cat"), volatile=True
            )
        )
        await voter.start()
        try:
            alone = await Http.attach(voter.driver, voter.stack, "127.0.0.1:0")
            ready = await ask(alone, "/readyz")
            assert ready.status == 503 and ready.json == {"ready": False}
            voter.driver.received_count += 1  # As if somebody had answered: a voter without a majority has joined, too.
            assert (await ask(alone, "/readyz")).status == 200
        finally:
            voter.driver.close()

    served(check)


@pytest.mark.parametrize("host", ["127.0.0.1:7680", "127.0.0.1", "localhost:7680", "LOCALHOST", "[::1]:7680", "[::1]"])
def test_without_a_token_an_address_is_asked_for(host: str) -> None:
    async def check(agent: Agent, http: Http) -> None:
        assert (await ask(http, "/leader", host=host)).status == 200

    served(check)


def test_a_page_from_elsewhere_whose_name_points_here_is_told_nothing(tmp_path: Path) -> None:
    async def refuses(agent: Agent, http: Http) -> None:
        for host in ("rebound.example:7680", "rebound.example", "127.0.0.1.example", "localhost.example:80", "x:y:z"):
            told = await ask(http, "/members", host=host)
            assert told.status == 403 and b"ant" not in told.body and host in told.json["error"]

    async def answers(agent: Agent, http: Http) -> None:
        told = await ask(http, "/leader", host="doyen.example", headers=f"authorization: Bearer {TOKEN}\r\n")
        assert told.status == 200

    served(refuses)
    served(answers, token=TOKEN)
    served(answers, where=f"unix:{tmp_path / 'http.sock'}")  # No browser opens it.


def test_an_open_place_needs_a_token() -> None:
    for where in ("0.0.0.0:7680", "[::]:7680", "10.0.0.1:7680"):
        with pytest.raises(ConfigError, match="needs a token"):
            http_place(where, "")
        with pytest.raises(ConfigError, match="at least 16"):
            http_place(where, "short")
        with pytest.raises(ConfigError, match="at least 16"):
            http_place(where, "short", open_probes=True)
        http_place(where, "", open_probes=True)
        http_place(where, TOKEN)
    http_place("127.0.0.1:7680", "")
    with pytest.raises(ConfigError, match="numeric"):
        http_place("localhost:7680", TOKEN)
    with pytest.raises(ConfigError, match="unix:PATH"):
        http_place("unix:/no/such/folder/socket", "")


def test_a_unix_socket_is_its_owners_and_a_stale_one_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))

    async def check(agent: Agent, http: Http) -> None:
        assert path.stat().st_mode & 0o777 == 0o600
        assert (await ask(http, "/leader")).status == 200
        with pytest.raises(TransportError, match="another process does"):
            await Http.attach(agent.driver, agent.stack, f"unix:{path}")
        assert (await ask(http, "/leader")).status == 200

    served(check, where=f"unix:{path}")
    assert not path.exists()


def test_a_file_that_is_no_socket_is_never_removed(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("dear reader")

    async def check(agent: Agent, http: Http) -> None:
        with pytest.raises(TransportError, match="cannot serve HTTP"):
            await Http.attach(agent.driver, agent.stack, f"unix:{path}")

    served(check)
    assert path.read_text() == "dear reader"


def test_a_port_that_is_taken_is_called_so() -> None:
    async def check(agent: Agent, http: Http) -> None:
        with pytest.raises(TransportError, match="the port is taken: choose another"):
            await Http.attach(agent.driver, agent.stack, http.url.removeprefix("http://"))

    served(check)


# ── The OpenAPI document ────────────────────────────────────────────────────────────────────────────────────


def schema_of(document: dict[str, Any], path: str, reply: Reply) -> dict[str, Any]:
    """Return the schema of an answer; no field may be there that it does not name."""
    content = document["paths"][path]["get"]["responses"][str(reply.status)]["content"]
    (found,) = [kept for kind, kept in content.items() if kind == reply.headers["content-type"]]
    schemas = document["components"]["schemas"]
    strict = {name: schema | {"additionalProperties": False} for name, schema in schemas.items()}
    return found["schema"] | {"components": {"schemas": strict}}


def test_the_document_is_valid_and_every_answer_keeps_to_it() -> None:
    async def check(agent: Agent, http: Http) -> None:
        document = (await ask(http, "/openapi.json")).json
        validate(document)
        assert {*document["paths"]} == {*PATHS, "/"}
        for path in ("/", "/leader", "/members", "/health", "/livez", "/readyz"):
            reply = await ask(http, path)
            Draft202012Validator(schema_of(document, path, reply)).validate(reply.json)
        refused = await ask(http, "/leader?election=mail")
        Draft202012Validator(schema_of(document, "/leader", refused)).validate(refused.json)
        for accept in ("text/plain", "application/openmetrics-text"):
            schema_of(document, "/metrics", await ask(http, "/metrics", headers=f"accept: {accept}\r\n"))

    served(check, membership="swim")


def test_a_client_made_from_the_document_would_send_the_token() -> None:
    async def check(agent: Agent, http: Http) -> None:
        refused = await ask(http, "/openapi.json")
        assert refused.status == 401
        token = f"authorization: Bearer {TOKEN}\r\n"
        document = json.loads((await ask(http, "/openapi.json", headers=token)).body)
        assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
        operations = [path["get"] for path in document["paths"].values()]
        assert operations and all({"token": []} in operation["security"] for operation in operations)
        Draft202012Validator(schema_of(document, "/leader", refused)).validate(refused.json)

    served(check, token=TOKEN)


# ── Floods ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_connections_are_bounded_and_the_silent_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_S", 2.0)

    async def check(agent: Agent, http: Http) -> None:
        opened = [await open_to(http) for _ in range(CONNECTIONS_MAX + 10)]
        await until(lambda: http.displaced_count == 10)
        for _, writer in opened:  # Slow loris: none of them says a whole request.
            writer.write(b"GET /leader HT")
        assert (await ask(http, "/leader")).status == 200  # They keep nobody out.
        async with asyncio.timeout(5):
            for reader, writer in opened:
                with suppress(ConnectionError):
                    await reader.read()
                writer.close()
        await asyncio.sleep(0.1)  # Every end was seen from here; the other side needs a step more.
        assert await all_have_ended(http)
        assert (await ask(http, "/leader")).status == 200

    served(check)


def test_watchers_are_bounded_and_a_slow_one_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WATCHERS_MAX", 2)

    async def check(agent: Agent, http: Http) -> None:
        opened = []
        for _ in range(2):
            reader, writer = await open_to(http)
            writer.write(b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            opened.append((reader, writer))
        for reader, _ in opened:
            await reader.readuntil(b"event: present")
        assert (await ask(http, "/events")).status == 503
        port, now = agent.driver.host.ports["election"], agent.driver.clock()
        for _ in range(200):  # Nobody reads: what waits is bounded, and then they are gone.
            agent.driver.observe(port, LeaderLost(Term(1, NodeId("bee")), "x" * 65_536), now)
            await asyncio.sleep(0)
        assert http.cut_off_count == 2 and await watchers_have_room(http)
        for _, writer in opened:
            writer.transport.abort()
        assert (await ask(http, "/leader")).status == 200

    served(check)
    assert WATCHERS_MAX < CONNECTIONS_MAX


def test_whoever_does_not_read_its_answer_does_not_hold_the_socket(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "REQUEST_S", 0.1)
    path = tmp_path / "http.sock"

    async def check(agent: Agent, http: Http) -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            held = client.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)  # By the kernel; a little more waits with us.
            monkeypatch.setattr(http, "members", lambda: "x" * (held + 20_000))
            client.sendall(b"GET /members HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            ending = select.poll()
            ending.register(client, 0)  # Tells of its end, and of nothing else.
            await until(lambda: bool(ending.poll(0)))

    served(check, where=f"unix:{path}")


def test_what_is_too_long_is_called_so() -> None:
    async def check(agent: Agent, http: Http) -> None:
        long = await ask(http, "/leader", headers=f"x: {'y' * 20_000}\r\n")
        assert long.status == 431 and "8192 bytes" in long.json["error"]
        body = await ask(http, "/leader", method="POST", headers="content-length: 9000\r\n", body="z" * 9000)
        assert body.status == 413 and "ask by GET" in body.json["error"]

    served(check)


def test_any_bytes_get_an_answer_or_an_end() -> None:
    rng = Random(4)
    hostile = [
        b"GET / HTTP/1.1\r\n" + b"x: " + b"y" * 20_000 + b"\r\n\r\n",
        b"GET " + b"/" * 20_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n" + b"z" * 5000,
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nffffffff\r\n",
        b"GET /leader?election=%00%ff&election[]=x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        b"GET http://[bad/leader HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ]

    async def check(agent: Agent, http: Http) -> None:
        for data in [*hostile, *(rng.randbytes(rng.randrange(600)) for _ in range(200))]:
            reader, writer = await open_to(http)
            try:
                writer.write(data)
                writer.write_eof()
                async with asyncio.timeout(5):
                    said = await reader.read()
            except ConnectionError:
                said = b""
            finally:
                writer.close()
            assert said == b"" or said.startswith(b"HTTP/1.1 "), said[:80]
            if b"[bad" in data:
                assert said.startswith(b"HTTP/1.1 400 ")
        await asyncio.sleep(0.1)  # Every end was seen from here; the other side needs a step more.
        assert await all_have_ended(http)
        assert agent.driver.failure is None and (await ask(http, "/leader")).status == 200

    served(check)


def test_no_h11_is_admitted_that_reads_past_the_end_of_a_chunk() -> None:
    """Those before 0.16 take any two bytes for the end of a chunk (CVE-2025-43859)."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    wanted = next(made for made in map(Requirement, project["dependencies"]) if made.name == "h11")
    assert wanted.specifier.contains("0.16.0") and not wanted.specifier.contains("0.15.0")
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\naXX0\r\n\r\n")
    assert [type(parser.next_event()) for _ in range(2)] == [h11.Request, h11.Data]
    with pytest.raises(h11.RemoteProtocolError):
        parser.next_event()
