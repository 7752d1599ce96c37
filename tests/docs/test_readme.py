"""README's picture and the figures of its table are true; its program is in test_readme_program.py."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

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
        ("**doyen, `fast`**", "doyen unicast"),
        ("ZooKeeper, kazoo's Election", "ZooKeeper, kazoo"),
        ("etcd, `etcdctl elect`", "etcd"),
        ("serf, lowest name leads", "serf"),
        ("swim-protocol, lowest name leads", "swim-protocol"),
    ],
)
def test_figures_of_the_table_are_measured_ones(row: str, measured: str) -> None:
    page = (ROOT / "docs" / "explanation" / "beside-peers.md").read_text()
    line = next(line for line in page.splitlines() if line.startswith(f"| 5 | {measured} |"))
    there = [cell.split()[0] for cell in line.split("|")[7:9]]
    cells = next(line for line in README.splitlines() if line.startswith(f"| {row}")).split("|")
    for ours, cell in zip(cells[3:5], there, strict=True):
        figure = ours.strip().removesuffix(" s")
        assert abs(float(cell) - float(figure)) < 0.5001 * 10 ** -len(figure.partition(".")[2])


def test_what_was_not_measured_has_no_figure() -> None:
    for row in ("| **doyen, `gossip`**", "| **doyen, `quorum`**"):
        cells = next(line for line in README.splitlines() if line.startswith(row)).split("|")
        assert [cell.strip() for cell in cells[3:5]] == ["not measured yet"] * 2
