"""Durations as people and programs write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doyen.core.clock import FOREVER, at_most, format_duration, ms, parse_duration
from doyen.errors import ConfigError


@given(st.floats(0, 1e9))
def test_seconds_given_as_a_float_are_read_however_small(seconds: float) -> None:
    assert abs(parse_duration(seconds) - seconds * 1e9) <= max(1, seconds)


def test_a_float_with_an_exponent_is_a_number_of_seconds() -> None:
    assert (parse_duration(5e-05), parse_duration(1e-9), parse_duration(float("inf"))) == (50_000, 1, FOREVER)


@given(st.integers(0, FOREVER // 2))
def test_what_is_printed_reads_back(duration: int) -> None:
    assert abs(parse_duration(format_duration(duration)) - duration) <= duration / 1e9


@pytest.mark.parametrize("text", ["2h", "90min", "2min", "1.5s", "90s", "1.25ms", "7ms", "3us", "5ns", "inf"])
def test_a_duration_is_printed_as_a_person_would_write_it(text: str) -> None:
    assert format_duration(parse_duration(text)) == text


@pytest.mark.parametrize("text", ["soon", "", "5 parsecs", "-1s", "1e400s", "999999999999h", f"{FOREVER}ns"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        *(
            ("1ns", 1),
            ("1us", 10**3),
            ("1µs", 10**3),
            ("1ms", 10**6),
            ("1s", 10**9),
            ("1", 10**9),
            (" .5 s ", 5 * 10**8),
        ),
        *(("1m", 60 * 10**9), ("1min", 60 * 10**9), ("1h", 3600 * 10**9), ("forever", FOREVER)),
    ],
)
def test_every_unit_is_as_long_as_people_think(text: str, found: int) -> None:
    assert parse_duration(text) == found


@pytest.mark.parametrize(("duration", "text"), [(1, "1ms"), (ms(3), "3ms"), (ms(3) + 1, "4ms"), (FOREVER, "inf")])
def test_a_bound_is_in_whole_milliseconds_and_never_below_what_it_is(duration: int, text: str) -> None:
    assert at_most(duration) == text
