"""Verdicts, which must be able to fail in both directions, and the file they come from."""

from pathlib import Path

import pytest

from doyen.errors import ConfigError
from doyen_papers.papers import KEYS, paper
from doyen_papers.papers.expected import Expect, read_expected
from doyen_papers.papers.item import Measured
from doyen_papers.papers.running import expected_of
from doyen_papers.papers.verdict import judge


def expect(**fields: object) -> Expect:
    return Expect(item="le/x", where="*", reason="because", source="§1", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "ours", "stderr", "verdict"),
    [
        (expect(kind="exact", value=5.0), 5.034, 0.01, "in band"),
        (expect(kind="exact", value=5.0), 5.036, 0.01, "miss"),
        (expect(kind="exact", value=5.0), 4.964, 0.01, "miss"),
        (expect(kind="exact", value=5.0, tolerance=0.002), 5.036, 0.01, "in band"),  # Its last digit was rounded.
        (expect(kind="exact", value=5.0, stderr=0.01), 5.049, 0.01, "in band"),  # It was simulated itself.
        (expect(kind="exact", value=5.0, stderr=0.01), 5.050, 0.01, "miss"),
        (expect(kind="exact", value=1.0), 1.0 + 1e-12, 0.0, "in band"),  # The same in every run.
        (expect(kind="exact", value=1.0), 1.001, 0.0, "miss"),
        (expect(kind="printed", value=6.0), 5.0, 0.1, "miss"),
        (expect(kind="published", value=200.0, published=200.0, tolerance=50.0), 249.0, None, "in band"),
        (expect(kind="published", value=200.0, published=200.0, tolerance=50.0), 251.0, None, "miss"),
        # Noise widens no band.
        (expect(kind="published", value=200.0, published=200.0, tolerance=50.0), 249.0, 49.0, "in band"),
        (expect(kind="published", value=200.0, published=200.0, tolerance=50.0), 200.0, 51.0, "miss"),  # Nor hits one.
        (expect(kind="published", value=200.0, published=200.0, tolerance=50.0), 251.0, 1e9, "miss"),
        (expect(kind="inferred", value=5.6, tolerance=0.1), 5.45, 0.01, "miss"),
        (expect(kind="claim", value=0.0), 0.036, 0.01, "in band"),
        (expect(kind="claim", value=0.0), 0.034, 0.01, "miss"),  # Not clearly above.
        (expect(kind="claim", value=0.0), -0.036, 0.01, "miss"),
        (expect(kind="claim", value=0.0), 0.036, 0.0, "in band"),  # There is no chance in it.
        (expect(kind="claim", value=0.0), 0.0, 0.0, "miss"),  # Equal is not above.
        (expect(kind="least", value=1.0), 1.0, None, "in band"),
        (expect(kind="least", value=1.0), 0.99, None, "miss"),
        (expect(kind="claim", value=0.0), 9.9, None, "miss"),  # How far off it may be is not known.
        (expect(kind="exact", value=5.0), None, None, "miss"),  # It never happened.
        (None, 5.0, 0.1, "beyond the paper"),
    ],
)
def test_verdict(wanted: Expect | None, ours: float | None, stderr: float | None, verdict: str) -> None:
    assert judge(Measured(where="a", mean=ours, stderr=stderr), wanted).verdict == verdict


@pytest.mark.parametrize(
    ("wanted", "ours", "stderr", "edge"),
    [
        (expect(kind="published", value=200.0, published=200.0, tolerance=50.0), 245.0, 2.6, True),
        (expect(kind="published", value=200.0, published=200.0, tolerance=50.0), 255.0, 2.6, True),
        (expect(kind="published", value=200.0, published=200.0, tolerance=50.0), 245.0, 2.4, False),
        (expect(kind="published", value=200.0, published=200.0, tolerance=50.0), 145.0, 2.6, True),  # The lower one.
        (expect(kind="published", value=200.0, published=200.0, tolerance=50.0), 249.9, None, False),
        (expect(kind="exact", value=5.0), 5.030, 0.01, True),  # Three of 3.5 standard errors.
        (expect(kind="exact", value=5.0), 5.044, 0.01, True),
        (expect(kind="exact", value=5.0), 5.024, 0.01, False),
        (expect(kind="claim", value=0.0), 0.036, 0.01, True),
        (expect(kind="claim", value=0.0), 0.046, 0.01, False),
        (expect(kind="claim", value=0.0), 0.0, None, False),
        (expect(kind="exact", value=5.0), None, None, False),
        (None, 5.0, 0.1, False),
    ],
)
def test_a_verdict_that_another_seed_may_turn_is_at_the_edge(
    wanted: Expect | None, ours: float | None, stderr: float | None, edge: bool
) -> None:
    assert judge(Measured(where="a", mean=ours, stderr=stderr), wanted).edge is edge


def test_without_a_value_the_closed_form_beside_the_cell_is_meant() -> None:
    assert judge(Measured(where="a", mean=5.0, stderr=0.1, formula=5.1), expect(kind="exact")).verdict == "in band"
    assert judge(Measured(where="a", mean=5.0, stderr=0.1, formula=5.5), expect(kind="exact")).verdict == "miss"
    with pytest.raises(ConfigError, match="no closed form"):
        judge(Measured(where="a", mean=5.0, stderr=0.1), expect(kind="exact"))


def test_an_explained_miss_is_a_miss() -> None:
    cell = judge(Measured(where="a", mean=3.0, stderr=0.1), expect(kind="exact", value=9.0, explained="it is wrong"))
    assert (cell.verdict, cell.explained) == ("miss", "it is wrong")


@pytest.mark.parametrize("key", KEYS)
def test_every_item_is_judged_or_says_why_not(key: str) -> None:
    expected = expected_of(paper(key))
    assert expected.paper.key == key
    judged = {expect.item for expect in expected.expects}
    assert judged | {item.id for item in paper(key).items if item.unjudged} == {item.id for item in paper(key).items}
    assert not [item.id for item in paper(key).items if item.unjudged and item.id in judged]


PAPER = '[paper]\nkey = "x"\ntitle = "X"\nsource = "a book"\nabout = "about"\n'
GOOD = 'item = "x/a"\nwhere = "*"\nkind = "exact"\nvalue = 1.0\nreason = "r"\nsource = "s"\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[paper\n", "cannot be read"),
        (PAPER.replace("title", "titel"), "titel"),
        ('[[expect]]\nitem = "x/a"\n', r"\[paper\].*key"),
        (PAPER + "[expect]\n" + GOOD, r"\[\[expect\]\]"),
        (PAPER + "[[wish]]\n" + GOOD, "wish"),
        (PAPER + "[[expect]]\n" + GOOD + "[[expect]]\n" + GOOD.replace("reason", "reasons"), "number 2.*reasons"),
        (PAPER + "[[expect]]\n" + GOOD.replace('"exact"', '"roughly"'), "number 1.*kind.*roughly.*inferred"),
        (PAPER + "[[expect]]\n" + GOOD.replace("1.0", '"one"'), "number 1.*value"),
        (PAPER + "[[expect]]\n" + GOOD + "tolerance = -1\n", "number 1.*tolerance.*-1"),
        (PAPER + "[[expect]]\n" + GOOD + "stderr = inf\n", "number 1.*stderr"),
        (PAPER + "[[expect]]\n" + GOOD.replace('"r"', '" "'), "number 1.*reason"),
        (PAPER + "[[expect]]\n" + GOOD.replace("exact", "published"), "number 1.*tolerance"),
        (
            PAPER + "[[expect]]\n" + GOOD.replace("exact", "published") + "tolerance = 1\n",
            "number 1.*published.*prints",
        ),
        (PAPER + "[[expect]]\n" + GOOD + "published = 2.0\n", "number 1.*published.*value = 1"),
        (PAPER + "[[expect]]\n" + GOOD.replace("exact", "inferred") + "tolerance = 1\npublished = 1.0\n", "midpoint"),
        (PAPER + "[[expect]]\n" + GOOD.replace("exact", "claim").replace("value = 1.0\n", ""), "number 1.*value"),
        (PAPER + "[[expect]]\n" + GOOD.replace('source = "s"\n', ""), "number 1.*source"),
    ],
)
def test_what_is_wrong_in_expected_toml_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "expected.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        read_expected(path)


def test_expected_toml_that_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "expected.toml"
    path.write_text(PAPER + "[[expect]]\n" + GOOD.replace('"*"', '"LE-S, N=*"'))
    expected = read_expected(path)
    assert expected.of("x/a", "LE-S, N=10") is expected.expects[0]
    assert expected.of("x/a", "SUP, N=10") is None
    assert expected.of("x/b", "LE-S, N=10") is None
