"""Metrics in both formats, read by the readers that Prometheus' own library has."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from doyen.core.clock import ms, seconds
from doyen.node.histogram import BOUNDS, Histogram
from doyen.node.metrics import OPENMETRICS, TEXT, Page, accepted_type, number, resident_bytes

READERS = {True: read_openmetrics, False: read_text}


@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=40),
    st.floats(allow_nan=False),
    st.booleans(),
)
def test_any_label_and_any_value_read_back(label: str, value: float, openmetrics: bool) -> None:
    page = Page({"group": label}, openmetrics=openmetrics)
    page.add("doyen_thing", "gauge", "A thing.", ({"name": label, "other": "x"}, value), ({}, 1))
    (family,) = READERS[openmetrics](page.text())
    assert family.documentation == "A thing." and family.type == "gauge"
    labels = {"group": label, "name": label, "other": "x"}
    assert [(s.labels, s.value) for s in family.samples] == [(labels, value), ({"group": label}, 1)]


@pytest.mark.parametrize("openmetrics", [True, False])
def test_counters_and_histograms_have_the_same_samples_in_both_formats(openmetrics: bool) -> None:
    histogram = Histogram()
    for duration in (0, ms(10), ms(11), seconds(59), seconds(61)):
        histogram.observe(duration)
    page = Page({"group": "web"}, openmetrics=openmetrics)
    page.add("doyen_things_total", "counter", "Things.", ({}, 3))
    page.add_histograms("doyen_wait_seconds", "Waits.", ({"election": ""}, histogram))
    counter, found = READERS[openmetrics](page.text())
    assert (counter.name, counter.type) == ("doyen_things", "counter") and found.type == "histogram"
    assert [(s.name, s.labels, s.value) for s in counter.samples] == [("doyen_things_total", {"group": "web"}, 3)]
    values = {s.labels.get("le", s.name): s.value for s in found.samples}
    assert (values["0.01"], values["0.025"], values["60.0"], values["+Inf"]) == (2, 3, 4, 5)
    assert values["doyen_wait_seconds_count"] == 5
    assert values["doyen_wait_seconds_sum"] == pytest.approx(120.021)


def test_a_histogram_does_not_grow() -> None:
    histogram = Histogram()
    for duration in range(0, seconds(100), ms(50)):
        histogram.observe(duration)
    assert len(histogram.cumulated()) == len(BOUNDS) + 1 and histogram.count == 2000


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/plain", TEXT),
        ("application/openmetrics-text", OPENMETRICS),
        ("application/openmetrics-text; version=2.5.0", TEXT),
        ("text/plain, application/openmetrics-text;q=0.5", TEXT),
        ("application/openmetrics-text;q=0", TEXT),
        ("application/openmetrics-text;q=x", TEXT),
        # As Prometheus 2.42 and 3.5 ask.
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
            "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            OPENMETRICS,
        ),
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
            "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
            "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            OPENMETRICS,
        ),
    ],
)
def test_a_client_gets_the_format_that_it_accepts(accept: str, expected: str) -> None:
    assert accepted_type(accept) == expected


def test_counters_count_in_whole_numbers() -> None:
    assert (number(3.0), number(True), number(2.5), number(2.0**60)) == ("3", "1", "2.5", "1.152921504606847e+18")
    assert math.isinf(float(number(math.inf)))


def test_memory_in_use_is_of_this_process() -> None:
    assert 5e6 < resident_bytes() < 5e9
