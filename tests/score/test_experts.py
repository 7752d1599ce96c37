"""Experts to weights: operators, quantifiers, the published weights, and what a matrix can get wrong.  [MADM]"""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from doyen.cli import app
from doyen.errors import ConfigError
from doyen_papers.score.experts import owa_weights, read_panel, weigh

PUBLISHED = {"Cc": 0.28, "Deg": 0.25, "Fr": 0.22, "CPU": 0.15, "Am": 0.10}


def expert(name: str, matrix: list[list[float]], **more: Any) -> dict[str, Any]:
    return {"name": name, "preferences": matrix, **more}


def two(p: float) -> list[list[float]]:
    return [[0.5, p], [1 - p, 0.5]]


GOOD: dict[str, Any] = {
    "attributes": ["cpu", "memory", "degree"],
    "expert": [
        expert("ann", [[0.5, 0.7, 0.9], [0.3, 0.5, 0.6], [0.1, 0.4, 0.5]]),
        expert("bob", [[0.5, 0.2, 0.5], [0.8, 0.5, 0.6], [0.5, 0.4, 0.5]], weight=3, attributes=["cpu"]),
    ],
}


def test_wa_is_the_mean_by_the_experts_weights() -> None:
    result = weigh(read_panel(GOOD, "e"))
    assert result.collective[0] == pytest.approx((0.5, (0.7 + 3 * 0.2) / 4, (0.9 + 3 * 0.5) / 4))
    assert result.dominance["cpu"] == pytest.approx((0.325 + 0.6) / 2)
    assert sum(result.weights.values()) == pytest.approx(1)
    assert list(result.weights) == ["cpu", "memory", "degree"]


def test_madm_wa_with_linear_preferences_gives_the_published_weights() -> None:
    names = list(PUBLISHED)
    matrix = [[0.5 + 2 * (PUBLISHED[i] - PUBLISHED[j]) for j in names] for i in names]
    panel = read_panel({"attributes": names, "expert": [expert(n, matrix) for n in "abcdef"]}, "e")
    assert weigh(panel).weights == pytest.approx(PUBLISHED)


def test_the_union_is_in_the_order_of_first_mention() -> None:
    data = {
        "expert": [expert("a", two(0.6), attributes=["x"]), expert("b", two(0.6), attributes=["y", "x"])],
    }
    assert read_panel(data, "e").attributes == ("x", "y")


def test_owa_weights_of_the_quantifiers() -> None:
    assert owa_weights(3, "most") == pytest.approx([1 / 15, 2 / 3, 4 / 15])
    assert owa_weights(4, "at-least-half") == pytest.approx([0.5, 0.5, 0, 0])
    assert owa_weights(4, "as-many-as-possible") == pytest.approx([0, 0, 0.5, 0.5])
    assert owa_weights(2, "most") == pytest.approx([0.4, 0.6])


def test_owa_sorts_descending_and_is_not_reciprocal() -> None:
    data = {"attributes": ["x", "y"], "expert": [expert(n, two(p)) for n, p in (("a", 0.2), ("b", 0.9), ("c", 0.5))]}
    result = weigh(read_panel(data, "e"), aggregate="owa", quantifier="most")
    assert result.collective[0][1] == pytest.approx(0.9 / 15 + 0.5 * 2 / 3 + 0.2 * 4 / 15)
    assert result.collective[1][0] == pytest.approx(0.8 / 15 + 0.5 * 2 / 3 + 0.1 * 4 / 15)
    assert result.collective[0][1] + result.collective[1][0] != pytest.approx(1)
    assert result.collective[0][0] == 0.5


def test_owa_by_explicit_weights() -> None:
    data = {"attributes": ["x", "y"], "expert": [expert("a", two(0.2)), expert("b", two(0.9))]}
    assert weigh(read_panel(data, "e"), aggregate="owa", places=[1, 0]).collective[0][1] == 0.9
    for places, says in (([1], "1 weights for 2 experts"), ([0.5, 0.4], "add up to 0.9"), ([2, -1], "place 2")):
        with pytest.raises(ConfigError, match=says):
            weigh(read_panel(data, "e"), aggregate="owa", places=places)


def test_zero_total_dominance_is_an_error() -> None:
    data = {"attributes": ["x", "y"], "expert": [expert("a", two(1.0)), expert("b", two(0.0))]}
    with pytest.raises(ConfigError, match="no attribute dominates"):
        weigh(read_panel(data, "e"), aggregate="owa", quantifier="as-many-as-possible")


@given(st.integers(2, 6), st.integers(2, 5), st.data())
def test_wa_weights_never_exceed_two_over_m(size: int, count: int, data: st.DataObject) -> None:
    experts = []
    for k in range(count):
        matrix = [[0.5] * size for _ in range(size)]
        for i in range(size):
            for j in range(i):
                p = data.draw(st.integers(0, 100)) / 100
                matrix[i][j], matrix[j][i] = p, 1 - p
        experts.append(expert(str(k), matrix))
    weights = weigh(read_panel({"attributes": [f"q{i}" for i in range(size)], "expert": experts}, "e")).weights
    assert sum(weights.values()) == pytest.approx(1)
    assert max(weights.values()) <= 2 / size + 1e-9


def cell(i: int, j: int, value: Any) -> Any:
    def change(data: dict[str, Any]) -> None:
        data["expert"][1]["preferences"][i][j] = value

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (cell(0, 1, 1.2), r'e.toml: expert "bob" cell \(1, 2\), cpu over memory, is 1.2: must be from 0 to 1'),
        (cell(1, 0, 0.7), r'expert "bob" cell \(2, 1\), memory over cpu, is 0.7, and cell \(1, 2\) is 0.2'),
        (cell(2, 2, 0.4), r'expert "bob" cell \(3, 3\), degree over degree, is 0.4: must be 0.5'),
        (cell(0, 1, "much"), r'expert "bob" cell \(1, 2\).*"much": must be a number'),
        (cell(0, 1, True), r'expert "bob" cell \(1, 2\)'),
        (cell(0, 1, float("nan")), r'expert "bob" cell \(1, 2\)'),
        (lambda d: d["expert"][1]["preferences"].pop(), r'expert "bob" .*2 rows for 3 attributes: no row for "degree"'),
        (lambda d: d["expert"][1]["preferences"][1].pop(), r'expert "bob" row 2 \("memory"\) has 2 cells'),
        (lambda d: d["expert"][1]["preferences"][1].append(0.5), r'expert "bob" row 2 .*cell 4.*3×3'),
        (lambda d: d["expert"][1]["preferences"].append([0.5] * 3), r'expert "bob" row 4'),
        (lambda d: d["expert"][1].pop("preferences"), r'expert "bob": preferences is missing: a matrix'),
        (lambda d: d["expert"][1].update(preferences=3), r'expert "bob" preferences = 3'),
        (lambda d: d["expert"][1].update(attributes=["disk"]), r'expert "bob" names the attribute "disk"'),
        (lambda d: d["expert"][1].update(weight=-1), r'expert "bob": weight -1 is out of range'),
        (lambda d: d["expert"][1].update(name="ann"), r'two experts are called "ann"'),
        (lambda d: d["expert"][1].update(name=""), r"expert number 2: name must not be empty"),
        (lambda d: d["expert"][1].update(mood="good"), r"expert \"bob\": has no field 'mood'"),
        (lambda d: d["expert"].pop(), r"has 1 \[\[expert\]\]: a group needs at least 2"),
        (lambda d: d.update(attributes=["cpu"]), r"names 1 attributes"),
        (
            lambda d: d.update(attributes=["cpu", "cpu", "x"]),
            r"attributes\[1\] = \"cpu\": must be a name that is not there twice",
        ),
        (lambda d: d.update(experts=[]), r"has no field 'experts': do you mean expert"),
        (lambda d: [e.update(weight=0) for e in d["expert"]], r"all experts have weight 0"),
    ],
)
def test_bad_matrices_are_named_by_expert_and_cell(change: Any, says: str) -> None:
    data = deepcopy(GOOD)
    change(data)
    with pytest.raises(ConfigError, match=says):
        read_panel(data, "e.toml")


TOML = """
[[expert]]
name = "ann"
weight = 2
attributes = ["cpu", "memory"]
preferences = [[0.5, 0.8], [0.2, 0.5]]
[[expert]]
name = "bob"
preferences = [[0.5, 0.5], [0.5, 0.5]]
"""


def test_doyen_score_weights(tmp_path: Path) -> None:
    path = tmp_path / "experts.toml"
    path.write_text(TOML)
    shown = json.loads(
        CliRunner().invoke(app, ["score", "weights", str(path), "--json"], catch_exceptions=False).output
    )
    assert shown["attributes"] == ["cpu", "memory"]
    assert shown["collective"][0][1] == pytest.approx(0.7)
    assert shown["dominance"] == pytest.approx({"cpu": 0.7, "memory": 0.3})
    assert shown["weights"] == pytest.approx({"cpu": 0.7, "memory": 0.3})
    arguments = ["score", "weights", str(path), "--aggregate", "owa", "--quantifier", "as-many-as-possible"]
    shown = json.loads(CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False).output)
    assert shown["weights"] == pytest.approx({"cpu": 0.5 / 0.7, "memory": 0.2 / 0.7})
    assert "2. collective preference" in CliRunner().invoke(app, arguments, catch_exceptions=False).output


def test_doyen_score_weights_reads_json_and_refuses_what_contradicts(tmp_path: Path) -> None:
    path = tmp_path / "experts.json"
    path.write_text(json.dumps(GOOD))
    assert "cpu" in CliRunner().invoke(app, ["score", "weights", str(path)], catch_exceptions=False).output
    with pytest.raises(ConfigError, match="--quantifier is for --aggregate owa"):
        CliRunner().invoke(
            app, ["score", "weights", str(path), "--aggregate", "wa", "--quantifier", "most"], catch_exceptions=False
        )
    with pytest.raises(ConfigError, match="cannot be read"):
        CliRunner().invoke(app, ["score", "weights", str(tmp_path / "none.toml")], catch_exceptions=False)
