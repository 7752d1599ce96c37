"""The museum: every flawed rule does what was published, and doyen holds on the same scenario."""

import json
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from doyen_lab.cli.lab import command
from doyen_lab.museum.exhibits import EXHIBITS
from doyen_lab.museum.page import page
from doyen_lab.museum.show import Result, show

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "museum.md"


@cache
def shown(name: str) -> Result:
    return show(EXHIBITS[name], seed=1)


@pytest.mark.parametrize("name", EXHIBITS)
def test_the_rule_fails_as_published_and_doyen_holds(name: str) -> None:
    result = shown(name)
    assert result.fails, f"the model shows nothing: {result.rule}; at least {EXHIBITS[name].at_least} was stated"
    assert result.holds, f"doyen: {result.doyen}, bound {result.bound_s} s"


def test_there_are_ten_at_least_each_with_its_thread_and_what_it_leaves_out() -> None:
    assert len(EXHIBITS) >= 10
    assert len({source for exhibit in EXHIBITS.values() for source in exhibit.where}) >= 10
    assert all(exhibit.where and exhibit.simpler for exhibit in EXHIBITS.values())


def test_the_page_is_what_a_run_writes() -> None:
    written = page([shown(name) for name in EXHIBITS])
    assert written == PAGE.read_text(encoding="utf-8"), "doyen lab museum --page docs/explanation/museum.md"


def test_a_name_that_is_none_gets_the_names() -> None:
    ran = CliRunner().invoke(command, ["museum", "renews-by-nam"])
    assert ran.exit_code and "renews-by-name" in f"{ran.output} {ran.exception}"


def test_one_exhibit_by_name_as_json_and_as_a_page(tmp_path: Path) -> None:
    ran = CliRunner().invoke(command, ["museum", "one-name-for-all", "--json", "--page", str(tmp_path / "one.md")])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["results"][0]["rule"]["two_at_once_s"] > 60
    assert (tmp_path / "one.md").read_text(encoding="utf-8") == page([shown("one-name-for-all")])
