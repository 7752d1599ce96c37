"""A store that dies in the middle of a request, answers late, closes idle connections, or loses its record."""

import asyncio
import socket
import time
from collections.abc import Callable
from itertools import count

import pytest
from engine_group import Group, group, relayed
from writers import KINDS

from doyen.engines.etcd import Gateway, bits
from doyen.engines.half import Store, opened
from doyen.engines.url import parse
from doyen.errors import TransportError
from doyen_lab.relay import Relay
from doyen_lab.servers import Server

pytestmark = pytest.mark.live
TIMEOUT_S = 1.0
_keys = count()


def fails(store: Store, expected: bytes, wanted: bytes) -> str:
    """Return why a swap failed, which it must do soon."""
    began = time.monotonic()
    with pytest.raises(TransportError) as raised:
        store.swap(expected, wanted)
    assert time.monotonic() - began < 3 * TIMEOUT_S
    return str(raised.value)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_request_did_is_known_after_the_next_whatever_became_of_its_answer(
    kind: str, server_of: Callable[[str], Server]
) -> None:
    server = server_of(kind)
    relay = Relay(server.port)
    store = opened(relayed(server, relay), f"misfortunes{next(_keys)}/-", TIMEOUT_S)
    try:
        assert store.swap(None, b"a") == (True, b"a")
        relay.spoil()
        assert kind in fails(store, b"a", b"b"), "it dies in the middle"
        assert store.swap(b"b", b"c") == (True, b"c"), "it had been done"
        relay.spoil(2 * TIMEOUT_S)
        assert "time" in fails(store, b"c", b"d").lower(), "it answers late"
        assert store.swap(b"d", b"e") == (True, b"e")
        time.sleep(TIMEOUT_S)  # The late answer comes, and is nobody's.
        assert store.look() == b"e"
        relay.end()
        time.sleep(0.1)  # Until the kernel has passed it on.
        assert store.look() == b"e", "a proxy closed the connection while nothing was asked"
        relay.end()
        time.sleep(0.1)
        assert store.swap(b"e", b"f") == (True, b"f")
    finally:
        store.close()
        relay.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_takes_connections_and_says_nothing_is_given_up(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = opened(f"{kind}://127.0.0.1:{silent.getsockname()[1]}", "k", TIMEOUT_S)
        began = time.monotonic()
        with pytest.raises(TransportError, match=kind):
            store.look()
        assert time.monotonic() - began < 3 * TIMEOUT_S
        store.close()


def forget(server: Server) -> None:
    """Remove the records of all groups, as a server that was started without its data would."""
    if server.kind == "redis":
        import redis

        with redis.Redis.from_url(server.url) as client:
            client.flushall()
    elif server.kind == "postgresql":
        import psycopg

        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("DROP TABLE doyen_engine")
    elif server.kind == "etcd":
        gateway = Gateway(parse(server.url), 5)
        gateway.ask("/v3/kv/deleterange", {"key": bits("doyen/"), "range_end": bits("doyen0")})
        said = gateway.ask("/v3/kv/range", {"key": bits("doyen/")})
        gateway.ask("/v3/kv/compaction", {"revision": said["header"]["revision"]})
        gateway.close()
    else:
        from kazoo.client import KazooClient

        client = KazooClient(f"127.0.0.1:{server.port}")
        client.start()
        client.delete("/doyen", recursive=True)
        client.stop()
        client.close()


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.soak] * (kind != "redis")) for kind in KINDS])
def test_a_store_that_lost_its_record_is_told_and_terms_go_on_without_two_that_act(
    kind: str, server_of: Callable[[str], Server], caplog: pytest.LogCaptureFixture
) -> None:
    async def use(server: Server) -> Group:
        async with group(server.url) as made:
            await asyncio.to_thread(forget, server)
            await made.until("somebody leads by a record that is gone", lambda leaders: not leaders)
            await made.until("nobody leads by a new record", bool)
        return made

    made = asyncio.run(use(server_of(kind)))
    terms = [number for number, _ in made.reigns]
    assert terms == sorted(set(terms)) and len(terms) == 2, made.reigns
    assert "the store has lost epoch" in caplog.text
