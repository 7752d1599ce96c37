"""Numbers as a picture: well-formed, escaped, with round ticks, and nothing that is no number."""

from math import inf, nan
from pathlib import Path
from xml.etree import ElementTree

import pytest

from doyen.cli import main
from doyen.eyes.plot import Plot, shares

SVG = "{http://www.w3.org/2000/svg}"


def drawn(plot: Plot) -> ElementTree.Element:
    return ElementTree.fromstring(plot.svg())


def test_lines_steps_and_points_are_drawn_and_named() -> None:
    plot = Plot("a <b> & c", "x", "y")
    plot.line("one", [(0, 1), (1, 2), (2, 4)])
    plot.steps("two", shares([3, 1, 2]))
    plot.point("<me>", 1, 3)
    root = drawn(plot)
    paths = [path.get("d") or "" for path in root.iter(f"{SVG}path")]
    assert len(paths) == 2 and "L" in paths[0] and "H" in paths[1] and "V" in paths[1]
    assert len(list(root.iter(f"{SVG}circle"))) == 1
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"a <b> & c", "one", "two", "<me>", "0", "2", "4"} <= {*texts}


def test_what_is_no_number_is_left_out() -> None:
    plot = Plot("t", "x", "y", y_powers=True)
    plot.line("some", [(0, 0), (1, 10), (2, inf), (3, nan), (4, 1000)])
    assert plot.lines[0].points == ((1, 10), (4, 1000))
    assert "1e+03" in plot.svg()
    empty = Plot("t", "x", "y")
    empty.line("none", [(nan, 1)])
    assert empty.lines == [] and drawn(empty) is not None


def test_a_point_of_zero_stands_on_the_lower_edge_of_powers_of_ten_and_says_so() -> None:
    plot = Plot("t", "x", "y", y_powers=True)
    plot.line("line", [(0, 10), (1, 1000)])
    plot.point("here", 1, 100)
    plot.point("today", 0, 0)
    root = drawn(plot)
    above, below = root.iter(f"{SVG}circle")
    assert float(above.get("cy") or "") < float(below.get("cy") or "") <= 420 - 56 + 17 * 1
    beside = [text for text in root.iter(f"{SVG}text") if text.text in ("here", "today (0)")]
    near = [float(text.get("y") or "") for text in beside]
    assert float(above.get("cy") or "") - 8 in near and float(below.get("cy") or "") - 8 in near


def test_shares_begin_at_none_and_end_at_one() -> None:
    assert shares([3, 1, 2, 2]) == [(1, 0.0), (1, 0.25), (2, 0.5), (2, 0.75), (3, 1.0)]
    assert shares([]) == []


def test_many_lines_make_the_picture_higher_and_differ_by_dashes() -> None:
    plot = Plot("t", "x", "y")
    for number in range(40):
        plot.line(f"line {number}", [(0, number), (1, 0)])
    root = drawn(plot)
    height = float((root.get("viewBox") or "").split()[3])
    assert all(0 <= float(text.get("y") or "") <= height for text in root.iter(f"{SVG}text"))
    lines = [(path.get("stroke"), path.get("stroke-dasharray")) for path in root.iter(f"{SVG}path")]
    assert len({*lines[:12]}) == 12
    zero, one = (next(t for t in root.iter(f"{SVG}text") if t.text == name) for name in ("0", "40"))
    assert float(one.get("y") or "") < float(zero.get("y") or "") - 200


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["sim", "run", "--election", "quorum", "--nodes", "3", "--runs", "3", "--jobs", "1"], "pole"),
        (["advise", "--nodes", "10", "--loss", "0.05"], "yours"),
        (["advise", "--nodes", "10", "--loss", "0"], "yours (0)"),
        (["analyze", "announce", "--quantity", "tmax", "--loss", "0.3"], "yours"),
        (["analyze", "arbitration", "--quantity", "detection"], "yours"),
    ],
    ids=lambda part: part[0] if isinstance(part, list) else None,
)
def test_commands_draw_their_numbers(
    words: list[str], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.svg"
    with pytest.raises(SystemExit) as ended:
        main([*words, "--plot", str(path)])
    assert ended.value.code == 0 and capsys.readouterr().out
    texts = [text.text for text in ElementTree.parse(path).getroot().iter(f"{SVG}text")]
    assert name in texts


@pytest.mark.parametrize(
    "words",
    [["sim", "run", "--election", "quorum"], ["analyze", "announce"], ["analyze", "arbitration"]],
    ids=lambda words: " ".join(words[:2]),
)
def test_where_nothing_can_be_drawn_one_line_says_why(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--plot", str(tmp_path / "out.svg")])
    said = capsys.readouterr()
    assert ended.value.code == 2 and said.err.count("\n") == 1 and "--plot" in said.err
    assert not (tmp_path / "out.svg").exists()
