"""The switch does to packets what it is told, counts it, and leaves nothing behind."""

import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from doyen.core.clock import ms
from doyen.errors import ConfigError, LocalProtocolError, TransportError
from doyen_lab import iproute
from doyen_lab.graph import grid
from doyen_lab.iproute import existing_namespaces, within
from doyen_lab.netns import Namespace
from doyen_lab.switch import Link, Switch

pytestmark = [pytest.mark.live, pytest.mark.root]
PORT = 7600
HEADERS = 20 + 8
GROUP = "239.192.0.9"


def bound(host: str) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    made.settimeout(2)
    made.bind((host, PORT))
    return made


def runs(pid: int) -> bool:
    """Also false for one that nobody has waited for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def udp_sockets(network: Switch, family: str = "ipv4") -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(within(node.name, partial(bound, getattr(node, family)))) for node in network.nodes]


def heard(receiver: socket.socket, within_s: float = 0.2) -> list[bytes]:
    """All that comes until nothing came for so long."""
    receiver.settimeout(within_s)
    found = []
    try:
        while True:
            found.append(receiver.recv(2000))
    except TimeoutError:
        return found


def delays_ms(sender: socket.socket, receiver: socket.socket, to: str, times: int = 40) -> list[float]:
    found = []
    for i in range(times):
        began = time.perf_counter()
        sender.sendto(b"%d" % i, (to, PORT))
        assert receiver.recv(100) == b"%d" % i
        found.append((time.perf_counter() - began) * 1e3)
    return found


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_a_link_delays_by_what_it_is_told_also_after_a_change(family: str) -> None:
    with Switch(2, link=Link(delay=ms(20))) as network, udp_sockets(network, family) as (a, b):
        to = getattr(network.nodes[1], family)
        first = delays_ms(a, b, to)
        network.set(0, 1, delay=ms(5))
        second = delays_ms(a, b, to)
        assert min(first) >= 20 and statistics.median(first) < 25
        assert min(second) >= 5 and statistics.median(second) < 10
        assert network.link(1, 0).delay == ms(5)


def test_jitter_is_added_to_the_delay_and_never_above_its_bound() -> None:
    with Switch(2, link=Link(delay=ms(2), jitter=ms(20))) as network, udp_sockets(network) as (a, b):
        found = delays_ms(a, b, network.nodes[1].ipv4, 60)
    assert min(found) >= 2
    assert statistics.stdev(found) > 3  # Uniform over 20 ms: 5.8.
    assert 8 < statistics.median(found) < 18


def test_losses_are_as_many_as_told_and_counted_and_the_same_for_the_same_seed() -> None:
    def run(seed: int) -> list[bytes]:
        with Switch(2, link=Link(loss=0.2), seed=seed) as network, udp_sockets(network) as (a, b):
            b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            for i in range(1000):
                a.sendto(b"%04d" % i, (network.nodes[1].ipv4, PORT))
                if i % 100 == 99:  # A device's queue holds 500 packets.
                    for _ in range(1000):
                        if network.traffic().links[0, 1].packets > i:
                            break
                        time.sleep(0.005)
            arrived = heard(b)
            there, back = (network.traffic().links[edge] for edge in ((0, 1), (1, 0)))
        assert there.packets == 1000 and there.bytes == 1000 * (HEADERS + 4)
        assert there.lost == 1000 - len(arrived)
        assert 140 < there.lost < 260  # 200 ± 5 sd.
        assert back.packets == 0
        return arrived

    first = run(seed=3)
    assert first == run(seed=3)
    assert first != run(seed=4)


def test_a_one_way_cut_silences_one_direction_only_and_is_mended() -> None:
    with Switch(2) as network, udp_sockets(network) as (a, b):
        network.cut(0, 1, both=False)
        a.sendto(b"unheard", (network.nodes[1].ipv4, PORT))
        b.sendto(b"heard", (network.nodes[0].ipv4, PORT))
        assert heard(a) == [b"heard"] and heard(b) == []
        assert network.traffic().links[0, 1].refused == 1
        network.mend(0, 1)
        a.sendto(b"again", (network.nodes[1].ipv4, PORT))
        assert heard(b) == [b"again"]


def test_a_partition_keeps_groups_apart_until_it_heals() -> None:
    with Switch(4) as network, udp_sockets(network) as sockets:

        def who_hears_0() -> list[int]:
            for node in network.nodes[1:]:
                sockets[0].sendto(b"hello", (node.ipv4, PORT))
            return [i for i in range(1, 4) if heard(sockets[i], 0.1)]

        network.partition([0, 1], [2])
        assert who_hears_0() == [1]
        network.heal()
        assert who_hears_0() == [1, 2, 3]
        network.isolate(0)
        assert who_hears_0() == []


def test_between_hosts_that_are_no_neighbours_every_hop_delays_loses_and_counts() -> None:
    with Switch(4, edges=[(0, 1), (1, 2), (2, 3)], link=Link(delay=ms(5))) as network:
        with udp_sockets(network) as sockets:
            found = delays_ms(sockets[0], sockets[3], network.nodes[3].ipv4, 10)
            assert min(found) >= 15 and statistics.median(found) < 22
            network.set(1, 2, loss=1.0)
            sockets[0].sendto(b"lost", (network.nodes[3].ipv4, PORT))
            assert heard(sockets[3]) == []
        links = network.traffic().links
        assert [links[edge].packets for edge in ((0, 1), (1, 2), (2, 3))] == [11, 11, 10]
        assert links[1, 2].lost == 1
        assert network.nodes[1].counters().rx_packets == 0  # Relaying is the switch's work.


def test_without_relaying_only_neighbours_are_reached() -> None:
    with Switch(3, edges=[(0, 1), (1, 2)], relay=False) as network, udp_sockets(network) as sockets:
        sockets[0].sendto(b"far", (network.nodes[2].ipv4, PORT))
        sockets[0].sendto(b"near", (network.nodes[1].ipv4, PORT))
        assert heard(sockets[2]) == [] and heard(sockets[1]) == [b"near"]
        assert network.traffic().unroutable == 1


def listening(node: Namespace) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((GROUP, PORT))
    made.setsockopt(0, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(GROUP) + socket.inet_aton(node.ipv4))
    return made


@pytest.mark.parametrize(
    ("ttl", "multicast", "reached"),
    [(1, True, [1, 4]), (2, True, [1, 2, 4, 5, 8]), (9, True, list(range(1, 16))), (9, False, [])],
)
def test_a_multicast_goes_as_far_as_its_ttl_and_to_each_once(ttl: int, multicast: bool, reached: list[int]) -> None:
    with Switch(16, edges=grid(4, 4), multicast=multicast) as network, ExitStack() as stack:
        ears = [stack.enter_context(within(node.name, partial(listening, node))) for node in network.nodes]
        mouth = stack.enter_context(within(network.nodes[0].name, partial(bound, network.nodes[0].ipv4)))
        mouth.setsockopt(0, socket.IP_MULTICAST_TTL, ttl)
        mouth.setsockopt(0, socket.IP_MULTICAST_IF, socket.inet_aton(network.nodes[0].ipv4))
        mouth.setsockopt(0, socket.IP_MULTICAST_LOOP, 0)
        mouth.sendto(b"all", (GROUP, PORT))
        counts = {i: len(heard(ear, 0.05)) for i, ear in enumerate(ears)}
        assert {i: n for i, n in counts.items() if n} == dict.fromkeys(reached, 1)
        assert network.traffic().packets == len(reached)


def test_tcp_runs_over_a_network_that_loses() -> None:
    serve = "import socket; s = socket.create_server(('{0}', 7700)); print('up', flush=True); c, _ = s.accept(); "
    serve += "n = 0\nwhile d := c.recv(65536): n += len(d)\nprint(n)"
    send = "import socket; s = socket.create_connection(('{0}', 7700), 5); s.sendall(bytes(100_000)); s.close()"
    with Switch(2, link=Link(delay=ms(1), loss=0.02)) as network:
        a, b = network.nodes
        command = [*b.wrap, sys.executable, "-c", serve.format(b.ipv4)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None and server.stdout.readline() == "up\n"
            subprocess.run([*a.wrap, sys.executable, "-c", send.format(b.ipv4)], check=True, timeout=20)
            assert server.communicate(timeout=20)[0] == "100000\n"
        assert network.traffic().lost > 0


def test_everything_is_gone_after_an_exception() -> None:
    network = Switch(3)
    found = []

    def make_and_fail() -> None:
        with network:
            found.append(network.pid)
            assert {node.name for node in network.nodes} <= set(existing_namespaces())
            assert len({node.inode for node in network.nodes} | {os.stat("/proc/self/ns/net").st_ino}) == 4
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        make_and_fail()
    assert not {node.name for node in network.nodes} & set(existing_namespaces())
    assert not runs(found[0])
    with pytest.raises(LocalProtocolError, match="use it in a `with`"):
        network.traffic()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_process_that_is_ended_takes_its_switch_with_it(number: int) -> None:
    code = "import time; from doyen_lab.switch import Switch\nwith Switch(2) as n:\n"
    code += "    print(n.pid, flush=True); time.sleep(60)"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        loop = int(process.stdout.readline())
        process.send_signal(number)
        process.wait(10)
    iproute.remove_leftovers()  # For SIGKILL, as the next start does.
    assert not [name for name in existing_namespaces() if name.startswith(f"doyen{process.pid}-")]
    for _ in range(100):
        if not runs(loop):
            break
        time.sleep(0.02)
    else:
        pytest.fail(f"the loop {loop} goes on")


def test_a_switch_whose_loop_has_died_says_so() -> None:
    with Switch(2) as network:
        os.kill(network.pid, signal.SIGKILL)
        with pytest.raises(TransportError, match="has ended with -9"):
            network.traffic()


def test_what_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="nodes"):
        Switch(0)
    with pytest.raises(ConfigError, match="links no two of 2 hosts"):
        Switch(2, edges=[(0, 2)])
    with pytest.raises(ConfigError, match="no chance"):
        Switch(2, link=Link(loss=1.5))
    with Switch(3, edges=[(0, 1)]) as network:
        with pytest.raises(ConfigError, match="no link between 0 and 2"):
            network.cut(0, 2)
        with pytest.raises(ConfigError, match="a link has no speed"):
            network.set(0, 1, speed=1)
        with pytest.raises(ConfigError, match="negative"):
            network.set_all(delay=-1)
    monkeypatch.setattr(iproute.os, "geteuid", lambda: 1000)
    with pytest.raises(TransportError, match="need root: run this as root, or with sudo"), Switch(1):
        pass
