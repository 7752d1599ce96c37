"""Addresses as people write them: each that is none is refused, with what to give."""

import pytest

from doyen.core.ids import Address, has_port, node_id, parse_address
from doyen.errors import ConfigError


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", ":7600", "host", "host:", "host:x", "host:-1", "host:+1", "host:1_0", "host:65536", "host:000001"),
        *("::1:7600", "::1", "[::1]", "host:\N{ARABIC-INDIC DIGIT THREE}", "256.1.1.1:1", "1.1.1.0001:1"),
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not an address"):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10.0.0.1:7600", Address("10.0.0.1", 7600)),
        ("[::1]:65535", Address("::1", 65535)),
        ("h:00080", Address("h", 80)),
        ("host.example:0", Address("host.example", 0)),
        ("1.2.3.4.5:1", Address("1.2.3.4.5", 1)),
        ("255.0.0.0:1", Address("255.0.0.0", 1)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, found: Address) -> None:
    assert parse_address(text) == found


def test_the_port_may_be_left_out_where_there_is_a_usual_one() -> None:
    assert parse_address("host", default_port=9) == Address("host", 9) == parse_address("host:9", default_port=7)
    assert parse_address("[::1]", default_port=9) == Address("::1", 9)
    with pytest.raises(ConfigError):
        parse_address("::1", default_port=9)


@pytest.mark.parametrize(
    "host", ["a.b.c.d", "1.2.3.x", "x.2.3.4", "1.2.3.\N{ARABIC-INDIC DIGIT THREE}", "1.2.3.", "9999.a.b.c"]
)
def test_a_name_of_four_parts_is_a_name(host: str) -> None:
    assert parse_address(f"{host}:1") == Address(host, 1)


@pytest.mark.parametrize(
    ("text", "named"), [("h:1", True), ("h", False), ("[::1]:1", True), ("[::1]", False), ("1.2.3.4", False)]
)
def test_whether_a_port_was_given(text: str, named: bool) -> None:
    assert has_port(text) is named


@pytest.mark.parametrize("name", ["", " a", "a ", "a\n", "x" * 65, "é" * 33])
def test_what_can_be_no_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a member's name: give 1 to 64"):
        node_id(name)


@pytest.mark.parametrize("name", ["a", "a b", "x" * 64, "é" * 32])
def test_a_name_is_a_text_of_some_bytes(name: str) -> None:
    assert node_id(name) == name
