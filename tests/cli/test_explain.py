"""`doyen explain` of a follower: who is named and does not act yet does not lead."""

import json
from pathlib import Path
from typing import Any

import pytest

from doyen.cli import explain, local, main

TOLD = {"group": "g", "node": "bee", "leader": "ant", "term": 3, "sentence": 'ant leads "g" (term 3).', "lines": []}


@pytest.mark.parametrize("why", ["", "its election is not final yet"])
def test_a_follower_asks_the_leader_of_its_machine_whether_it_acts(
    why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask(path: Path, do: str, **more: Any) -> dict[str, Any]:
        assert (path.stem, do) == ("ant", "leader")
        return {"waits_for": why}

    monkeypatch.setattr(explain, "find_nodes", lambda group, name: [Path("g/bee.sock")])
    monkeypatch.setattr(explain, "ask_first", lambda nodes, do, **more: (nodes[0], TOLD))
    monkeypatch.setattr(local, "find_node", lambda group, name: Path(f"{group}/{name}.sock"))
    monkeypatch.setattr(local, "ask", ask)
    said = f'ant is named leader of "g" (term 3), and does not act yet: {why}.' if why else TOLD["sentence"]
    for flag in ("--json", "--history"):
        TOLD["history"] = []
        with pytest.raises(SystemExit) as ended:
            main(["explain", flag])
        out = capsys.readouterr().out
        assert ended.value.code == 0
        assert (json.loads(out)["sentence"] if flag == "--json" else out.splitlines()[0]) == said
