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
        ("**doyen, `gossip`**", "doyen gossip"),
        ("**doyen, `fast`**", "doyen unicast"),
        ("**doyen, `quorum`**", "doyen quorum"),
        ("ZooKeeper, kazoo's Election", "ZooKeeper, kazoo"),
        ("etcd, `etcdctl elect`", "etcd"),
        ("serf, lowest name leads", "serf"),
        ("swim-protocol, lowest name leads", "swim-protocol"),
    ],
)
def test_figures_of_the_table_are_measured_ones_or_missing(row: str, measured: str) -> None:
    page = (ROOT / "docs" / "explanation" / "beside-peers.md").read_text()
    line = next((line for line in page.splitlines() if line.startswith(f"| 5 | {measured} |")), None)
    cells = next(line for line in README.splitlines() if line.startswith(f"| {row}")).split("|")
    if line is None:
        assert [cell.strip() for cell in cells[3:5]] == ["not measured yet"] * 2
        return
    there = [cell.split()[0] for cell in line.split("|")[7:9]]
    for ours, cell in zip(cells[3:5], there, strict=True):
        figure = ours.strip().removesuffix(" s")
        assert abs(float(cell) - float(figure)) < 0.5001 * 10 ** -len(figure.partition(".")[2])
