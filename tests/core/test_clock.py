"""Durations as people and programs write them."""

from hypothesis import given
from hypothesis import strategies as st

from doyen.core.clock import FOREVER, format_duration, parse_duration


@given(st.floats(0, 1e9))
def test_seconds_given_as_a_float_are_read_however_small(seconds: float) -> None:
    assert abs(parse_duration(seconds) - seconds * 1e9) <= max(1, seconds)


def test_a_float_with_an_exponent_is_a_number_of_seconds() -> None:
    assert (parse_duration(5e-05), parse_duration(1e-9), parse_duration(float("inf"))) == (50_000, 1, FOREVER)


@given(st.integers(0, FOREVER // 2))
def test_what_is_printed_reads_back(duration: int) -> None:
    assert abs(parse_duration(format_duration(duration)) - duration) <= duration / 1e9
