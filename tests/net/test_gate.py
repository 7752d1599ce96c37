"""How much of a node's time one source gets."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from test_bad_input import NoSocket

from doyen.core.clock import seconds
from doyen.core.ids import Address, NodeId
from doyen.net import gate as gate_module
from doyen.net.address_book import AddressBook
from doyen.net.echoes import Echoes
from doyen.net.gate import HEARD_PER_S, SPENT_PER_S, Gate
from doyen.net.keys import CLEAR, Keyring
from doyen.net.sealed import Seal
from doyen.net.udp import UdpConfig

EVE, MEMBER = Address("10.0.0.1", 1), Address("10.0.0.2", 2)
KEY = bytes(range(32))


class Times:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000
        self.used = 1000.0
        monkeypatch.setattr(gate_module, "thread_time", lambda: self.used)


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Times:
    return Times(monkeypatch)


def made(times: Times, keys: list[bytes] | None = None) -> Gate:
    echoes = Echoes(AddressBook(NodeId("me")), lambda: 0.0, Random(1), lambda data, to: None)
    seal = None if keys is None else Seal(Keyring(keys), "group")
    transport: Any = NoSocket(UdpConfig())
    return Gate(transport, seal, echoes, Counter(), datagram_max=1400, clock=lambda: seconds(times.now))


def handle(gate: Gate, source: Address, times: Times, cost_s: float) -> bool:
    if gate.is_flooded_by(source):
        return False
    gate.begin(source)
    times.used += cost_s
    gate.end()
    return True


def test_a_source_in_the_clear_is_read_some_hundred_times_a_second_and_others_always(times: Times) -> None:
    gate = made(times)
    for _ in range(3):
        times.now += 1
        heard = sum(handle(gate, EVE, times, 0) for _ in range(50_000))
        assert heard == HEARD_PER_S
        assert handle(gate, MEMBER, times, 0)


def test_a_source_whose_datagrams_take_long_is_read_less_often(times: Times) -> None:
    gate = made(times)
    for _ in range(3):
        times.now += 1
        assert sum(handle(gate, EVE, times, 0.02) for _ in range(1000)) == SPENT_PER_S / 0.02 + 1
        assert handle(gate, MEMBER, times, 0.02)


@pytest.mark.parametrize(("keys", "limited"), [([KEY], False), ([KEY, CLEAR], True), ([CLEAR, KEY], True)])
def test_with_a_key_no_source_is_limited_as_it_may_be_forged(keys: list[bytes], limited: bool, times: Times) -> None:
    gate = made(times, keys)
    assert (sum(handle(gate, EVE, times, 0) for _ in range(2000)) < 2000) is limited


def test_what_is_for_all_goes_to_those_that_are_listed_after_this_node() -> None:
    transport: Any = NoSocket(UdpConfig())
    transport.address, sent = EVE, list[Address]()
    transport.send = lambda data, to: sent.append(to)
    echoes = Echoes(AddressBook(NodeId("me")), lambda: 0.0, Random(1), lambda data, to: None)
    gate = Gate(transport, Seal(Keyring([KEY]), "group"), echoes, Counter(), datagram_max=1400, clock=lambda: 0.0)
    gate.send_to_all(b"word", [EVE, MEMBER])
    assert sent == [MEMBER]
