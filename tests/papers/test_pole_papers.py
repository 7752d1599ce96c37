"""[POLE] in `doyen papers`: what holds without chance, at every run; the whole of it in the soak."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from doyen.cli import app


def reproduced(out: Path, *ids: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["papers", "run", *ids, "--jobs", "1", "--out", str(out), "--json"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_scores_and_leaders_are_the_reference_values(tmp_path: Path) -> None:
    found = reproduced(tmp_path, "pole/scores", "pole/leaders")
    assert (found["misses"], found["in_band"]) == (0, 30 + 19)


def test_p1_recovers_before_p4_at_any_size(tmp_path: Path) -> None:
    found = reproduced(tmp_path, "pole/fig8b")
    assert (found["misses"], found["in_band"]) == (0, 6)


@pytest.mark.soak
def test_every_miss_of_the_whole_paper_is_explained(tmp_path: Path) -> None:
    found = reproduced(tmp_path, "pole")
    assert found["misses_unexplained"] == 0
    assert found["misses"] <= 7 and found["in_band"] > 370
