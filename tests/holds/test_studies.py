"""Studies keep their figures, their trace hashes, and all that their machines take in and give out.

`studies.json` has one line for each command line of `studies.py`: its exit code, its JSON, and for each channel a
digest of the tapes of all nodes (see `test_machines.py`).  A study that moves to another world gets a new trace hash
and other tapes on purpose; its figures are then compared by hand, old against new, and the line is written anew.
Figures are kept to 12 digits: a sum in another order may differ in the last ones.

    pytest tests/holds/test_studies.py                         compare with what is kept
    pytest -m soak tests/holds/test_studies.py                 the slow ones too: do it before changing the ring
    HOLDS_REWRITE=1 pytest tests/holds/test_studies.py         write all anew, the slow ones included
"""

import json
from pathlib import Path
from typing import Any, Final

import golden
import pytest
import reach
from lines import SCENARIOS, filled, write_files
from studies import CALCULATED, LINES, SLOW
from tape import Tape, merged

FILE: Final = "studies.json"
ALL: Final = (*LINES, *CALCULATED, *SLOW)


def study(line: str, folder: Path) -> dict[str, Any]:
    """Run one command line; return all that is kept of it."""
    write_files(folder)
    tapes: reach.Tapes = {}
    with reach.listening(tapes):
        code, out, err = reach.command(*filled(line, folder), "--json")
    assert out, err
    by_channel: dict[str, list[Tape]] = {}
    for (_, channel), tape in sorted(tapes.items(), key=lambda item: item[0]):
        by_channel.setdefault(channel, []).append(tape)
    told = json.loads(out, parse_float=lambda text: float(f"{float(text):.12g}"))
    trace = told.pop("trace_hash", None)
    digests = {channel: merged(found) for channel, found in by_channel.items()}
    return {"code": code, "figures": told, "trace_hash": trace, "tapes": digests}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if golden.REWRITE:
        folder = tmp_path_factory.mktemp("studies")
        golden.write(FILE, {line: study(line, folder) for line in ALL})
    return golden.read(FILE)


@pytest.mark.parametrize("line", [*LINES, *CALCULATED, *(pytest.param(line, marks=pytest.mark.soak) for line in SLOW)])
def test_studies_find_what_they_found(line: str, kept: dict[str, Any], tmp_path: Path) -> None:
    found = study(line, tmp_path)
    assert golden.changed(kept[line]["figures"], found["figures"]) == []  # New figures may come.
    for part in ("code", "trace_hash", "tapes"):
        assert found[part] == kept[line][part]


def test_every_study_is_there(kept: dict[str, Any]) -> None:
    assert sorted(kept) == sorted(ALL)
    studies = {line.split()[1] for line in LINES}
    assert studies == {"announce", "ctolerant", "walkthrough", "membership", "spanning", "arbitration", "pole", "run"}
    scenarios = {part.removeprefix("@scenarios/") for line in LINES for part in line.split() if "@scenarios" in part}
    assert scenarios <= {path.name for path in SCENARIOS.glob("*.toml")}  # Later ones have tests of their own.
    hashed = {line.split()[1] for line in LINES if kept[line]["trace_hash"]}
    assert studies - hashed == {"walkthrough"}
    assert [line for line, found in kept.items() if bool(found["tapes"]) == (line in CALCULATED)] == []
    text = json.dumps([*kept.values()])
    assert str(SCENARIOS) not in text and "quality.csv" not in text


def test_one_seed_more_is_another_run(kept: dict[str, Any], tmp_path: Path) -> None:
    line = "sim membership --protocol swim --nodes 12 --seconds 40 --warm-up 15 --topology random"
    other = study(f"{line} --seed 2", tmp_path)
    assert other["trace_hash"] != kept[line]["trace_hash"] and other["tapes"] != kept[line]["tapes"]
