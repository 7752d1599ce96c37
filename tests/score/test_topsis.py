"""Attributes to quality: the thirty rows, the prioritised ones, and whatever a table can get wrong.  [MADM]"""

import json
from math import floor
from pathlib import Path

import pytest
from click.testing import CliRunner

from doyen.cli import app
from doyen.errors import ConfigError
from doyen.score.topsis import Attribute, quality
from doyen_papers.papers.madm.chapter import ATTRIBUTES, GRAPHS, TABLES, neighbours, prioritised
from doyen_papers.score.graph import closeness, degree, modification_time
from doyen_papers.score.table import rate, read_attributes, read_table


def truncated(value: float, digits: int) -> str:
    return f"{floor(value * 10**digits + 1e-9) / 10**digits:.{digits}f}"


ROWS = [(table, row) for table, rows in TABLES.items() for row in rows]


@pytest.mark.parametrize(("table", "row"), ROWS, ids=lambda x: x if isinstance(x, str) else x.node)
def test_madm_tables_every_row_truncated_to_four_decimals(table: str, row) -> None:  # type: ignore[no-untyped-def]
    assert truncated(quality(row.values, ATTRIBUTES).value, 4) == row.quality


def test_madm_tables_have_thirty_rows_and_these_leaders() -> None:
    assert len(ROWS) == 30
    for table, leader, value in (("6.3", "2", 0.363788), ("6.4", "2", 0.361499), ("6.5", "10", 0.364530)):
        rated = rate({row.node: row.values for row in TABLES[table]}, ATTRIBUTES)
        assert rated.leader == leader
        assert round(rated.quality[leader].value, 6) == value


@pytest.mark.parametrize(
    ("table", "leaders"),
    [("6.3", "0 5 6 2 2"), ("6.4", "0 5 6 2 2"), ("6.5", "0 5 10 10 10")],
)
def test_madm_6_3_prioritised_attributes_elect(table: str, leaders: str) -> None:
    rows = {row.node: row.values for row in TABLES[table]}
    found = [rate(rows, prioritised(name)).leader for name in ("CPU", "Am", "Fr", "Cc", "Deg")]
    assert found == leaders.split()


def test_madm_6_3_the_claim_fails_for_failure_rate_in_table_6_5() -> None:
    rows = {row.node: row.values for row in TABLES["6.5"]}
    rated = rate(rows, prioritised("Fr")).quality
    assert (round(rated["10"].value, 6), round(rated["6"].value, 6)) == (0.336098, 0.335748)


def test_madm_figure_6_3_the_graphs_give_the_tables_degree_and_closeness() -> None:
    for table, rows in TABLES.items():
        graph = neighbours(GRAPHS[table])
        for row in rows:
            assert degree(graph, row.node) == row.degree
            digits = f"{closeness(graph, row.node):.2f}" if (table, row.node) == ("6.4", "1") else None
            assert (digits or truncated(closeness(graph, row.node), 2)) == f"{row.closeness:.2f}"


def test_madm_6_3_modification_times() -> None:
    slow = {"6.3": ("2", "5 6"), "6.4": ("2", "5 6 8 9"), "6.5": ("10", "")}
    for table, (leader, far) in slow.items():
        graph = neighbours(GRAPHS[table])
        for node in graph:
            wanted = 10 if node == leader else 20 if node in far.split() else 15
            assert modification_time(graph, node) == wanted, (table, node)


def test_a_value_outside_its_range_is_clamped_and_said_so() -> None:
    one = (Attribute(name="x", min=0, max=1, weight=1),)
    assert quality({"x": 3}, one).value == 1.0
    assert quality({"x": 3}, one).clamped == ("x",)
    assert quality({"x": 1}, one).clamped == ()


def test_a_cost_attribute_is_best_when_it_is_least() -> None:
    cost = (Attribute(name="x", min=0, max=1, weight=1, kind="cost"),)
    assert quality({"x": 0}, cost).value == 1.0
    assert quality({"x": 1}, cost).value == 0.0


def test_among_equals_the_lowest_name_leads_and_two_is_below_ten() -> None:
    one = (Attribute(name="x", min=0, max=1, weight=1),)
    assert rate({"10": {"x": 1}, "2": {"x": 1}, "3": {"x": 0}}, one).leader == "2"


GOOD = {"attribute": [{"name": "x", "min": 0, "max": 1, "weight": 1.0, "kind": "benefit"}]}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"min": 1}, "min 1 of x must be less than max"),
        ({"min": 2}, "max"),
        ({"weight": 1.5}, "weight 1.5 is out of range: give 0 to 1"),
        ({"kind": "good"}, "one of benefit, cost"),
        ({"max": "much"}, "max"),
        ({"colour": 1}, "colour"),
        ({"name": ""}, "name"),
    ],
)
def test_bad_attributes_are_named(change: dict[str, object], says: str) -> None:
    data = {"attribute": [GOOD["attribute"][0] | change]}
    with pytest.raises(ConfigError, match=says):
        read_attributes(data, "attrs.toml")


def test_attributes_must_be_there_once() -> None:
    with pytest.raises(ConfigError, match="twice"):
        read_attributes({"attribute": GOOD["attribute"] * 2}, "attrs.toml")
    with pytest.raises(ConfigError, match="no \\[\\[attribute\\]\\]"):
        read_attributes({"attribute": []}, "attrs.toml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("node,y\na,1\n", 'line 1: has no column "x"'),
        ("name,x\na,1\n", 'no column "node"'),
        ("node,x\n", "no nodes"),
        ("node,x\na,1\nb\n", "line 3: has 1 cells"),
        ("node,x\na,1\nb,much\n", 'line 3, node b, column x: "much"'),
        ("node,x\na,\n", "line 2, node a, column x"),
        ("node,x\na,nan\n", "finite"),
        ("node,x\na,1\na,1\n", 'line 3: node "a" is there twice'),
        ("node,x,x\na,1,1\n", "twice"),
        ("node,x\n,1\n", "line 2, column node"),
    ],
)
def test_bad_tables_are_named_by_row_and_cell(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says.replace("[", "\\[")):
        read_table(text.splitlines(), read_attributes(GOOD, "a"), "table.csv")


def test_doyen_score_topsis(tmp_path: Path) -> None:
    lines = ["node,CPU,Am,Fr,Cc,Deg"]
    lines += [f"{r.node},{r.cpu},{r.memory},{r.failures},{r.closeness},{r.degree}" for r in TABLES["6.5"]]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    (tmp_path / "a.toml").write_text(
        "".join(
            f'[[attribute]]\nname = "{a.name}"\nmin = {a.min}\nmax = {a.max}\nweight = {a.weight}\nkind = "{a.kind}"\n'
            for a in ATTRIBUTES
        )
    )
    arguments = ["score", "topsis", str(tmp_path / "t.csv"), "--attributes", str(tmp_path / "a.toml")]
    shown = json.loads(CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False).output)
    assert shown["leader"] == "10"
    assert round(shown["quality"]["10"], 6) == 0.364530
    assert list(shown["quality"]) == [str(i) for i in range(12)]
    text = CliRunner().invoke(app, arguments, catch_exceptions=False).output
    assert text.startswith("10 leads: quality 0.364530, the best of 12")


def test_weights_that_do_not_add_up_to_1_are_taken_with_a_word(tmp_path: Path) -> None:
    table, attributes = tmp_path / "t.csv", tmp_path / "a.toml"
    table.write_text("node,x,y\n0,1,0\n1,0,1\n")
    attributes.write_text(
        "".join(f'[[attribute]]\nname="{n}"\nmin=0\nmax=1\nweight={w}\n' for n, w in (("x", 1), ("y", 0.5)))
    )
    result = CliRunner().invoke(app, ["score", "topsis", str(table), "--attributes", str(attributes), "--json"])
    assert result.exit_code == 0
    assert "the weights of x, y add up to 1.5, not to 1" in result.stderr
    assert json.loads(result.stdout)["leader"] == "0"
