"""What a node measures of itself, and the standing that follows from it."""

from pathlib import Path

import pytest

from doyen.core.ids import NodeId
from doyen.errors import ConfigError
from doyen.score.oracles import Oracle, Part
from doyen.score.pingpong import RATE_MAX, Ping, Pong
from doyen.score.probes import (
    Rating,
    Unmeasured,
    battery_share,
    cpu_capacity_ghz,
    fixed,
    load_per_core,
    memory_free_gib,
)
from doyen.score.rating import own_quality, rating_of
from doyen.score.topsis import Attribute
from doyen.score.vectors import Scorer
from doyen_papers.score.graph import closeness, degree, eccentricity, regions

LINE = {"a": ["b"], "b": ["a", "c"], "c": ["b"], "x": ["y"], "y": ["x"], "z": []}


def test_closeness_and_eccentricity_are_of_the_region() -> None:
    assert closeness(LINE, "b") == 1.0
    assert closeness(LINE, "a") == 2 / 3
    assert closeness(LINE, "x") == closeness(LINE, "z") == 1.0
    assert (eccentricity(LINE, "a"), eccentricity(LINE, "b"), eccentricity(LINE, "z")) == (2, 1, 0)
    assert (degree(LINE, "b"), degree(LINE, "z"), degree(LINE, "unknown")) == (2, 0, 0)


def test_the_kernels_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor : 0\ncpu MHz\t\t: 2100.5\nprocessor : 1\ncpu MHz : 3300\n")
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   2097152 kB\n")
    assert cpu_capacity_ghz(tmp_path) == 3.3
    assert memory_free_gib(tmp_path) == 2.0
    (tmp_path / "BAT0").mkdir()
    (tmp_path / "BAT0" / "capacity").write_text("40\n")
    assert battery_share(tmp_path) == 0.4
    assert battery_share(tmp_path / "none") == 1.0
    with pytest.raises(Unmeasured):
        cpu_capacity_ghz(tmp_path / "none")
    with pytest.raises(Unmeasured):
        memory_free_gib(tmp_path / "none")


def test_a_rating_joins_probes_and_bounds_to_a_standing() -> None:
    attributes = [
        Attribute(name="security", min=0, max=10, weight=0.5),
        Attribute(name="failures", min=0, max=2, weight=0.5, kind="cost"),
    ]

    def unmeasured() -> float:
        raise Unmeasured("nothing was watched yet")

    rating = Rating(attributes, {"security": fixed(10), "failures": unmeasured})
    values, missing = rating.measure()
    assert (values, missing) == ({"security": 10.0, "failures": 2.0}, ("failures",))  # Unmeasured counts as the worst.
    worse = rating()
    rating.probes["failures"] = fixed(0)
    assert rating() > worse
    rating.probes["security"] = lambda: float("nan")
    assert rating.measure()[1] == ("security",)
    rating.probes["security"] = lambda: 1 / 0  # A probe's mistake costs no election.
    assert rating.measure()[1] == ("security",)
    with pytest.raises(ConfigError, match="'failures' has no probe"):
        Rating(attributes, {"security": fixed(1)})


def test_regions_are_who_can_reach_whom_from_the_lowest_name() -> None:
    graph = {"10": ["2"], "2": ["10"], "3": [], "1": ["4"], "4": ["1"]}
    assert regions(graph) == [["1", "4"], ["2", "10"], ["3"]]


def test_a_line_that_is_no_number_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("cpu MHz : 1000\ncpu MHz : unknown\ncpu MHz :\ncpu MHz : 2500\n")
    assert cpu_capacity_ghz(tmp_path) == 2.5


def test_the_load_is_for_each_core(tmp_path: Path) -> None:
    with pytest.raises(Unmeasured):
        load_per_core(tmp_path)
    (tmp_path / "loadavg").write_text("3.0 9 9 1/2 3\n")
    assert load_per_core(tmp_path) == 3.0  # No core is named.
    (tmp_path / "cpuinfo").write_text("processor : 0\nprocessor : 1\n")
    assert load_per_core(tmp_path) == 1.5
    (tmp_path / "loadavg").write_text("")
    with pytest.raises(Unmeasured):
        load_per_core(tmp_path)


def test_the_fullest_battery_counts_and_one_that_tells_nothing_is_passed_over(tmp_path: Path) -> None:
    for name, text in (("BAT0", "30"), ("BAT1", "?"), ("BAT2", "70")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "capacity").write_text(text)
    assert battery_share(tmp_path) == 0.7


def test_a_rating_is_made_of_attributes_and_measures_as_text() -> None:
    rating = rating_of(("security:0:10:0.5", "failures:0:2:0.5:cost"), ("security=10", "failures=0"))
    assert rating.measure() == ({"security": 10.0, "failures": 0.0}, ())
    assert own_quality(rating) == pytest.approx(rating(), abs=0.00501) == round(own_quality(rating), 2)
    assert {a.name for a in rating_of((), ()).attributes} == {"cpu", "memory", "load", "battery"}
    assert rating_of((), ("battery=0.5",)).measure()[0]["battery"] == 0.5  # In the place of the probe.


@pytest.mark.parametrize(
    ("attributes", "measures", "complaint"),
    [
        (("cpu:0:6:1",), ("memory=4",), "'memory' is no attribute: one of cpu"),
        (("security:0:10:1",), (), "'security' cannot be measured here"),
        (("cpu:0:6:0.5", "memory:0:64:0.25"), (), "weights"),
    ],
)
def test_what_makes_no_rating_is_refused(
    attributes: tuple[str, ...], measures: tuple[str, ...], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        rating_of(attributes, measures)


def test_a_probe_that_fails_is_logged_and_one_that_cannot_measure_is_not(caplog: pytest.LogCaptureFixture) -> None:
    attribute = Attribute(name="x", min=0, max=1, weight=1)

    def unmeasured() -> float:
        raise Unmeasured("not yet")

    Rating([attribute], {"x": unmeasured}).measure()
    assert caplog.records == []
    Rating([attribute], {"x": lambda: 1 / 0}).measure()
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_range_that_no_number_measures_is_refused() -> None:
    with pytest.raises(ConfigError, match="too far from max"):
        Attribute(name="x", min=-1.7e308, max=1.7e308, weight=1)


@pytest.mark.parametrize("kind", [Ping, Pong])
@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf"), 1e13])
def test_a_wild_rate_is_no_message(kind: type, rate: float) -> None:
    assert kind(1, 0.0) and kind(1, 3.0) and kind(1, RATE_MAX)
    with pytest.raises(ValueError, match="rate"):
        kind(1, rate)


def test_a_scorer_gives_what_its_oracle_gives_and_nothing_while_that_is_nothing() -> None:
    me = NodeId("me")

    def scored(value: float | None) -> object:
        return Scorer(Oracle("own", (Part(lambda situation: value, True),)), me, (me,))(1, None)

    assert scored(4.0) == (4.0,) and scored(None) is None
