"""Stores that deny access, or are too old: each is told in one line, nobody leads, and nothing is written."""

import asyncio
import logging
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count

import pytest
from writers import KINDS

import doyen
from doyen.engines.etcd import Gateway
from doyen.engines.half import opened
from doyen.engines.url import parse
from doyen.errors import TransportError
from doyen_lab.servers import Server, running

pytestmark = pytest.mark.live
KEY = "doyen/engine/denied/-"
_names = count()


@contextmanager
def postgresql(server: Server) -> Iterator[tuple[str, str]]:
    """Yield the address of a user who may not make a table in this database."""
    import psycopg

    user = f"guest{next(_names)}"
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("DROP TABLE IF EXISTS doyen_engine")
        admin.execute(f"CREATE ROLE {user} LOGIN")
        admin.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    yield server.url.replace("doyen@", f"{user}@"), "permission denied for schema public"


@contextmanager
def redis(server: Server) -> Iterator[tuple[str, str]]:
    """Yield the address of a user who may not use this key."""
    import redis

    user = f"guest{next(_names)}"
    with redis.Redis.from_url(server.url) as admin:
        admin.execute_command("ACL", "SETUSER", user, "on", ">secret", "~other:*", "+@all")
    yield server.url.replace("://", f"://{user}:secret@"), "[Nn]o permissions"


@contextmanager
def etcd(server: Server) -> Iterator[tuple[str, str]]:
    """Yield the address of a server that asks for a user."""
    with running("etcd") as own:
        admin = Gateway(parse(own.url), 5)
        admin.ask("/v3/auth/user/add", {"name": "root", "password": "secret"})
        admin.ask("/v3/auth/role/add", {"name": "root"})
        admin.ask("/v3/auth/user/grant", {"user": "root", "role": "root"})
        admin.ask("/v3/auth/user/add", {"name": "guest", "password": "secret"})
        admin.ask("/v3/auth/enable", {})
        admin.close()
        yield own.url.replace("://", "://guest:secret@"), "etcdserver: permission denied"


@contextmanager
def zookeeper(server: Server) -> Iterator[tuple[str, str]]:
    """Yield an address below which nobody but one user may make nodes."""
    from kazoo.client import KazooClient
    from kazoo.security import make_digest_acl

    path = f"/closed{next(_names)}"
    admin = KazooClient(f"127.0.0.1:{server.port}")
    admin.start()
    admin.create(path, acl=[make_digest_acl("owner", "secret", all=True)])
    admin.stop()
    admin.close()
    yield f"{server.url}{path}", "denies access to /closed"


DENYING = {"postgresql": postgresql, "redis": redis, "etcd": etcd, "zookeeper": zookeeper}


@pytest.mark.parametrize("kind", KINDS)
def test_denied_access_is_told_and_nobody_leads(
    kind: str, server_of: Callable[[str], Server], caplog: pytest.LogCaptureFixture
) -> None:
    async def use(url: str) -> bool:
        name = f"denied{next(_names)}"
        async with doyen.join(
            name, name="ant", preset="lan", election=doyen.Engine(url, lease="1s", renew_interval="300ms")
        ) as node:
            with suppress(TimeoutError):
                await node.wait_for_leader(timeout="3s")
            return node.is_leader

    server = server_of(kind)
    with DENYING[kind](server) as (url, words):
        store = opened(url, KEY, 5)
        with pytest.raises(TransportError, match=words) as raised:
            store.swap(None, b"a")
        store.close()
        assert "secret" not in str(raised.value)
        with caplog.at_level(logging.WARNING, logger="doyen"):
            assert not asyncio.run(use(url))
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert any("store" in line or "://" in line for line in told), told
    assert "secret" not in caplog.text


def test_a_wrong_password_of_etcd_is_told(server_of: Callable[[str], Server]) -> None:
    with etcd(server_of("etcd")) as (url, _):
        store = opened(url.replace("secret", "guessed"), KEY, 5)
        with pytest.raises(TransportError, match="authentication failed") as raised:
            store.look()
        store.close()
        assert "guessed" not in str(raised.value)


# Servers that are too old: a real one through a relay that changes its word, or one that answers as it would.


@contextmanager
def answering(respond: Callable[[socket.socket], None]) -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                with client:
                    respond(client)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def test_a_postgresql_before_9_5_is_told(server_of: Callable[[str], Server]) -> None:
    server = server_of("postgresql")

    def older(client: socket.socket) -> None:
        """Pass everything on, and say that the server's version is 9.4.x."""
        with socket.create_connection(("127.0.0.1", server.port), 5) as real:
            real.settimeout(5)
            while asked := client.recv(65536):
                real.sendall(asked)
                said = real.recv(65536)
                at = said.find(b"server_version\0")
                if at >= 0:
                    at += len(b"server_version\0")
                    end = said.index(b"\0", at)
                    said = said[:at] + b"9.4.26 (changed)"[: end - at].ljust(end - at) + said[end:]
                client.sendall(said)

    with answering(older) as port:
        store = opened(server.url.replace(str(server.port), str(port)) + "?sslmode=disable", KEY, 5)
        with pytest.raises(TransportError, match=r"is PostgreSQL 9\.4\.\S*.*doyen needs 9\.5 or later"):
            store.look()
        store.close()


def test_a_redis_without_scripts_is_told() -> None:
    pytest.importorskip("redis")

    def older(client: socket.socket) -> None:
        while asked := client.recv(65536):
            word = asked.split(b"\r\n")[2]
            client.sendall(b"$-1\r\n" if word == b"GET" else b"-ERR unknown command '%s'\r\n" % word)

    with answering(older) as port:
        store = opened(f"redis://127.0.0.1:{port}", KEY, 5)
        with pytest.raises(TransportError, match=r"unknown command 'EVAL'.*from 2\.6 on"):
            store.swap(None, b"a")
        store.close()


def test_a_pgbouncer_that_takes_no_options_and_mixes_sessions_is_used_without(
    server_of: Callable[[str], Server],
) -> None:
    server = server_of("postgresql")
    asked: list[bytes] = []

    def bouncer(client: socket.socket) -> None:
        """Refuse a connection with options as PgBouncer does, and pass on what others ask."""
        with socket.create_connection(("127.0.0.1", server.port), 5) as real:
            while ready := select.select([client, real], [], [], 10)[0]:
                if not (said := ready[0].recv(65536)):
                    return
                if ready[0] is real:
                    client.sendall(said)
                    continue
                asked.append(said)
                if b"options\0" in said:
                    words = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
                    client.sendall(b"E" + (len(words) + 4).to_bytes(4, "big") + words)
                    return
                real.sendall(said)

    with answering(bouncer) as port:
        store = opened(server.url.replace(str(server.port), str(port)) + "?sslmode=disable", KEY, 5)
        had = store.look()
        for i in range(8):  # psycopg prepares what is asked for the sixth time, in a session that may be another's.
            wanted = f"{i}".encode()
            assert store.swap(had, wanted) == (True, wanted)
            had = wanted
        store.close()
    assert any(b"options\0" in said for said in asked) and not any(b"_pg3_" in said for said in asked)
