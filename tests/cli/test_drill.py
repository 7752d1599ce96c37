"""`doyen drill` where it refuses: nothing is done, one line says why, and the exit code is the one of its page."""

from pathlib import Path
from typing import Any

import pytest

from doyen.cli import drill, main

LED = {"group": "g", "leader": "ant", "members": ["ant", "bee"], "voters": ["ant", "bee"], "may_fail": 0}
LED |= {"answering": ["ant", "bee"], "node": "ant", "is_me": True}


@pytest.mark.parametrize(
    ("told", "flags", "code", "words", "written"),
    [
        ({"leader": None}, "--yes", 1, "nobody leads", "nobody leads"),
        ({"is_me": False}, "--yes", 1, "does not run here", "runs elsewhere"),
        ({"members": ["ant"], "answering": ["ant"]}, "--yes", 1, "ant is alone in g", "the leader is alone"),
        ({"may_fail": 1}, "--yes --how kill", 1, "it cannot watch how it is replaced", "nobody else runs here"),
        ({}, "--yes --how kill", 2, "would lose its quorum", "a quorum would lose its majority"),
        ({}, "", 2, "say --yes", "without `--yes`"),
    ],
)
def test_a_refusal_has_the_exit_code_that_its_page_says(
    told: dict[str, Any],
    flags: str,
    code: int,
    words: str,
    written: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(drill, "find_nodes", lambda group, name: [Path("g/ant.sock")])
    monkeypatch.setattr(drill, "ask", lambda path, do, **more: LED | told)
    with pytest.raises(SystemExit) as ended:
        main(["drill", *flags.split()])
    said = capsys.readouterr()
    assert ended.value.code == code and said.err.count("\n") == 1 and words in said.err and said.out == ""
    page = (Path(__file__).parents[2] / "docs/how-to/drill.md").read_text()
    sign = {1: "; 1 that", 2: "Exit code 2 says"}[code]
    assert written in next(line for line in page.splitlines() if sign in line)
