"""What a fence refuses, what it says, and that it never blocks whoever leads."""

import asyncio
import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from writers import KINDS, opened

from doyen.errors import ConfigError, LeadershipLost, LocalProtocolError, TransportError
from doyen.fence import Etcd, Files, Http, Memory, TermRefused
from doyen_lab.servers import Server, free_port


@pytest.mark.parametrize("term", [0, -1, True, 1.5, "7", None, 2**53 + 1])
def test_what_is_no_term_is_refused(term: Any) -> None:
    with pytest.raises(LocalProtocolError, match=r"is no term: give a doyen\.Term, or its number"):
        Memory().check(term)


def test_a_refusal_says_which_term_was_seen() -> None:
    fence = Memory("orders")
    fence.check(7)
    fence.check(7)
    with pytest.raises(TermRefused, match="leadership of term 6 is lost: fence orders refuses it: term 7 was seen"):
        fence.check(6)
    assert issubclass(TermRefused, LeadershipLost)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 129])
def test_a_name_that_cannot_be_a_key_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="no name of a fence"):
        Memory(name)


# Files.


def test_readers_take_the_greatest_term(tmp_path: Path) -> None:
    old, new = Files(tmp_path, "state"), Files(tmp_path, "state")
    assert old.read() is None
    with old(3) as file:
        file.write(b"of three")
    new.check(4)
    assert new.read() == b"of three", "a new term begins with what the last one left"
    with pytest.raises(TermRefused, match="term 4 was seen"), old(3) as file:
        file.write(b"too late")
    assert new.read() == b"of three"
    with new(4) as file:
        file.write(b"of four")
    assert [path.name for path in tmp_path.iterdir()] == [f"state.{4:020}"]
    assert old.read() == b"of four"


def test_a_write_between_the_copy_and_the_claim_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    old, new = Files(tmp_path, "state"), Files(tmp_path, "state")
    with old(3) as file:
        file.write(b"first")
    link = os.link

    def late(source: Any, target: Any) -> None:
        monkeypatch.setattr(os, "link", link)
        with old(3) as file:
            file.write(b"accepted")
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    new.check(4)
    assert new.read() == b"accepted"


def test_a_write_after_the_claim_is_refused_although_its_check_was_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    old, new = Files(tmp_path, "state"), Files(tmp_path, "state")
    with old(3) as file:
        file.write(b"first")
    replace = os.replace

    def late(source: Any, target: Any) -> None:
        monkeypatch.setattr(os, "replace", replace)
        new.check(4)
        replace(source, target)

    monkeypatch.setattr(os, "replace", late)
    with pytest.raises(TermRefused), old(3) as file:
        file.write(b"zombie")
    assert new.read() == b"first"


def test_two_of_one_term_do_not_both_write(tmp_path: Path) -> None:
    one, other = Files(tmp_path, "state"), Files(tmp_path, "state")
    one.check(3)
    with pytest.raises(TermRefused, match="another process has made this term's file"):
        other.check(3)


def test_a_body_that_fails_writes_nothing(tmp_path: Path) -> None:
    fence = Files(tmp_path, "state")
    with suppress(ZeroDivisionError), fence(3) as file:
        file.write(b"%d" % (1 // 0))
    assert fence.read() is None


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="gone is no folder: make or mount it"):
        Files(tmp_path / "gone", "state")


def test_files_in_a_coroutine(tmp_path: Path) -> None:
    async def write() -> None:
        async with Files(tmp_path, "state")(5) as file:
            file.write(b"five")

    asyncio.run(write())
    assert Files(tmp_path, "state").read() == b"five"


# HTTP.


def ask(app: Any, *terms: str, method: str = "POST", path: str = "/orders/1") -> int:
    """Return the status of the answer."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"Doyen-Term", term.encode()) for term in terms]
    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    asyncio.run(app(scope, None, send))
    return int(sent[0]["status"])


async def plain(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


def test_requests_of_smaller_terms_are_refused() -> None:
    app = Http(plain, paths=["/orders"])
    assert [ask(app, term) for term in ("6", "7", "7", "6", "8")] == [200, 200, 200, 409, 200]
    assert ask(app) == 428
    assert [ask(app, term) for term in ("", "x", "-1", "0", "9" * 30)] == [400] * 5
    assert ask(app, "8", "9") == 400, "two terms are none"
    assert ask(app, method="GET") == 200 and ask(app, path="/ordersome") == 200


def test_workers_share_a_fence_and_one_that_fails_lets_nobody_in(tmp_path: Path) -> None:
    class Broken:
        def check(self, term: int) -> None:
            raise TransportError("gone")

    first, second = (Http(plain, fence=shared) for shared in (Memory(), Memory()))
    second.fence = first.fence
    assert (ask(first, "7"), ask(second, "6")) == (200, 409)
    assert ask(Http(plain, fence=Broken()), "7") == 503


# Stores.


@pytest.mark.live
@pytest.mark.parametrize("kind", KINDS)
def test_writers_of_one_term_and_the_next_never_block_each_other(kind: str, server_of: Callable[[str], Server]) -> None:
    """Four connections race through 5 terms: each write is accepted or refused, and none hangs or fails otherwise."""
    url, refused, failed = server_of(kind).url, [], []
    opened(kind, url, "race").close()

    def race() -> None:
        store = opened(kind, url, "race")
        try:
            for term in range(10_001, 10_006):
                for _ in range(3):
                    try:
                        store.fenced(term, f"of {term}")
                    except TermRefused:
                        refused.append(term)
        except Exception as error:
            failed.append(error)
        finally:
            store.close()

    threads = [threading.Thread(target=race) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    store = opened(kind, url, "race")
    assert failed == [] and store.read() == "of 10005" and 10_005 not in refused
    store.close()


@pytest.mark.live
def test_the_async_fences_of_postgresql_and_redis(server_of: Callable[[str], Server]) -> None:
    import psycopg
    import redis.asyncio

    from doyen.fence import AsyncPostgres, Redis

    async def use() -> list[Any]:
        connection = await psycopg.AsyncConnection.connect(server_of("postgresql").url, autocommit=True)
        fence = AsyncPostgres(connection, "async")
        await fence.prepare()
        async with fence(3):
            await connection.execute("CREATE TABLE asynced (i int)")
        with pytest.raises(TermRefused):
            async with fence(2):
                await connection.execute("INSERT INTO asynced VALUES (1)")
        done = await connection.execute("SELECT count(*) FROM asynced")
        found: list[Any] = [await done.fetchone()]
        await connection.close()
        client = redis.asyncio.Redis.from_url(server_of("redis").url)
        other = Redis(client, "async")
        await other.check(3)
        async with other(4) as writes:
            writes("INCRBY", "asynced", 5)
        found += writes.results
        with pytest.raises(TermRefused):
            async with other(3) as writes:
                writes("SET", "asynced", 7)
        with pytest.raises(LocalProtocolError, match="use `async with"), other(5):
            pass
        await client.aclose()
        return found

    assert asyncio.run(use()) == [(0,), 5]


@pytest.mark.live
def test_postgresql_without_its_table_is_said(server_of: Callable[[str], Server]) -> None:
    import psycopg

    from doyen.fence import Postgres

    with psycopg.connect(server_of("postgresql").url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS doyen_fence")
        with pytest.raises(ConfigError, match=r"call fence.prepare\(\) once"):
            Postgres(connection, "orders").check(3)


# An etcd that is none.


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: Any) -> None: ...

    server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"etcd://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (404, b"404 page not found", "is no etcd, or one before 3.4"),
        (200, b"<html>", "is no etcd, or one before 3.4"),
        (401, b'{"error": "etcdserver: user name is empty"}', "refuses: etcdserver: user name is empty"),
    ],
)
def test_what_is_no_etcd_is_said(status: int, body: bytes, words: str) -> None:
    with answering(status, body) as url:
        fence = Etcd(url, "orders")
        with pytest.raises(TransportError, match=words):
            fence.check(3)
        fence.close()


def test_an_etcd_that_is_not_there_is_said() -> None:
    with pytest.raises(TransportError, match="cannot be reached: Connection refused"):
        Etcd(f"etcd://127.0.0.1:{free_port()}", "orders").check(3)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://x", "'http://x' is no store: begin with one of etcd://"),
        ("etcd://", "names no server"),
        ("etcd://a:x", "'a:x' is no HOST:PORT"),
        ("redis://me:secret@a:x", "'redis://…@a:x': 'a:x' is no HOST:PORT"),
        ("redis://a", "is no etcd: begin with etcd://"),
    ],
)
def test_a_wrong_url_is_said_without_its_password(url: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Etcd(url, "orders")
    assert words in str(raised.value) and "secret" not in str(raised.value)
