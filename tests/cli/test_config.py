"""`doyen config`, the reference of the configuration, and the help of commands that run a node."""

import importlib.util
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from doyen.cli import main
from doyen.cli.nodeflags import flag_name
from doyen.node.layers import configure, node_options, variable_name
from doyen.node.registry import tables

ROOT = Path(__file__).parents[2]
OURS = node_options(tables(ours=True))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    said = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, said.out, said.err


def test_the_example_is_accepted_as_it_stands_and_with_every_line_uncommented(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text, _ = run(capsys, "config", "--example")
    assert code == 0 and tomllib.loads(text) == {"group": "orders"}
    file = tmp_path / "node.toml"
    file.write_text(text)
    code, out, _ = run(capsys, "config", "check", str(file))
    assert (code, out.count("\n")) == (0, 1) and "is right: group 'orders'" in out
    whole = re.sub(r"^#(?=[a-z\[])", "", text, flags=re.MULTILINE)
    given = tomllib.loads(whole)
    leaves = {
        (key, *below)
        for key, value in given.items()
        for below in ([(k,) for k in value] if isinstance(value, dict) else [()])
    }
    assert {option.path for option in OURS} == leaves
    file.write_text(whole)
    assert run(capsys, "config", "check", str(file))[0] == 0
    told = json.loads(run(capsys, "config", "check", str(file), "--json")[1])["config"]
    assert told["voters"] == ["ant", "bee", "cat"] and told["swim.period"] == "2s"
    assert configure({}, file=file, environment={}).seeds == ("10.0.0.2", "10.0.0.3:7600")


def test_a_wrong_file_is_refused_by_its_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "node.toml"
    file.write_text('group = "orders"\nseed = ["host-a"]\n')
    code, out, error = run(capsys, "config", "check", str(file))
    assert (code, out, error.count("\n")) == (2, "", 1) and "do you mean seeds?" in error
    assert "doyen config --example" in run(capsys, "config")[2]


@pytest.mark.parametrize("command", ["agent", "run", "doctor"])
def test_help_is_one_screen_and_help_all_has_every_flag(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, command, "--help")
    assert code == 0 and 24 <= out.count("\n") <= 40
    assert max(map(len, out.splitlines())) <= 80
    assert "Examples:" in out and "--help-all" in out
    _, whole, _ = run(capsys, command, "--help-all")
    shown = set(re.findall(r"--[a-z][a-z-]*", whole))
    assert {flag_name(option) for option in OURS} <= shown
    assert set(re.findall(r"^  (--[a-z-]+)", out, flags=re.MULTILINE)) <= shown


def test_the_reference_is_made_from_the_fields() -> None:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs/reference/configuration.py")
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (ROOT / "docs/reference/configuration.md").read_text()
    assert written == module.page(), "run: python docs/reference/configuration.py > docs/reference/configuration.md"
    for option in OURS:
        assert f"| `{option.path[-1]}` | `{flag_name(option)}`<br>`{variable_name(option)}` |" in written


@pytest.mark.parametrize("option", OURS, ids=lambda option: option.name)
def test_the_help_of_a_field_is_whole_sentences(option: Any) -> None:
    assert re.match(r"[A-Z/`]", option.doc) and option.doc.endswith(".")
    for sentence in re.split(r"(?<=\.) ", option.doc):
        assert not re.match(r"(Short|Long|Low|High|Few|Large|Small|Off|\d+|inf|[a-z]+): ", sentence), sentence
        assert not re.fullmatch(r"\S{1,4}\.", sentence), sentence
