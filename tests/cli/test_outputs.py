"""Which files a command writes over: its own earlier one of the same sort, and no other."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doyen.cli import main, outputs
from doyen.cli.outputs import COUNTEREXAMPLE, DRILL, INCIDENT, MEMBERSHIPS, PICTURE, REPLAYS, REPORT, TRACE, why_kept
from doyen.errors import ConfigError
from doyen.sim.scenario import Scenario, replay_line

SIM = "sim run --election gossip --nodes 3 --seed 3"
WRITTEN = [
    (f"{SIM} --html FILE", INCIDENT),
    (f"{SIM} --trace FILE", TRACE),
    (f"{SIM} --runs 2 --plot FILE", PICTURE),
    ("advise --nodes 5 --plot FILE", PICTURE),
    ("analyze announce --nodes 5 --quantity false-departures --plot FILE", PICTURE),
    ("sim ctolerant --nodes 9 --runs 1 --record FILE", MEMBERSHIPS),
]
FOREIGN = {
    "a recording": b"doyen recording\x00\x01",
    "a scenario": b'[group]\nnodes = 3\n[node]\nelection = "gossip"\n',
    "somebody's page": b"<!DOCTYPE html>\n<html><head><title>Ours</title></head></html>\n",
    "somebody's drawing": b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><circle r="3"/></svg>\n',
    "a configuration": b'{"group": "orders", "key": "none"}\n',
}


def run(line: str, file: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as end:
        main([str(file) if word == "FILE" else word for word in line.split()])
    assert isinstance(end.value.code, int)
    return end.value.code, capsys.readouterr().err


@pytest.mark.parametrize(("line", "sort"), WRITTEN, ids=[line.split(" FILE")[0] for line, _ in WRITTEN])
def test_an_earlier_file_of_the_same_sort_is_written_over_and_no_other_is(
    line: str, sort: outputs.Sort, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out"
    for _ in range(2):
        code, err = run(line, file, capsys)
        assert code == 0, err
        assert why_kept(file, sort) == "" and file.stat().st_size > 0
    flag = line.split()[-2]
    for what, content in FOREIGN.items():
        file.write_bytes(content)
        code, err = run(line, file, capsys)
        assert (code, file.read_bytes()) == (2, content), what
        assert err == f"doyen: {flag} {file} is there already, and is not {sort.name} of doyen's: " + (
            "give another name, or remove it first\n"
        )


@pytest.mark.parametrize("sort", [INCIDENT, PICTURE, TRACE, REPLAYS, DRILL, MEMBERSHIPS, COUNTEREXAMPLE, REPORT])
def test_a_sort_knows_no_file_of_another(sort: outputs.Sort, tmp_path: Path) -> None:
    file = tmp_path / "out"
    for content in FOREIGN.values():
        file.write_bytes(content)
        assert why_kept(file, sort)
    file.write_bytes(b"")
    assert not why_kept(file, sort) and not why_kept(tmp_path / "new", sort) and not why_kept(Path("/dev/null"), sort)


def test_the_files_of_other_commands_are_known(tmp_path: Path) -> None:
    from doyen.cli import drill
    from doyen_papers.papers.page import page

    def written(sort: outputs.Sort, write: Callable[[Path], Any]) -> None:
        file = tmp_path / "out"
        write(file)
        assert why_kept(file, sort) == "" and file.stat().st_size > 0

    plan = {"group": "g", "election": "", "kind": "hybrid", "members": ["ant"], "predicted_s": 0.1}
    written(DRILL, lambda file: drill.keep(file, plan))
    written(REPLAYS, lambda file: file.write_text(replay_line(msgspec.convert({}, Scenario), 7)))
    written(REPORT, lambda file: file.write_text(page([], "")))


def test_a_drill_is_not_begun_for_a_report_that_would_replace_something(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "node.toml"
    file.write_text("group = 'g'\n")
    code, err = run("drill --yes --report FILE", file, capsys)
    assert code == 2 and f"--report {file} is there already, and is not a report of a drill" in err


def test_a_counterexample_does_not_replace_another_file(tmp_path: Path) -> None:
    (tmp_path / "epoch.toml").write_bytes(FOREIGN["a scenario"])
    with pytest.raises(ConfigError, match=r"--to .* is there already, and is not a counterexample"):
        outputs.check_kept([tmp_path / "epoch.toml"], COUNTEREXAMPLE, "--to")
