"""The address that a node gives others where it listens everywhere."""

import socket
import sys

import pytest

from doyen.net import own_address as module
from doyen.net.own_address import is_loopback, is_wildcard, own_address, own_addresses

FOUR, SIX = socket.AF_INET, socket.AF_INET6


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A machine whose default route is by 10.0.0.1, and that reaches 192.168.7.0/24 by another interface."""
    addresses = ["172.17.0.1", "10.0.0.1", "192.168.7.1"]

    def towards(host: str) -> str | None:
        if host.startswith("127."):
            return "127.0.0.1"
        return "192.168.7.1" if host.startswith("192.168.7.") else "10.0.0.1"

    monkeypatch.setattr(module, "own_addresses", lambda family, **_: addresses)
    monkeypatch.setattr(module, "address_towards", towards)
    return addresses


def test_the_way_to_the_seeds_decides_then_the_way_to_everywhere(machine: list[str]) -> None:
    assert own_address(FOUR, ["192.168.7.9"]) == "192.168.7.1"
    assert own_address(FOUR, ["127.0.0.1", "192.168.7.9"]) == "192.168.7.1"
    assert own_address(FOUR, ["127.0.0.1"]) == "127.0.0.1"
    assert own_address(FOUR) == "10.0.0.1"


def test_where_no_way_leads_anywhere_the_first_interface_will_do(
    machine: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "address_towards", lambda host: None)
    assert own_address(FOUR, ["192.168.7.9"]) == "172.17.0.1"
    machine.clear()
    assert own_address(FOUR) == "127.0.0.1"
    assert own_address(SIX) == "::1"


def test_an_interface_that_was_named_counts_for_more_than_the_way(
    machine: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "own_addresses", lambda family, interface, **_: machine[:1] if interface else machine)
    assert own_address(FOUR, ["239.192.0.1"], interface="docker0") == "172.17.0.1"


@pytest.mark.parametrize("family", [FOUR, SIX])
def test_addresses_of_this_machine_can_be_bound_and_are_of_use_to_others(family: socket.AddressFamily) -> None:
    for host in own_addresses(family):
        assert not is_loopback(host) and not is_wildcard(host) and not host.startswith("fe80")
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))


def test_interfaces_without_use_hide_none_that_come_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    up, loopback = 0x1 | 0x1000, 0x8
    flags = {"lo": up | loopback, "down": 0, "bare": up, "eth0": up, "eth1": up}

    def ioctl(asking: socket.socket, what: int, asked: bytes) -> bytes:
        name = asked.rstrip(b"\0").decode()
        if what == 0x8913:
            return bytes(16) + flags[name].to_bytes(2, sys.byteorder) + bytes(238)
        if name == "bare":
            raise OSError(99, "no address")
        return bytes(20) + bytes([10, 0, 0, int(name[-1])]) + bytes(232)

    monkeypatch.setattr(socket, "if_nameindex", lambda: list(enumerate(flags)))
    monkeypatch.setattr(module, "ioctl", ioctl)
    assert own_addresses(FOUR) == own_addresses(FOUR, multicast=True) == ["10.0.0.0", "10.0.0.1"]
    assert own_addresses(FOUR, interface="eth1") == ["10.0.0.1"]
