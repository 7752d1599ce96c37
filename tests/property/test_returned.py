"""Functions return what their types say: None only where that is said."""

import ast
from pathlib import Path
from typing import Any

import pytest
from returned import SOURCES, watched

from doyen.cli import main
from doyen.core.clock import parse_duration, to_seconds
from doyen.errors import ConfigError
from doyen.node.registry import ELECTIONS, MEMBERSHIPS

STACKS = [
    (election, membership)
    for election in ELECTIONS
    for membership in (MEMBERSHIPS if election in ("hybrid", "local") else [""])
]


def test_the_watch_sees_a_function_that_forgets_its_value() -> None:
    with watched() as found:
        assert to_seconds(5 * 10**9) == 5.0
    assert found.seen == {"core/clock.py: to_seconds"} and not found.nothing
    path = str(SOURCES / "core/clock.py")
    tree = ast.parse(Path(path).read_text())
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "to_seconds"]
    tree.body[0].body = [ast.copy_location(ast.Return(), tree.body[0])]  # type: ignore[attr-defined]
    made: dict[str, Any] = {"Duration": int}
    exec(compile(tree, path, "exec"), made)
    with watched() as found:
        made["to_seconds"](5)
        with pytest.raises(ConfigError):
            parse_duration("one moment")  # It returns nothing at all.
    assert found.nothing == {"core/clock.py: to_seconds"}


@pytest.mark.parametrize(("election", "membership"), STACKS)
def test_no_machine_returns_nothing_where_it_promises_something(
    election: str, membership: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["sim", "run", "--election", election, "--nodes", "4", "--seed", "3"]
    line += ["--membership", membership] if membership else []
    with watched() as found, pytest.raises(SystemExit) as ended:
        main(line)
    assert ended.value.code in (0, 1), capsys.readouterr().out
    assert found.nothing == set()
    machines = [name for name in found.seen if not name.split(":")[0].endswith(("kind.py", "config.py"))]
    watched_parts = {name.split("/")[0] for name in machines}
    assert {"core", "election"} <= watched_parts, "the run was not watched"
