"""The text format, by the reader that Prometheus' own library has."""

import math

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from doyen.node.metrics import Page, number, resident_bytes


@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=40), st.floats(allow_nan=False)
)
def test_any_label_and_any_value_read_back(label: str, value: float) -> None:
    page = Page()
    page.add("doyen_thing", "gauge", "A thing.", ({"name": label, "other": "x"}, value), ({}, 1))
    (family,) = text_string_to_metric_families(page.text())
    assert family.documentation == "A thing." and family.type == "gauge"
    assert [(s.labels, s.value) for s in family.samples] == [({"name": label, "other": "x"}, value), ({}, 1)]


def test_counters_count_in_whole_numbers() -> None:
    assert (number(3.0), number(True), number(2.5), number(2.0**60)) == ("3", "1", "2.5", "1.152921504606847e+18")
    assert math.isinf(float(number(math.inf)))


def test_memory_in_use_is_of_this_process() -> None:
    assert 5e6 < resident_bytes() < 5e9
