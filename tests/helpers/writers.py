"""One value per store, written with a fence and without, for the zombie and for its successor."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from doyen.fence import TermRefused

KINDS = ("postgresql", "redis", "etcd", "zookeeper")
Write = Callable[[int, str], bool]  # (term, text): whether it was accepted.


class Opened(NamedTuple):
    """One value in a store."""

    fenced: Callable[[int, str], object]
    bare: Callable[[str], object]
    read: Callable[[], str]
    read_bare: Callable[[], str]
    close: Callable[[], object] = lambda: None


def writer(opened: Opened, *, fenced: bool) -> Write:
    """Return what writes; without a fence it writes as a careless leader does."""

    def write(term: int, text: str) -> bool:
        if not fenced:
            opened.bare(text)
            return True
        try:
            opened.fenced(term, text)
        except TermRefused:
            return False
        return True

    return write


def opened(kind: str, where: str, name: str = "zombie") -> Opened:
    return MAKERS[kind](where, name)


def _postgres(url: str, name: str) -> Opened:
    import psycopg

    from doyen.fence import Postgres

    connection = psycopg.connect(url, autocommit=True)
    fence = Postgres(connection, name)
    fence.prepare()
    connection.execute("CREATE TABLE IF NOT EXISTS written (text text)")
    if connection.execute("SELECT count(*) FROM written").fetchone() == (0,):
        connection.execute("INSERT INTO written VALUES ('')")

    def fenced(term: int, text: str) -> None:
        with fence(term):
            bare(text)

    def bare(text: str) -> None:
        connection.execute("UPDATE written SET text = %s", (text,))

    def read() -> str:
        row = connection.execute("SELECT text FROM written").fetchone()
        assert row
        return str(row[0])

    return Opened(fenced, bare, read, read, connection.close)


def _redis(url: str, name: str) -> Opened:
    import redis

    from doyen.fence import Redis

    client = redis.Redis.from_url(url)
    fence = Redis(client, name)

    def fenced(term: int, text: str) -> None:
        with fence(term) as writes:
            writes("SET", "written", text)

    def read() -> str:
        return str((client.get("written") or b"").decode())

    return Opened(fenced, lambda text: client.set("written", text), read, read, client.close)


def _etcd(url: str, name: str) -> Opened:
    from doyen.engines import etcd
    from doyen.engines.url import parse
    from doyen.fence import Etcd

    fence, gateway = Etcd(url, name), etcd.Gateway(parse(url), 5)

    def fenced(term: int, text: str) -> None:
        with fence(term) as writes:
            writes.put("written", text)

    def read() -> str:
        return (etcd.read(gateway.txn([], [etcd.get("written")], [])[1][0]) or b"").decode()

    def close() -> None:
        fence.close()
        gateway.close()

    return Opened(fenced, lambda text: gateway.txn([], [etcd.put("written", text)], []), read, read, close)


def _zookeeper(url: str, name: str) -> Opened:
    from kazoo.client import KazooClient

    from doyen.fence import ZooKeeper

    # A session outlives the stop: what refuses the late write is the fence alone.
    client = KazooClient(url.removeprefix("zookeeper://"), timeout=30)
    client.start()
    client.ensure_path("/written")
    fence = ZooKeeper(client, name)

    def fenced(term: int, text: str) -> None:
        with fence(term) as writes:
            writes.set_data("/written", text.encode())

    def read() -> str:
        return str(client.get("/written")[0].decode())

    def close() -> None:
        client.stop()
        client.close()

    return Opened(fenced, lambda text: client.set("/written", text.encode()), read, read, close)


def _files(where: str, name: str) -> Opened:
    from doyen.fence import Files

    fence, bare = Files(where, name), Path(where, "bare")

    def fenced(term: int, text: str) -> None:
        with fence(term) as file:
            file.write(text.encode())

    return Opened(fenced, bare.write_text, lambda: (fence.read() or b"").decode(), bare.read_text)


def _http(url: str, name: str) -> Opened:
    import urllib.error
    import urllib.request

    def ask(path: str, text: str | None = None, **headers: str) -> str:
        data = None if text is None else text.encode()
        with urllib.request.urlopen(urllib.request.Request(url + path, data, headers)) as answer:
            return str(answer.read().decode())

    def fenced(term: int, text: str) -> None:
        try:
            ask("/fenced", text, **{"Doyen-Term": str(term)})
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 409:
                    raise TermRefused(term, "http", 0) from None
            raise

    return Opened(fenced, lambda text: ask("/bare", text), lambda: ask("/fenced"), lambda: ask("/bare"))


MAKERS: dict[str, Callable[[str, str], Opened]] = {
    "postgresql": _postgres,
    "redis": _redis,
    "etcd": _etcd,
    "zookeeper": _zookeeper,
    "files": _files,
    "http": _http,
}
