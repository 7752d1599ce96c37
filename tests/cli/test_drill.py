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


@pytest.mark.parametrize(
    ("later", "how", "code", "words"),
    [
        ({"is_me": False, "leader": "bee", "term": 4}, "kill", 1, "ant no longer leads g in term 3: nothing was done"),
        ({"term": 5}, "resign", 1, "ant no longer leads g in term 3: nothing was done"),
        ({"may_fail": 0}, "kill", 2, "would lose its quorum"),
    ],
)
def test_what_changed_until_the_answer_is_looked_at_again(
    later: dict[str, Any],
    how: str,
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = LED | {"may_fail": 1, "term": 3, "kind": "pole", "round_trip_s": 0.001, "disk_s": 0.0, "because": ""}
    now |= {"failover_s": 1.0, "detection_s": 0.5}

    def predicted(*_: object) -> list[float]:
        now.update(later)  # While it simulates, or a person thinks.
        return [0.5]

    def performed(*_: object) -> dict[str, Any]:
        raise AssertionError("nobody is to be ended now")

    monkeypatch.setattr(drill, "find_nodes", lambda group, name: [Path("g/ant.sock"), Path("g/bee.sock")])
    monkeypatch.setattr(drill, "ask", lambda path, do, **more: dict(now) | {"node": path.stem})
    monkeypatch.setattr(drill, "ASK_EVERY_S", 0.0)
    monkeypatch.setattr(drill, "predict", predicted)
    monkeypatch.setattr(drill, "perform", performed)
    with pytest.raises(SystemExit) as ended:
        main(["drill", "--yes", "--how", how])
    assert ended.value.code == code and words in capsys.readouterr().err
