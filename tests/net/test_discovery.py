"""Finding the others: addresses, names, a file that changes, multicast; forever, and without blocking."""

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from net_nodes import Node, until

from doyen.core.clock import FOREVER, ms
from doyen.core.codec import Codec
from doyen.core.effects import Emit, Multicast, Send, SetTimer
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.machine import FollowsFacts, hears
from doyen.core.seeds import PeerHeard, SeedsChanged
from doyen.errors import ConfigError
from doyen.membership.heartbeat.config import HeartbeatConfig
from doyen.membership.heartbeat.machine import Heartbeat
from doyen.membership.swim.config import SwimConfig
from doyen.membership.swim.machine import Swim
from doyen.net import discovery
from doyen.net.beacon import GREETINGS, Beacon, CallDue, Here
from doyen.net.discovery import HEARD_MAX, LINES_MAX, Discovery, DiscoveryConfig
from doyen.net.driver import Driver
from doyen.net.udp import UdpConfig, UdpTransport
from doyen.testing import RecordingOut
from doyen.testing.processes import multicast_on_loopback

SOON = DiscoveryConfig(resolve_every=ms(20), retry_first=ms(5), file_every=ms(10))
ONE, TWO, THREE = (Address(f"127.0.0.{i}", 7600) for i in (1, 2, 3))


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="doyen")


def running(check: Callable[[Driver], Any]) -> Driver:
    """Runs a check with a driver that hears nobody."""
    node = Node("me")

    async def main() -> None:
        await node.driver.start()
        try:
            await check(node.driver)
        finally:
            node.driver.close()

    asyncio.run(main())
    return node.driver


def test_addresses_are_used_as_they_are_and_told_once() -> None:
    told: list[SeedsChanged] = []

    class Told(FollowsFacts):
        HEARS = hears(SeedsChanged, lambda self, fact, now: told.append(fact))

    async def check(driver: Driver) -> None:
        driver.add("told", lambda port: Told())
        found = Discovery.attach(driver, ["127.0.0.1:7600", "127.0.0.2:7600", "[::1]:7600"], config=SOON)
        assert found.seeds == (ONE, TWO)  # Of another IP version is nobody we could reach.
        await asyncio.sleep(0.05)

    driver = running(check)
    assert told == [SeedsChanged((ONE, TWO))] and driver.addresses.seeds == (ONE, TWO)


def test_a_name_is_tried_for_ever_and_gives_all_its_records() -> None:
    answers: list[list[str] | OSError] = [
        OSError("no such host"),
        [],
        ["127.0.0.1", "127.0.0.2"],
        OSError("server failed"),
        ["127.0.0.2", "127.0.0.3"],
    ]
    asked: list[float] = []

    def lookup(host: str, port: int, family: socket.AddressFamily) -> list[str]:
        asked.append(time.monotonic())
        answer = answers[min(len(asked), len(answers)) - 1]
        if isinstance(answer, OSError):
            raise answer
        return answer

    async def check(driver: Driver) -> None:
        found = Discovery.attach(driver, ["orders.example:7600"], config=SOON, lookup=lookup)
        seen = []
        async with asyncio.timeout(5):
            while len(asked) < 8:
                if found.seeds not in seen:
                    seen.append(found.seeds)
                await asyncio.sleep(0.001)
        assert seen == [(), (ONE, TWO), (TWO, THREE)]  # A lookup that fails takes nothing away.

    running(check)


def test_a_name_that_cannot_be_found_is_asked_for_at_twice_the_pause_until_the_usual_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    config = DiscoveryConfig(resolve_every=ms(700), alone_every=ms(500), retry_first=ms(30))
    answers: list[list[str]] = [[]] * 6 + [["127.0.0.1"]] + [[]] * 2

    async def check(driver: Driver) -> None:
        loop = asyncio.get_running_loop()
        later = loop.call_later

        def at_once(delay: float, then: Callable[[], None], *arguments: Any) -> asyncio.TimerHandle:
            if "_on_answer" in then.__qualname__:
                pauses.append(round(delay, 3))
                return later(0, then, *arguments)
            return later(delay, then, *arguments)

        monkeypatch.setattr(loop, "call_later", at_once)
        Discovery.attach(
            driver, ["orders.example:7600"], config=config, lookup=lambda *_: answers.pop(0) if answers else []
        )
        await until(lambda: not answers)

    running(check)
    # Nobody is heard, so it is asked again soon; after an answer it begins anew.
    assert pauses[:9] == [0.03, 0.06, 0.12, 0.24, 0.48, 0.5, 0.5, 0.03, 0.06]


def test_a_name_server_that_hangs_blocks_nothing_not_even_the_end() -> None:
    forever = threading.Event()

    async def check(driver: Driver) -> None:
        began = time.monotonic()
        found = Discovery.attach(
            driver, ["a.example:1", "127.0.0.1:7600"], config=SOON, lookup=lambda *_: [str(forever.wait(30))]
        )
        assert found.seeds == (ONE,) and time.monotonic() - began < 1
        await asyncio.sleep(0.1)
        lookups = [thread for thread in threading.enumerate() if thread.name.startswith("doyen-lookup")]
        assert len(lookups) == 1  # However often it is due: one at a time.

    began = time.monotonic()
    running(check)
    assert time.monotonic() - began < 5
    forever.set()


def test_the_file_may_change_vanish_and_hold_nonsense(tmp_path: Path) -> None:
    path = tmp_path / "seeds"

    async def check(driver: Driver) -> None:
        found = Discovery.attach(driver, file=path, config=SOON)
        assert found.seeds == ()
        path.write_text("127.0.0.1:7600  # the first\n\n")
        await until(lambda: found.seeds == (ONE,))
        path.write_text("127.0.0.1:7600\nwhat is this\n127.0.0.2:7600\n\xff\n")
        await until(lambda: found.seeds == (ONE, TWO))
        path.unlink()
        await asyncio.sleep(0.05)
        assert found.seeds == (ONE, TWO)
        path.write_text("127.0.0.3:7600\n")
        await until(lambda: found.seeds == (THREE,))

    running(check)


def test_a_seeds_file_of_garbage_delays_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port with more digits than Python reads, and more lines than anybody wants to."""
    path = tmp_path / "seeds"
    path.write_text("127.0.0.1:" + "9" * 5000 + "\n127.0.0.1:7600\n" + "?\n" * 500_000)
    read: list[str] = []
    parse = discovery.parse_address
    monkeypatch.setattr(discovery, "parse_address", lambda text, **more: (read.append(text), parse(text, **more))[1])

    async def check(driver: Driver) -> None:
        found = Discovery.attach(driver, file=path, config=SOON)
        assert found.seeds == (ONE,)
        path.write_text("127.0.0.2:7600\n")
        await until(lambda: found.seeds == (TWO,))

    with caplog.at_level(logging.WARNING, logger="doyen"):
        running(check)
    assert "'127.0.0.1:9999" in caplog.text and f"first {LINES_MAX} lines" in caplog.text and len(caplog.text) < 2000
    assert LINES_MAX <= len(read) < 2 * LINES_MAX  # Of half a million.


def test_a_seeds_file_whose_rights_are_mended_is_read_after_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "seeds"
    path.write_text("127.0.0.1:7600\n")
    refusals = [3]

    def refuse(*given: Any, **options: Any) -> Any:  # Root may read anything, so no rights are taken away here.
        if refusals[0]:
            refusals[0] -= 1
            raise PermissionError(13, "Permission denied")
        return open(*given, **options)

    monkeypatch.setattr(discovery, "open", refuse, raising=False)

    async def check(driver: Driver) -> None:
        found = Discovery.attach(driver, file=path, config=SOON)
        assert found.seeds == ()
        await until(lambda: found.seeds == (ONE,))

    running(check)


def test_a_name_that_comes_and_goes_while_its_server_is_slow_is_asked_by_one(tmp_path: Path) -> None:
    path = tmp_path / "seeds"
    slow, asked = threading.Event(), []

    def lookup(host: str, port: int, family: socket.AddressFamily) -> list[str]:
        asked.append(host)
        slow.wait(10)
        return ["127.0.0.1"]

    async def check(driver: Driver) -> None:
        config = DiscoveryConfig(resolve_every=ms(60), file_every=ms(5))
        found = Discovery.attach(driver, file=path, config=config, lookup=lookup)
        for i in range(1, 5):
            path.write_text("a.example:7600\n")
            await until(lambda i=i: len(asked) == i)  # type: ignore[misc]
            path.write_text("127.0.0.2:7600\n")
            await until(lambda: found.seeds == (TWO,))
        path.write_text("a.example:7600\n")
        await until(lambda: len(asked) == 5)
        slow.set()
        await until(lambda: found.seeds == (ONE,))
        asked.clear()
        await asyncio.sleep(0.3)
        assert len(asked) <= 5  # Not five times as many.

    running(check)


def test_a_name_that_is_no_longer_listed_is_no_longer_asked(tmp_path: Path) -> None:
    path = tmp_path / "seeds"
    path.write_text("a.example:7600\n")
    asked: list[str] = []

    def lookup(host: str, port: int, family: socket.AddressFamily) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    async def check(driver: Driver) -> None:
        found = Discovery.attach(driver, file=path, config=SOON, lookup=lookup)
        await until(lambda: found.seeds == (ONE,))
        path.write_text("127.0.0.2:7600\n")
        await until(lambda: found.seeds == (TWO,))
        await asyncio.sleep(0.03)
        asked.clear()
        await asyncio.sleep(0.1)
        assert asked == []

    running(check)


def test_a_seed_that_cannot_be_an_address_is_refused_at_once() -> None:
    async def check(driver: Driver) -> None:
        with pytest.raises(ConfigError, match="not an address"):
            Discovery.attach(driver, ["10.0.0.1"])
        assert Discovery.attach(driver, ["127.0.0.1"], default_port=7600).seeds == (ONE,)

    running(check)


def test_localhost_is_a_name_like_any_other() -> None:
    async def check(driver: Driver) -> None:
        found = Discovery.attach(driver, ["localhost:7600"])
        await until(lambda: found.seeds == (ONE,))

    running(check)


# ── Multicast ───────────────────────────────────────────────────────────────────────────────────────────────


def test_other_nodes_of_this_machine_are_seeds_as_they_come_and_go() -> None:
    here: list[Address] = []

    async def check(driver: Driver) -> None:
        found = Discovery.attach(driver, config=DiscoveryConfig(local_every=ms(5)), local=lambda: here)
        for now in ([ONE], [ONE, TWO], [THREE], []):
            here[:] = now
            await until(lambda now=now: found.seeds == tuple(now))  # type: ignore[misc]

    running(check)


def test_a_beacon_calls_often_at_first_and_answers_newcomers_alone() -> None:
    out = RecordingOut()
    beacon = Beacon(NodeId("me"), ONE, DiscoveryConfig(beacon_first=ms(1000), beacon_last=ms(3000)), out)
    beacon.start(0)
    assert out.effects == [Multicast(Here("127.0.0.1", 7600, True)), SetTimer(CallDue(ms(1000)), ms(1000))]
    out.effects.clear()
    for at in (1000, 3000, 6000):
        beacon.on_timer(CallDue(ms(at)), ms(at))
    assert [effect.at for effect in out.effects if isinstance(effect, SetTimer)] == [ms(3000), ms(6000), ms(9000)]
    out.effects.clear()
    beacon.on_message(NodeId("new"), Here("127.0.0.2", 7600, True), 0)
    beacon.on_message(NodeId("old"), Here("127.0.0.3", 7600), 0)
    beacon.on_message(NodeId("me"), Here("127.0.0.1", 7600, True), 0)
    assert out.effects == [
        Emit(PeerHeard(TWO)),
        Send(NodeId("new"), Here("127.0.0.1", 7600)),
        Emit(PeerHeard(THREE)),
    ]


def test_a_beacon_introduces_members_to_each_other_where_nothing_else_does() -> None:
    out = RecordingOut()
    settings = DiscoveryConfig(beacon_first=ms(1000), beacon_last=FOREVER)
    seed = Beacon(NodeId("seed"), ONE, settings, out, introduces=True)
    seed.on_message(NodeId("two"), Here("127.0.0.2", 7600, True), 0)
    assert out.take() == [Emit(PeerHeard(TWO)), Send(NodeId("two"), Here("127.0.0.1", 7600))]
    seed.on_message(NodeId("two"), Here("127.0.0.2", 7600), 0)
    assert out.take() == [Emit(PeerHeard(TWO))], "it is known"
    seed.on_message(NodeId("three"), Here("127.0.0.3", 7600, True), 0)
    answer = Here("127.0.0.1", 7600, False, (("127.0.0.2", 7600),))
    assert out.take() == [Emit(PeerHeard(THREE)), Send(NodeId("three"), answer)]
    three = Beacon(NodeId("three"), THREE, settings, out, introduces=True)
    three.on_message(NodeId("seed"), answer, 0)
    greeting = Send(TWO, Here("127.0.0.3", 7600, True, (("127.0.0.1", 7600),)))
    assert out.take() == [Emit(PeerHeard(ONE)), Send(NodeId("seed"), Here("127.0.0.3", 7600)), greeting]
    for at in range(GREETINGS - 1):
        three.on_timer(CallDue(ms(1000)), ms(at))
        assert out.take() == [greeting, SetTimer(CallDue(ms(1000)), ms(1000 + at))], "soon again: seed may be gone then"
    three.on_timer(CallDue(ms(1000)), 0)
    assert greeting not in out.take(), "who does not answer is given up"
    three.on_message(NodeId("seed"), answer, 0)
    three.on_message(NodeId("two"), Here("127.0.0.2", 7600), 0)
    out.take()
    three.on_message(NodeId("seed"), answer, 0)
    assert out.take() == [Emit(PeerHeard(ONE))], "two has answered"


def test_a_beacon_that_introduces_calls_as_soon_as_a_seed_is_known_and_only_until_it_is_answered() -> None:
    out = RecordingOut()
    beacon = Beacon(NodeId("me"), ONE, DiscoveryConfig(), out, introduces=True)
    beacon.start(0)  # The name of its seed is still being looked up.
    out.take()
    beacon.on_seeds_changed(SeedsChanged((TWO,)), ms(4))
    assert out.take() == [Multicast(Here("127.0.0.1", 7600, True))]
    beacon.on_message(NodeId("two"), Here("127.0.0.2", 7600), ms(5))
    out.take()
    beacon.on_seeds_changed(SeedsChanged((TWO, THREE)), ms(6))
    assert out.take() == []


def test_a_beacon_asks_again_until_as_many_as_expected_answer_at_the_same_time() -> None:
    out = RecordingOut()
    beacon = Beacon(NodeId("me"), ONE, DiscoveryConfig(beacon_last=FOREVER), out, expect=3)

    def called_at(at: int) -> tuple[bool, int]:
        beacon.on_timer(CallDue(ms(1000)), ms(at))
        call, timer = out.take()
        assert isinstance(call, Multicast) and isinstance(call.message, Here) and isinstance(timer, SetTimer)
        return call.message.wants_answer, timer.at - ms(at)

    assert called_at(0) == (True, ms(1000))
    beacon.on_message(NodeId("two"), Here("127.0.0.2", 7600), ms(500))
    beacon.on_message(NodeId("three"), Here("127.0.0.3", 7600), ms(5000))
    out.take()
    assert called_at(5500) == (True, ms(1000)), "two was heard too long ago"
    beacon.on_message(NodeId("two"), Here("127.0.0.2", 7600), ms(6000))
    out.take()
    assert called_at(6500) == (False, ms(16_000))


def test_strangers_that_call_do_not_fill_the_memory() -> None:
    async def check(driver: Driver) -> None:
        found = Discovery.attach(driver, ["127.0.0.1:7600"])
        port = driver.host.ports["election"]
        for i in range(500):
            driver.observe(port, PeerHeard(Address(f"10.0.{i // 250}.{i % 250}", 7600)), 0)
        driver.observe(port, PeerHeard(Address("a.name.that.would.be.looked.up", 7600)), 0)
        assert len(found.seeds) == 1 + HEARD_MAX and ONE in found.seeds

    running(check)


@pytest.mark.parametrize("kind", ["swim", "heartbeat"])
def test_members_find_each_other_by_multicast_and_a_late_file(kind: str, tmp_path: Path) -> None:
    flags = multicast_on_loopback()
    host, _, port = flags[flags.index("--multicast") + 1].rpartition(":")
    multicast = Address(host, int(port))

    def member(name: str, group: Address | None) -> tuple[Driver, Any]:
        udp = UdpTransport(UdpConfig(bind=Address("127.0.0.1", 0), multicast=group))
        driver = Driver(NodeId(name), Incarnation(1), Codec(f"find {kind}"), udp)
        return driver, udp

    async def main() -> None:
        drivers, machines = [], []
        path = tmp_path / "seeds"
        for i, name in enumerate(("a", "b", "c")):
            driver, udp = member(name, multicast if name != "c" else None)
            await driver.open()
            options: Any = {"incarnation": 1, "address": udp.address}

            def build(port: Any, name: str = name, options: Any = options, i: int = i) -> Any:
                if kind == "swim":
                    return Swim(NodeId(name), SwimConfig(), port, Random(i), **options)
                return Heartbeat(NodeId(name), HeartbeatConfig(), port, Random(i), **options)

            machines.append(driver.add("membership", build))
            if name != "c":
                driver.add(
                    "discovery", lambda port, n=name, a=udp.address: Beacon(NodeId(n), a, DiscoveryConfig(), port)
                )
            await driver.start()
            Discovery.attach(driver, file=path if name == "c" else None, config=SOON)
            drivers.append(driver)
        await until(lambda: all(len(machine.view) == 2 for machine in machines[:2]))
        path.write_text(str(drivers[0].transport.address))
        await until(lambda: all(len(machine.view) == 3 for machine in machines))
        for driver in drivers:
            driver.close()

    asyncio.run(main())


def test_what_was_added_by_hand_outlives_every_refresh(tmp_path: Path) -> None:
    file = tmp_path / "seeds"
    file.write_text("127.0.0.1:7600\n")

    async def check(driver: Driver) -> None:
        found = Discovery.attach(
            driver, ["orders.local:7600"], file=file, config=SOON, lookup=lambda host, port, family: ["127.0.0.2"]
        )
        await until(lambda: set(found.seeds) == {ONE, TWO})
        found.add(["127.0.0.3:7600"])
        assert set(found.seeds) == {ONE, TWO, THREE}
        file.write_text("# nobody\n")
        await until(lambda: ONE not in found.seeds)
        assert set(driver.addresses.seeds) == {TWO, THREE}
        found.add(["late.local:7600"])
        assert found.sought == ("late.local:7600",)
        for nonsense in ("[::1]:7600", "127.0.0.1:0"):
            with pytest.raises(ConfigError, match=r"needs a port|IP versions"):
                found.add([nonsense])
        assert set(driver.addresses.seeds) == {TWO, THREE}

    running(check)


def test_a_pipe_is_no_seeds_file_and_nobody_waits_for_its_writer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(tmp_path / "seeds")
    caplog.set_level(logging.WARNING, logger="doyen")

    async def check(driver: Driver) -> None:
        assert Discovery.attach(driver, [], file=tmp_path / "seeds", config=SOON).seeds == ()

    def hangs(number: int, frame: object) -> None:
        raise AssertionError("the node waits for a writer")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(20)
    try:
        running(check)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert f"seeds file {tmp_path / 'seeds'}: is no regular file; going on with those known" in caplog.text
