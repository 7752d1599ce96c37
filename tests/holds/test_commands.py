"""Commands keep their names, their flags and the fields of their JSON; new ones may come, none may go.

`commands.json` has one line for each command, each flag and each command line of `lines.JSON`.

    pytest tests/holds/test_commands.py                       compare with what is kept
    HOLDS_REWRITE=1 pytest tests/holds/test_commands.py       write it anew, additions included
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import golden
import pytest
import reach
from flags import commands, described, parameters
from lines import JSON, filled, write_files

FILE: Final = "commands.json"


def fields(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of every field: keys joined by dots, `[]` for whatever is in a list."""
    if isinstance(value, dict):
        for key, held in value.items():
            where = f"{path}.{key}" if path else key
            yield where
            yield from fields(held, where)
    elif isinstance(value, list):
        for held in value:
            yield from fields(held, f"{path}[]")


def all_fields(text: str) -> list[str]:
    """Return the fields of all JSON lines of a text, sorted."""
    return sorted({found for line in text.splitlines() for found in fields(json.loads(line))})


def all_flags() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, command in commands(reach.command_tree()):
        found[path] = "command"
        for name, parameter in parameters(command):
            found[f"{path} {name}"] = described(parameter)
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What each command line printed, all in one folder and nobody running."""
    folder = tmp_path_factory.mktemp("said")
    write_files(folder)
    with pytest.MonkeyPatch.context() as patch:
        reach.shut_off(patch, folder)
        said: dict[str, str] = {}
        for line in JSON:
            words = filled(line, folder)
            if words[-1] in ("FIRST", "SECOND"):
                keys = json.loads(said["keys add --file @keys"])["keys"]
                words[-1] = keys[words[-1] == "SECOND"]["id"]
            said[line] = reach.command(*words, "--json")[1]
        yield said


@pytest.fixture(scope="module")
def kept(said: dict[str, str]) -> dict[str, Any]:
    if golden.REWRITE:
        items = [item["id"] for item in json.loads(said["papers list"])["items"]]
        lab = json.loads(said["lab list"])
        golden.write(
            FILE,
            all_flags()
            | {f"fields of doyen {line}": all_fields(text) for line, text in said.items()}
            | {"items of doyen papers list": items, "all of doyen lab list": lab},
        )
    return golden.read(FILE)


def test_no_command_and_no_flag_is_lost(kept: dict[str, Any]) -> None:
    flags = {key: value for key, value in kept.items() if key.startswith("doyen")}
    assert golden.lost(flags, all_flags()) == []
    commands = [key for key, value in flags.items() if value == "command"]
    assert len(commands) >= 55 and len(flags) - len(commands) >= 700


@pytest.mark.parametrize("line", JSON)
def test_no_field_is_lost(line: str, kept: dict[str, Any], said: dict[str, str]) -> None:
    assert said[line].count("\n") == 1
    wanted = kept[f"fields of doyen {line}"]
    assert wanted
    assert golden.lost(wanted, all_fields(said[line]), line) == []


def test_no_paper_and_no_scenario_of_the_lab_is_lost(kept: dict[str, Any], said: dict[str, str]) -> None:
    items = [item["id"] for item in json.loads(said["papers list"])["items"]]
    assert golden.lost(kept["items of doyen papers list"], items) == []
    assert golden.lost(kept["all of doyen lab list"], json.loads(said["lab list"])) == []


def test_what_is_gone_or_other_is_seen() -> None:
    was = {"a": {"takes": "text", "choices": ["x", "y"], "default": 1}, "b": ["f", "f.g"]}
    assert golden.lost(was, was | {"c": 1}) == []
    assert golden.lost(was, {"a": {"takes": "text", "choices": ["z", "y", "x"], "default": 1}, "b": ["f.g", "f"]}) == []
    assert len(golden.lost(was, {"b": was["b"]})) == 1
    assert len(golden.lost(was, {"a": {"takes": "text", "choices": ["x"], "default": 2}, "b": ["f"]})) == 3
    assert sorted(fields({"a": {"b": [{"c": 1}, {"d": [[2]]}]}})) == ["a", "a.b", "a.b[].c", "a.b[].d"]
