"""The mesh forwards between neighbours, loses per hop, keeps tenants' counters apart, and leaves nothing behind."""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from doyen.errors import ConfigError
from doyen_lab.iproute import existing_namespaces, within
from doyen_lab.mesh import Mesh

pytestmark = [
    pytest.mark.alone,
    pytest.mark.root,
    pytest.mark.skipif(shutil.which("iptables") is None, reason="the mesh needs iptables"),
]
PORT = 7600
HEADERS = 20 + 8


def bound(host: str) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    made.bind((host, PORT))
    return made


@contextmanager
def udp_sockets(mesh: Mesh, tenant: str) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        guests = mesh.guests[tenant]
        yield [stack.enter_context(within(guest.name, partial(bound, guest.ipv4))) for guest in guests]


def heard(receiver: socket.socket, within_s: float = 0.2) -> int:
    receiver.settimeout(within_s)
    count = 0
    try:
        while True:
            receiver.recv(2000)
            count += 1
    except TimeoutError:
        return count


def test_everybody_reaches_everybody_on_shortest_ways_and_hops_count_by_tenant() -> None:
    with Mesh(3, 3, tenants=("ours", "theirs")) as mesh, udp_sockets(mesh, "ours") as sockets:
        before = [guest.counters() for guest in mesh.guests["ours"]]
        for sender in sockets:
            for guest in mesh.guests["ours"]:
                sender.sendto(b"hello", (guest.ipv4, PORT))
        assert [heard(receiver, 0.05) for receiver in sockets] == [9] * 9
        hops = mesh.hop_counters("ours")
        ways = sum(mesh.hop_count(a, b) for a in range(9) for b in range(9))
        assert mesh.hop_count(0, 8) == 4
        assert (hops.packets, hops.bytes) == (ways, ways * (HEADERS + 5))
        assert mesh.hop_counters("theirs").packets == 0
        sent = [guest.counters().since(count) for guest, count in zip(mesh.guests["ours"], before, strict=True)]
        assert {(count.tx_packets, count.tx_bytes) for count in sent} == {(8, 8 * (14 + HEADERS + 5))}  # Each once.


def test_every_hop_loses() -> None:
    with Mesh(1, 4, drop=0.1) as mesh, udp_sockets(mesh, "doyen") as sockets:
        for goal in (1, 3):
            for _ in range(1000):
                sockets[0].sendto(b"hello", (mesh.guests["doyen"][goal].ipv4, PORT))
        near, far = heard(sockets[1]), heard(sockets[3])
    assert 850 < near < 950  # 900 ± 5 sd.
    assert 655 < far < 800  # 729 ± 5 sd.


def test_a_cut_is_silent_and_may_be_of_one_direction() -> None:
    with Mesh(1, 2) as mesh, udp_sockets(mesh, "doyen") as (a, b):
        first, second = (guest.ipv4 for guest in mesh.guests["doyen"])
        mesh.cut("doyen", 1, inward=False)  # 1 hears, but is not heard.
        a.sendto(b"heard", (second, PORT))
        b.sendto(b"unheard", (first, PORT))
        assert (heard(b), heard(a)) == (1, 0)
        mesh.mend("doyen", 1, inward=False)
        b.sendto(b"heard", (first, PORT))
        assert heard(a) == 1
        mesh.cut("doyen", 1)
        a.sendto(b"unheard", (second, PORT))  # No error: nobody tells the sender.
        b.sendto(b"unheard", (first, PORT))
        assert (heard(b), heard(a)) == (0, 0)


def test_namespaces_are_distinct_and_gone_after_an_exception() -> None:
    mesh = Mesh(2, 2, tenants=("ours", "theirs"))

    def make_and_fail() -> None:
        with mesh:
            guests = [guest for guests in mesh.guests.values() for guest in guests]
            assert len({guest.inode for guest in guests} | {os.stat("/proc/self/ns/net").st_ino}) == 9
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        make_and_fail()
    made = {*mesh.routers, *(guest.name for guests in mesh.guests.values() for guest in guests)}
    assert not made & set(existing_namespaces())


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"rows": 0}, "no grid"),
        ({"rows": 9, "columns": 9}, "64"),
        ({"drop": 1.0}, "drop"),
        ({"tenants": ()}, "tenants"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Mesh(**given)  # type: ignore[arg-type]
