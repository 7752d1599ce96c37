"""README's picture and the figures of its table are true; its program is in test_readme_program.py."""

import importlib.util
import json
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_picture_shows_a_leader_killed_and_another_that_takes_over() -> None:
    picture = ElementTree.parse(ROOT / "docs" / "pictures" / "takeover.svg")
    lines = [text.text or "" for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    killed = lines.index("Killed")
    workers = {line.split()[0] for line in lines if " works, term " in line}
    assert len(workers) == 2
    assert lines[killed - 2].split()[0] in workers
    assert sum(line == "$ python leader.py" for line in lines) == 3


@pytest.mark.parametrize(
    ("row", "measured"),
    [
        ("**doyen, `gossip`**", "doyen gossip"),
        ("**doyen, `fast`**", "doyen unicast"),
        ("**doyen, `quorum`**", "doyen quorum, key"),
        ("ZooKeeper, kazoo's Election", "ZooKeeper, kazoo"),
        ("etcd, `etcdctl elect`", "etcd"),
        ("serf, lowest name leads", "serf"),
        ("swim-protocol, lowest name leads", "swim-protocol"),
    ],
)
def test_figures_of_the_table_are_measured_ones_or_missing(row: str, measured: str) -> None:
    page = (ROOT / "docs" / "explanation" / "beside-peers.md").read_text()
    rows = (f"| 5 | {measured} |", f"| 5 † | {measured} |")  # The second: of an earlier run.
    line = next((line for line in page.splitlines() if line.startswith(rows)), None)
    cells = next(line for line in README.splitlines() if line.startswith(f"| {row}")).split("|")
    if line is None:
        assert [cell.strip() for cell in cells[3:5]] == ["not measured yet"] * 2
        return
    there = [cell.split()[0] for cell in line.split("|")[7:9]]
    for ours, cell in zip(cells[3:5], there, strict=True):
        figure = ours.strip().removesuffix(" s")
        assert abs(float(cell) - float(figure)) < 0.5001 * 10 ** -len(figure.partition(".")[2])


def measured(system: str, nodes: int, killed: list[float], cut: list[float]) -> dict[str, Any]:
    """Return one system's figures as `doyen bench peers --json` has them."""
    mean = {"mean": 1234.5, "sd": 1.0}
    idle = {"bytes_per_s": mean, "cpu_percent": mean, "rss_each": {"mean": 25e6}, "pss_each": {"mean": 16e6}}
    times = {
        fault: {"seconds": found, "median_s": sorted(found)[len(found) // 2], "never": 0}
        for fault, found in (("kill", killed), ("cut", cut))
    }
    return {"system": system, "nodes": nodes, "idle": idle, "join_s": 0.5, "processes": [{}] * nodes, **times}


def test_one_command_fills_the_page_and_readmes_table(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("peers_page", ROOT / "scripts" / "peers_page.py")
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    (tmp_path / "docs" / "explanation").mkdir(parents=True)
    for name in ("README.md", "docs/explanation/beside-peers.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    gossip = measured("doyen gossip", 5, [0.31, 0.25, 0.4], [4.44, 4.0, 5.0])
    check = {"nodes": 5, "system": "doyen gossip", "peer": "serf", "what": "kill × traffic", "value": 41.7}
    contest = {
        "systems": [gossip, measured("serf", 5, [5.0], [6.0]), measured("zookeeper", 3, [9.0], [9.9])],
        "absent": [{"system": "etcd", "nodes": 5, "why": "etcd is not installed"}],
        "checks": [check | {"aim": None, "holds": None}],
        "holds": True,
    }
    file = tmp_path / "peers.json"
    file.write_text(json.dumps(contest))
    for _ in range(2):  # Once more changes nothing.
        script.main(file, tmp_path)
        page = (tmp_path / "docs" / "explanation" / "beside-peers.md").read_text().splitlines()
        readme = (tmp_path / "README.md").read_text()
        row = "| 5 | doyen gossip | 5 | 1,234 | 1234.5 | 25.0, 16.0 | 0.31 (0.25–0.40) | 4.44 (4.00–5.00) | 0.5 |"
        assert page.count(row) == 1
        assert "| **doyen, `gossip`** (the default) | nothing else | 0.31 s | 4.4 s |" in readme
        assert "| serf, lowest name leads | an agent on each host | 5.0 s | 6.0 s |" in readme
        assert [line for line in page if line.startswith("| 3 | ZooKeeper, kazoo | 3 |")]
        assert [line for line in page if line.startswith("| 5 † | etcd | 8 |")], "of an earlier run, and marked"
        assert "| 5 | kill | gossip | – | – | – | 42 | – |" in page
        assert "Not measured: etcd with 5 (etcd is not installed)." in page
        assert sum(line.startswith("| 5") and "| serf |" in line for line in page) == 1
