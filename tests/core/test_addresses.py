"""Addresses as people write them: each that is none is refused, with what to give."""

import pytest

from doyen.core.ids import Address, parse_address
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
