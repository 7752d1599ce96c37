"""Reports of several seeds are compared: what flips is counted and named, and so is a miss that nothing explains."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[2] / "scripts/papers_seeds.py"


def cell(where: str, ours: float, verdict: str, **more: Any) -> dict[str, Any]:
    given = {"curve": "", "x": None, "expected": 1.0, "explained": "", "afterwards": ""}
    return {"where": where, "ours": ours, "verdict": verdict} | given | more


def compared(tmp_path: Path, *reports: list[dict[str, Any]]) -> tuple[int, str]:
    paths = []
    for seed, cells in enumerate(reports, 1):
        paths.append(tmp_path / f"{seed}.json")
        paths[-1].write_text(json.dumps({"seed": seed, "items": [{"id": "x/a", "cells": cells}]}))
    done = subprocess.run([sys.executable, str(SCRIPT), *map(str, paths)], capture_output=True, text=True)
    return done.returncode, done.stdout


def test_what_flips_is_named(tmp_path: Path) -> None:
    steady = [cell(f"N={n}", 1.0, "in band") for n in range(99)]
    beyond = cell("ours alone", 7.0, "beyond the paper")
    ended, said = compared(
        tmp_path,
        [*steady, cell("edge", 1.0, "in band"), beyond],
        [*steady, cell("edge", 2.5, "miss", afterwards="too short"), beyond],
    )
    assert ended == 0
    assert "seed 1: 100 in band, 0 explained misses, 0 that nothing explains" in said
    assert "seed 2: 99 in band, 1 explained misses, 0" in said
    assert "1 of 100 verdicts flip (1.0%)\n    x/a edge: 1 (1: in band), 2.5 (2: miss); expected 1.0\n" in said


def test_more_than_one_in_a_hundred_is_too_many(tmp_path: Path) -> None:
    steady = [cell(f"N={n}", 1.0, "in band") for n in range(98)]
    changed = [[*steady, cell("edge", 1.0, verdict, explained="because")] for verdict in ("in band", "miss")]
    assert compared(tmp_path, *changed)[0] == 1


def test_a_miss_that_nothing_explains_is_named(tmp_path: Path) -> None:
    ended, said = compared(tmp_path, *[[cell("N=9", 2.0, "miss"), cell("N=9", 1.0, "in band")]] * 2)
    assert ended == 1 and said.count("not explained: x/a N=9\n") == 2 and "0 of 2 verdicts flip" in said


def test_without_reports_it_says_how() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True)
    assert done.returncode == 2 and "results.json" in done.stdout
