"""Datagrams on real loopback sockets, and what a transport refuses before a socket sees it."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from doyen.core.ids import Address
from doyen.errors import ConfigError, TransportError
from doyen.net.udp import UdpConfig, UdpTransport

GROUP = Address("239.192.77.1", 27_601)


class Ear:
    """Collects what is heard, and waits for it."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[tuple[bytes, Address]] = asyncio.Queue()

    def __call__(self, data: bytes, source: Address) -> None:
        self.queue.put_nowait((data, source))

    async def next(self) -> tuple[bytes, Address]:
        async with asyncio.timeout(5):
            return await self.queue.get()


@asynccontextmanager
async def opened(**config: object) -> AsyncIterator[tuple[UdpTransport, Ear]]:
    ear = Ear()
    transport = UdpTransport(UdpConfig(**config))  # type: ignore[arg-type]
    await transport.open(ear)
    try:
        yield transport, ear
    finally:
        transport.close()
        await asyncio.sleep(0)  # asyncio closes its sockets one turn later.


def test_a_datagram_arrives_with_the_address_to_answer_to() -> None:
    async def main() -> None:
        async with opened() as (a, heard_by_a), opened() as (b, heard_by_b):
            a.send(b"hello", b.address)
            assert await heard_by_b.next() == (b"hello", a.address)
            b.send(b"and back", a.address)
            assert await heard_by_a.next() == (b"and back", b.address)
            assert (a.sent_count, a.sent_bytes, a.refused_count) == (1, 5, 0)

    asyncio.run(main())


def test_what_waits_in_the_socket_is_heard_before_a_deadline_is_taken_for_missed() -> None:
    async def main() -> None:
        async with opened() as (a, heard):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
                for i in range(5):
                    other.sendto(bytes([i]), (a.address.host, a.address.port))
            due: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(0, lambda: due.set_result(heard.queue.qsize()))
            assert await due == 5

    asyncio.run(main())


def test_a_transport_that_is_closed_by_what_it_hears_hears_no_more() -> None:
    async def main() -> None:
        transport = UdpTransport(UdpConfig())
        heard: list[bytes] = []

        def hear(data: bytes, source: Address) -> None:
            heard.append(data)
            transport.close()

        await transport.open(hear)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            for i in range(3):
                other.sendto(bytes([i]), (transport.address.host, transport.address.port))
        for _ in range(3):
            await asyncio.sleep(0)
        assert heard == [b"\0"]

    asyncio.run(main())


def test_a_multicast_reaches_all_and_names_its_sender() -> None:
    async def main() -> None:
        async with opened(multicast=GROUP) as (a, heard_by_a), opened(multicast=GROUP) as (_, heard_by_b):
            a.multicast(b"all")
            assert await heard_by_b.next() == (b"all", a.address)
            assert await heard_by_a.next() == (b"all", a.address)  # Itself too: the driver knows its own.
            assert a.sent_count == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    "hostile",
    [
        Address("127.0.0.1", 0),
        Address("127.0.0.1", 70_000),
        Address("127.0.0.1", -1),
        Address("::1", 7600),
        Address("fe80::1%nowhere", 7600),
        Address("localhost", 7600),
        Address("no.such.name.invalid", 7600),
        Address("a..b", 7600),
        Address("x" * 500, 7600),
        Address("nul\0byte", 7600),
        Address("", 7600),
        Address("\udcff", 7600),
    ],
    ids=repr,
)
def test_an_address_of_no_use_is_counted_and_the_socket_lives_on(hostile: Address) -> None:
    async def main() -> None:
        async with opened() as (a, _), opened() as (b, heard_by_b):
            a.send(b"lost", hostile)
            assert (a.refused_count, a.sent_count) == (1, 0)
            a.send(b"found", b.address)
            assert (await heard_by_b.next())[0] == b"found"

    asyncio.run(main())


def test_nobody_listening_is_loss_not_an_error() -> None:
    async def main() -> None:
        async with opened() as (a, _), opened() as (c, heard_by_c):
            async with opened() as (b, _):
                gone = b.address
            for _ in range(3):
                a.send(b"anybody?", gone)
            a.send(b"you?", c.address)
            assert (await heard_by_c.next())[0] == b"you?"

    asyncio.run(main())


def test_what_the_kernel_refuses_is_counted_as_loss() -> None:
    async def main() -> None:
        async with opened() as (a, _), opened() as (b, heard_by_b):
            a.send(b"x" * 65_508, b.address)  # One more than UDP can carry.
            assert a.refused_count == 1
            a.send(b"x" * 65_507, b.address)
            assert len((await heard_by_b.next())[0]) == 65_507

    asyncio.run(main())


def test_a_closed_transport_drops_what_is_said_late() -> None:
    async def main() -> None:
        async with opened() as (a, _), opened() as (b, _):
            b.close()
            b.send(b"late", a.address)
            assert b.sent_count == 0

    asyncio.run(main())


def test_a_taken_port_is_a_clear_error_and_leaves_no_socket_behind() -> None:
    async def main() -> None:
        async with opened() as (a, _):
            with pytest.raises(TransportError, match="the port is taken: choose another"):
                async with opened(bind=a.address):
                    pass

    asyncio.run(main())


def test_where_another_port_will_do_the_given_one_comes_first_then_the_second_then_any() -> None:
    async def main() -> None:
        async with opened() as (first, _), opened() as (second, _):
            ports = first.address.port, second.address.port
            given = {"bind": first.address, "else_port": second.address.port, "else_any": True}
            async with opened(**given) as (third, _):
                assert third.address.port not in (0, *ports)
            second.close()
            await asyncio.sleep(0)
            async with opened(**given) as (third, _):
                assert third.address == second.address
            first.close()
            await asyncio.sleep(0)
            async with opened(**given) as (third, _):
                assert third.address == first.address

    asyncio.run(main())


def test_any_port_is_one_that_tcp_has_free_too_even_where_the_first_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """`leaderlink` listens there."""
    free: list[int] = []  # What TCP had to offer.
    tried: list[int] = []

    class Crowded(socket.socket):
        def bind(self, address: Any) -> None:
            if self.type == socket.SOCK_STREAM:
                super().bind(address)
                free.append(self.getsockname()[1])
                return
            tried.append(address[1])
            if len(tried) < 4:
                raise OSError(errno.EADDRINUSE, "taken")
            super().bind(address)

    async def main() -> None:
        monkeypatch.setattr(socket, "socket", Crowded)
        async with opened() as (transport, _):
            assert transport.address.port == tried[-1]
        assert tried == free and len(free) == 4

    asyncio.run(main())


def test_without_the_kernels_list_ipv6_multicast_leaves_the_interface_to_the_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = open

    def no_list(path: Any, *arguments: Any, **options: Any) -> Any:
        if str(path) == "/proc/net/if_inet6":
            raise FileNotFoundError(path)
        return real(path, *arguments, **options)

    asked: list[tuple[int, Any]] = []

    class Noted(socket.socket):
        def setsockopt(self, level: int, option: int, value: Any, *more: Any) -> None:  # type: ignore[override]
            if option == socket.IPV6_MULTICAST_IF and level == socket.IPPROTO_IPV6:
                asked.append((option, value))
            super().setsockopt(level, option, value, *more)

    async def main() -> None:
        monkeypatch.setattr("builtins.open", no_list)
        monkeypatch.setattr(socket, "socket", Noted)
        with suppress(TransportError):  # The system may have no route for it, and says so.
            async with opened(bind=Address("::1", 0), multicast=Address("ff02::4242", 47123)):
                pass

    asyncio.run(main())
    assert asked == [(socket.IPV6_MULTICAST_IF, 0)]


def test_an_address_of_another_machine_is_a_clear_error() -> None:
    async def main() -> None:
        with pytest.raises(TransportError, match="no such address"):
            async with opened(bind=Address("192.0.2.250", 0)):
                pass

    asyncio.run(main())


def test_ipv6_multicast_on_loopback_is_refused_at_the_start_instead_of_being_lonely() -> None:
    async def main() -> None:
        with pytest.raises(TransportError, match="no IPv6 multicast on loopback"):
            async with opened(bind=Address("::1", 0), multicast=Address("ff12::d0", 27_602)):
                pass

    asyncio.run(main())


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"bind": Address("host.example", 0)}, "bind 'host.example' is not a numeric"),
        ({"bind": Address("239.1.2.3", 0)}, "bind 239.1.2.3 is a multicast address"),
        ({"multicast": Address("10.0.0.1", 7600)}, "multicast 10.0.0.1 is not a multicast address"),
        ({"multicast": Address("ff12::1", 7600)}, "multicast ff12::1 and bind 127.0.0.1 are of different IP versions"),
        ({"multicast": Address("239.1.2.3", 0)}, "multicast 239.1.2.3:0 needs a port"),
        ({"ttl": 256}, "ttl 256 is out of range"),
        ({"interface": "lo"}, "interface 'lo' is for multicast: give multicast too"),
    ],
)
def test_a_configuration_that_cannot_work_names_its_field(config: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        UdpConfig(**config)  # type: ignore[arg-type]
    assert str(raised.value).startswith(complaint)


@pytest.mark.parametrize(
    ("peer", "complaint"),
    [
        (Address("host.example", 7600), "seed 'host.example' is not a numeric"),
        (Address("::1", 7600), "seed [::1]:7600 and bind 127.0.0.1 are of different IP versions"),
        (Address("127.0.0.1", 0), "seed 127.0.0.1:0 needs a port"),
    ],
)
def test_a_peer_that_can_never_be_reached_is_refused_before_the_start(peer: Address, complaint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        UdpConfig().check_peer(peer)
    assert str(raised.value).startswith(complaint)
    UdpConfig().check_peer(Address("127.0.0.1", 7600))


def test_a_node_bound_to_all_of_ipv6_speaks_ipv4_too_and_knows_each_address_by_one_text() -> None:
    heard: list[tuple[bytes, Address]] = []

    async def main() -> tuple[Address, Address]:
        both = UdpTransport(UdpConfig(bind=Address("::", 0)))
        four, six = (UdpTransport(UdpConfig(bind=Address(host, 0))) for host in ("127.0.0.1", "::1"))
        back: list[tuple[bytes, Address]] = []
        await both.open(lambda data, source: heard.append((data, source)))
        for one in (four, six):
            await one.open(lambda data, source: back.append((data, source)))
            one.send(b"hello", Address(one.address.host, both.address.port))
        async with asyncio.timeout(10):
            while len(heard) < 2:
                await asyncio.sleep(0.005)
            for data, source in heard:
                both.send(data + b" too", source)
            while len(back) < 2:
                await asyncio.sleep(0.005)
        assert {data for data, _ in back} == {b"hello too"}
        places = four.address, six.address
        for one in (both, four, six):
            one.close()
        return places

    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6 on loopback")
    places = asyncio.run(main())
    assert {source for _, source in heard} == {*places}


def test_only_a_node_that_speaks_both_takes_seeds_of_either_ip_version() -> None:
    four, six = Address("10.0.0.1", 7600), Address("2001:db8::1", 7600)
    both = UdpConfig(bind=Address("::", 0))
    both.check_peer(four)
    both.check_peer(six)
    for bind, wrong in (("0.0.0.0", six), ("127.0.0.1", six), ("::1", four)):
        with pytest.raises(ConfigError, match="different IP versions"):
            UdpConfig(bind=Address(bind, 0)).check_peer(wrong)
    with pytest.raises(ConfigError, match="different IP versions"):
        UdpConfig(bind=Address("::", 0), multicast=Address("ff02::1:5", 7600)).check_peer(four)
