"""Namespaces are made whole, keep to themselves, and are gone afterwards, whatever happened."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from doyen.errors import ConfigError, TransportError
from doyen_lab import netns
from doyen_lab.netns import Namespaces, remove_leftovers

pytestmark = [pytest.mark.live, pytest.mark.root]
NETNS = Path("/run/netns")


def existing() -> set[str]:
    return set(os.listdir(NETNS)) if NETNS.exists() else set()


def names(network: Namespaces) -> set[str]:
    return {network.switch, *(node.name for node in network.nodes)}


def ours(pid: int) -> set[str]:
    return {name for name in existing() if name.startswith(f"doyen{pid}-")}


def test_namespaces_are_distinct_and_removed_also_after_an_exception() -> None:
    outside = _ip("-br", "link")

    def make_and_fail(network: Namespaces) -> None:
        with network:
            assert names(network) <= existing()
            assert len({node.inode for node in network.nodes} | {os.stat("/proc/self/ns/net").st_ino}) == 4
            assert _ip("-br", "link") == outside  # Nothing is added to our own network.
            raise ZeroDivisionError

    network = Namespaces(3)
    with pytest.raises(ZeroDivisionError):
        make_and_fail(network)
    assert not names(network) & existing()


def test_nothing_is_routed_out_of_a_namespace() -> None:
    with Namespaces(1) as network:
        (node,) = network.nodes
        routes = _ip("-n", node.name, "route") + _ip("-n", node.name, "-6", "route")
        assert routes
        assert not any("default" in route or " via " in route for route in routes)


def test_counters_are_of_one_namespace_and_count_a_frame_whole() -> None:
    say = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('{}', 0)); "
    say += "s.setsockopt(0, socket.IP_MULTICAST_IF, socket.inet_aton('{}')); s.sendto(bytes(1200), ('239.192.0.9', 9))"
    with Namespaces(2) as network:
        a, b = network.nodes
        before = a.counters(), b.counters()
        subprocess.run([*a.wrap, sys.executable, "-c", say.format(a.ipv4, a.ipv4)], check=True)
        sent, other = a.counters().since(before[0]), b.counters().since(before[1])
    frame = 14 + 20 + 8 + 1200
    assert frame <= sent.tx_bytes < 2 * frame  # The kernel's own MLD reports are still about: under 100 bytes each.
    assert frame <= other.rx_bytes < 2 * frame
    assert other.tx_bytes < frame


def test_what_a_killed_process_left_is_removed_by_the_next() -> None:
    code = "import doyen_lab.netns as n, time\nwith n.Namespaces(2):\n    print('made', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"made\n"
        assert len(ours(process.pid)) == 3
        assert not ours(process.pid) & set(remove_leftovers())  # It lives: hands off.
        process.kill()
    assert ours(process.pid) <= set(remove_leftovers())
    assert not ours(process.pid)


def test_ctrl_c_removes_them() -> None:
    code = "import doyen_lab.netns as n, time\nwith n.Namespaces(2):\n    print('made', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"made\n"
        process.send_signal(signal.SIGINT)
        process.wait(10)
    assert not ours(process.pid)


def test_without_root_there_is_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netns.os, "geteuid", lambda: 1000)
    with pytest.raises(TransportError, match="need root: run this as root, or with sudo"), Namespaces(1):
        pass


def test_without_iproute_there_is_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(TransportError, match="install iproute2"), Namespaces(1):
        pass


@pytest.mark.parametrize("node_count", [0, 251])
def test_too_few_or_too_many_are_refused(node_count: int) -> None:
    with pytest.raises(ConfigError, match="nodes"):
        Namespaces(node_count)


def _ip(*arguments: str) -> list[str]:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()
