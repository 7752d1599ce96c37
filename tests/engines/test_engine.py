"""Leadership that a real store decides: it goes away, comes back, hangs and is cut off; never do two act."""

import asyncio
import gc
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from engine_group import CONFIG, GROUPS, group, relayed
from writers import KINDS

import doyen
from doyen.engines.half import opened
from doyen.errors import ConfigError, TransportError
from doyen_lab.relay import Relay
from doyen_lab.servers import Server, free_port, running

pytestmark = pytest.mark.live
BOUND_S = CONFIG.settle_max / 1e9  # What `doyen presets --election engine` says for these timers.


async def outages(server: Server, hows: tuple[str, ...]) -> tuple[int, float]:
    """Let the store go away in these ways, one after the other.

    Return how many leaders there were, and the longest time until one acted after the store was back.
    """
    longest_s = 0.0
    relay = Relay(server.port)
    try:
        async with group(relayed(server, relay)) as made:
            for how in hows:
                begin, end = {
                    "kill": (server.kill, server.start),
                    "pause": (server.pause, server.resume),
                    "cut": (relay.cut, relay.mend),
                }[how]
                await asyncio.to_thread(begin)
                try:
                    await made.until(f"{how}: somebody leads without the store", lambda leaders: not leaders)
                finally:
                    await asyncio.to_thread(end)
                back_at = time.monotonic()
                await made.until(f"{how}: nobody leads although the store is back", bool)
                longest_s = max(longest_s, time.monotonic() - back_at)
            terms = [number for number, _ in made.reigns]
            assert terms == sorted(terms), made.reigns
            return len(made.reigns), longest_s
    finally:
        relay.close()


@pytest.mark.parametrize(("kind", "how"), [*zip(KINDS, ("pause", "kill", "cut", "cut"), strict=True)])
def test_without_its_store_nobody_leads_and_with_it_somebody_does(
    kind: str, how: str, server_of: Callable[[str], Server]
) -> None:
    leaders, back_s = asyncio.run(outages(server_of(kind), (how,)))
    assert leaders >= 2 and back_s <= BOUND_S


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["kill", "pause", "cut"])
def test_fifty_outages(kind: str, how: str, server_of: Callable[[str], Server], tell: Callable[[str], None]) -> None:
    server_of(kind)  # Skips where there is none.
    with running(kind) as server:
        leaders, back_s = asyncio.run(outages(server, (how,) * 50))
    led = f"led again within {back_s:.1f} s (bound {BOUND_S:.1f})"
    tell(f"engine on {kind}: 50 × {how} of its server, {leaders} leaders, no overlap, {led}")
    assert leaders >= 51 and back_s <= BOUND_S


@pytest.mark.parametrize("kind", KINDS)
def test_a_swap_is_done_once(kind: str, server_of: Callable[[str], Server]) -> None:
    url, key = server_of(kind).url, f"doyen/engine/swaps{next(GROUPS)}/-"
    one, other = opened(url, key, 5), opened(url, key, 5)
    try:
        assert one.look() is None
        assert one.swap(b"x", b"a") == (False, None), "there is nothing to be replaced"
        assert one.swap(None, b"a") == (True, b"a")
        assert other.swap(None, b"b") == (False, b"a")
        assert other.swap(b"a", b"b") == (True, b"b")
        assert one.swap(b"a", b"c") == (False, b"b"), "although it wrote a itself"
        assert one.look() == b"b" == other.look()
    finally:
        one.close()
        other.close()


def test_a_table_that_many_make_at_once_is_made_and_no_connection_stays_open(
    server_of: Callable[[str], Server],
) -> None:
    psycopg = pytest.importorskip("psycopg")
    url = server_of("postgresql").url
    with psycopg.connect(url, autocommit=True) as admin:
        for _ in range(20):
            admin.execute("DROP TABLE IF EXISTS doyen_engine")
            stores = [opened(url, "made/at/once", 5) for _ in range(6)]
            with ThreadPoolExecutor(len(stores)) as pool:
                assert list(pool.map(lambda store: store.look(), stores)) == [None] * len(stores)
            for store in stores:
                store.close()
        admin.execute("DROP TABLE doyen_engine")
        admin.execute("CREATE TYPE doyen_engine AS (x int)")  # What a table that is being made shows to others.
        store = opened(url, "made/at/once", 5)
        with pytest.raises(TransportError, match="doyen_engine"):
            store.swap(None, b"a")
        store.close()
        del store
        gc.collect()  # A connection that is still open would say so here.
        admin.execute("DROP TYPE doyen_engine")


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_not_there_is_told_and_nobody_leads(
    kind: str, server_of: Callable[[str], Server], caplog: pytest.LogCaptureFixture
) -> None:
    server = server_of(kind)
    url = server.url.replace(str(server.port), str(free_port()))
    store = opened(url, "k", 0.5)
    with pytest.raises(TransportError, match=rf"{kind}://127\.0\.0\.1"):
        store.look()
    store.close()


def test_denied_access_is_told(server_of: Callable[[str], Server]) -> None:
    url = server_of("postgresql").url.replace("doyen@", "nobody@")
    store = opened(url, "k", 2)
    with pytest.raises(TransportError, match='role "nobody" does not exist'):
        store.look()
    store = opened(server_of("redis").url.replace("://", "://me:secret@"), "k", 2)
    with pytest.raises(TransportError) as raised:
        store.look()
    store.close()
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    ["", "http://127.0.0.1", "/mnt/x", "redis://a,b:1", "redis://a?socket_timeout=soon", "redis://a?colour=red"]
    + [f"{kind}://{where}" for kind in KINDS for where in ("", "a:port", "a:99999", "who:p@ss@a")],
)
def test_a_wrong_address_is_refused_before_anything_starts(url: str) -> None:
    async def use() -> None:
        async with doyen.join("g", name="ant", election=doyen.Engine(url)):
            pass

    with pytest.raises(ConfigError):
        asyncio.run(use())


@pytest.mark.parametrize("options", ["ca={}/none", "ca={}/odd", "cert={}/none"])
def test_files_of_tls_that_are_missing_or_odd_are_named(options: str, tmp_path: Path) -> None:
    (tmp_path / "odd").write_text("no certificate")
    given = options.format(tmp_path)
    store = opened(f"etcds://127.0.0.1:1?{given}", "k", 0.5)
    with pytest.raises(TransportError, match=re.escape(f"etcds://127.0.0.1:1 cannot be used with {given}")):
        store.look()


@pytest.mark.parametrize("kind", KINDS)
def test_an_address_of_ipv6_is_taken_and_shown_as_it_was_given(kind: str) -> None:
    url = f"{kind}://[::1]:{free_port()}"
    store = opened(url, "k", 0.5)
    with pytest.raises(TransportError, match=re.escape(url)):
        store.look()
    store.close()


def test_a_stopped_command_is_not_begun_again_in_the_rest_of_its_lease(
    server_of: Callable[[str], Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path))
    server = server_of("redis")
    relay = Relay(server.port)
    line = ["timeout", "60", sys.executable, "-m", "doyen", "run", "--group", f"g{next(GROUPS)}", "--preset", "lan"]
    line += ["--election", "engine", "--shared", relayed(server, relay), "--", "sleep", "600"]
    said = []
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as runner:
        assert runner.stderr is not None
        for text in runner.stderr:
            said.append(text)
            if "started sleep" in text:
                relay.cut()
            elif "lost leadership" in text:
                threading.Timer(3.5, runner.terminate).start()  # The rest of its lease of 3 s is over by then.
    relay.close()
    assert sum("started sleep" in text for text in said) == sum("lost leadership" in text for text in said) == 1, said
