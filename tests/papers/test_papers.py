"""`doyen papers`: what it lists, runs, writes and refuses."""

import json
import re
import subprocess
import sys
from math import inf
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

import doyen_papers.papers
from doyen.cli import main
from doyen.errors import ConfigError
from doyen_papers.cli.papers import command
from doyen_papers.papers import KEYS, all_items, chosen, paper
from doyen_papers.papers.expected import About, Expect
from doyen_papers.papers.item import Budget, Item, Measured, Outcome, Paper, Task
from doyen_papers.papers.le.cells import cell_seed, farthest, narrowest, run_task, task
from doyen_papers.papers.le.figures import from_which
from doyen_papers.papers.page import Chapter
from doyen_papers.papers.page import page as page_of
from doyen_papers.papers.running import Reproduced, expected_of, reproduce
from doyen_papers.papers.verdict import Cell, judge
from doyen_papers.studies.lanes import lanes

LE = [f"le/fig5.{n}" for n in range(6, 14)]
LE += ["le/table5.1", "le/orderings", "le/reference", "le/corrections", "le/perturbations", "le/recurrences"]
LE += ["le/extensions", "le/observed"]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(command, [*arguments], standalone_mode=False)


def test_all_of_chapter_5_is_listed() -> None:
    assert [item.id for item in all_items()][: len(LE)] == LE
    found = json.loads(invoke("list", "--json").stdout)
    assert [item["id"] for item in found["items"]][: len(LE)] == LE
    assert all(item["title"] and item["caption"] for item in found["items"])
    assert "le/fig5.8" in invoke("list").stdout


def test_items_are_chosen_by_id_by_paper_or_all_at_once() -> None:
    assert [item.id for item in chosen(["le/fig5.8", "le/fig5.6", "le/fig5.8"])] == ["le/fig5.6", "le/fig5.8"]
    assert [item.id for item in chosen(["le"])] == [item.id for item in chosen(["all"])][: len(LE)] == LE
    assert [item.id for item in chosen([])] == [item.id for item in chosen(["all"])]


def test_what_starts_real_processes_is_run_only_if_it_is_named_or_asked_for() -> None:
    real = {item.id for item in all_items() if item.live}
    assert real == {"arb/fig8", "arb/fig11", *(f"ctol/fig{number}" for number in range(13, 18))}
    assert not real & {item.id for ids in (["all"], ["arb"], ["ctol"], []) for item in chosen(ids)}
    assert real <= {item.id for item in chosen(["arb", "ctol"], live=True)}
    assert [item.id for item in chosen(["arb/fig8", "arb/fig7"])] == ["arb/fig7", "arb/fig8"]
    assert "real processes" in invoke("list").stdout


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("papers") / "report"
    result = invoke("run", "le/fig5.8", "le/fig5.11", "le/perturbations", "--runs", "100", "--out", str(out), "--json")
    assert result.return_value == 0
    return out, json.loads(result.stdout)


def test_json_is_one_object_and_the_same_as_the_file(report: tuple[Path, dict[str, Any]]) -> None:
    out, printed = report
    assert json.loads((out / "results.json").read_text()) == printed
    assert [item["id"] for item in printed["items"]] == ["le/fig5.8", "le/fig5.11", "le/perturbations"]
    cells = [cell for item in printed["items"] for cell in item["cells"]]
    assert {"published", "ours", "stderr", "tolerance", "verdict", "setting"} <= set(cells[0])
    assert printed["in_band"] + printed["misses"] + printed["beyond_the_paper"] == len(cells)
    assert {cell["verdict"] for cell in cells} == {"in band", "miss", "beyond the paper"}


def test_the_page_needs_nothing_else(report: tuple[Path, dict[str, Any]]) -> None:
    page = (report[0] / "index.html").read_text()
    # Two figures, one of them on the first page, too, and the lanes of one run.
    assert page.count("<svg") == 4 and page.count("</svg>") == 4
    assert "One run of le-s, 5 members, seed 1: n4 crashes, n3 leads, n4 returns." in page
    assert not re.search(r'(src|href)="(?!#|http://www\.w3\.org)', page)
    assert 'name="viewport"' in page
    assert "What held" in page and "What did not hold" in page
    assert "doyen papers run le/fig5.8 --runs 100 --seed 1 --engine kernel" in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', page)) <= set(ids)


@pytest.mark.parametrize("key", KEYS)
def test_every_paper_has_the_lanes_of_a_run(key: str) -> None:
    drawn = lanes(key, 3)
    assert drawn is not None and drawn == lanes(key, 3) != lanes(key, 4)
    svg, words = drawn
    first, following = re.search(r": (n\d) crashes, (n\d) leads", words).groups()  # type: ignore[union-attr]
    assert first != following and f"{first} is down" in svg
    assert f"{first} is elected" in svg and f"{following} is elected" in svg


def test_the_report_opens_with_what_was_claimed_and_what_came_of_it(report: tuple[Path, dict[str, Any]]) -> None:
    page = (report[0] / "index.html").read_text()
    opening = page[: page.index("How to read the rest")]
    said = re.sub(r"<svg.*?</svg>", "", opening, flags=re.DOTALL)
    judged = [cell for item in report[1]["items"] for cell in item["cells"] if cell["kind"]]
    assert f"Of {len(judged)} numbers and claims to check, <b>{report[1]['in_band']}</b>" in said
    places = [said.index(words) for words in ("What it claims.", "What held.", "What did not hold, and why.")]
    assert places == sorted(places)
    assert opening.count("<svg") == 1
    # A miss leads to the experiment that shows why: the same curves under load.
    assert re.search(r'Shown by <a href="#le-fig5-11">le/fig5.11</a> \([^<]* from N, load\): ', said)


def opening_of(page: str) -> str:
    """Return the words of a report's first page, without its pictures."""
    return re.sub(r"<svg.*?</svg>", "", page[: page.index("How to read the rest")], flags=re.DOTALL)


def test_every_miss_and_all_that_is_not_judged_is_on_the_first_page() -> None:
    """Also a miss of no claim, the second reason of one claim, and an item without an expectation."""

    def cell(where: str, value: float, **more: Any) -> Cell:
        expect = Expect(item="toy/a", where="*", kind="exact", value=value, reason="r", source="s", **more)
        return judge(Measured(where=where, mean=5.0, stderr=0.0), expect)

    cells = [
        cell("no claim", 6.0, explained="misprinted", shown_by="toy/a: held"),
        cell("held", 5.0, says="it is five"),
        cell("once", 7.0, says="it is seven", explained="too few", shown_by="toy/a: held"),
        cell("twice", 7.0, says="it is seven", explained="too few", shown_by="toy/a: held"),
        cell("otherwise", 7.0, says="it is seven", afterwards="too many", published=7.0),
        judge(
            Measured(where="range", mean=5.0, stderr=0.0),
            Expect(item="toy/a", where="*", kind="inferred", value=45.0, tolerance=15.0, reason="r", source="s"),
        ),
    ]
    lost = "the figure is lost"
    done = [
        Reproduced(
            item=Item(
                id=name, title="A", caption="", tasks=(), outcome=lambda results: Outcome(cells=[]), unjudged=why
            ),
            cells=found,
            plot=None,
            runs=0,
            command="",
        )
        for name, found, why in (("toy/a", cells, ""), ("toy/b", [], lost))
    ]
    made = page_of([Chapter(About(key="toy", title="T", source="s", about="a"), done, {})], "facts")
    said = opening_of(made)
    assert "no claim: 6 expected, 5 here (no claim). <i>Why:</i> misprinted." in said
    assert "it is seven (in 3 of 3 places): 7 expected, 5 here (once)" in said and "(twice)" not in said
    assert "7 there, 5 here (otherwise). <i>Why:</i> too many." in said  # The paper prints that one.
    assert "45 ± 15 expected, 5 here (range)" in said
    assert f"toy/b</a>, A: {lost}." in said
    rest = made[made.index("How to read the rest") :]
    assert rest.count('Shown by <a href="#toy-a">toy/a</a> (held): 5.') == 3  # In the tables, too.


def test_what_held_of_one_item_is_one_bullet_whose_numbers_unfold() -> None:
    def cell(where: str, says: str) -> Cell:
        expect = Expect(item="toy/a", where="*", kind="exact", value=5.0, reason="r", source="s", says=says)
        return judge(Measured(where=where, mean=5.0, stderr=0.0), expect)

    def outcome(results: Any) -> Outcome:
        return Outcome(cells=[])

    cells = {
        "toy/a": [cell("one", "it is five"), cell("two", "it is odd"), cell("three", "it is odd")],
        "toy/b": [cell("four", "it is odd"), cell("five", "it is prime")],
    }
    done = [
        Reproduced(
            item=Item(id=name, title="A", caption="", tasks=(), outcome=outcome),
            cells=found,
            plot=None,
            runs=0,
            command="",
        )
        for name, found in cells.items()
    ]
    said = opening_of(page_of([Chapter(About(key="toy", title="T", source="s", about="a"), done, {})], "facts"))
    held = said[said.index("What held.") :]
    assert "<li>it is five; it is odd.<details><summary>the 2 numbers</summary>" in held
    assert "<li>it is five: 5 (one)</li><li>it is odd: 5 (two), and so in all 3 places</li>" in held
    assert '<a href="#toy-a">toy/a</a>, A.' in held
    assert "<li>it is prime: 5 (five)</li></ul>" in held  # Alone, it needs no unfolding.


def test_plots_are_sound_files(report: tuple[Path, dict[str, Any]]) -> None:
    for name in ("le-fig5.8", "le-fig5.11"):
        assert ElementTree.parse(report[0] / f"{name}.svg").getroot().tag.endswith("svg")
        assert (report[0] / f"{name}.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert not list(report[0].glob("le-perturbations*"))


def test_plots_leave_matplotlib_as_it_was() -> None:
    """In a process of its own: no pyplot, no backend chosen, no setting changed."""
    program = """
import matplotlib, sys
def settings():
    return {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}  # Asking chooses one.
before = settings()
from doyen_papers.papers.item import Curve, Panel, Plot
from doyen_papers.papers.plots import draw
curve = Curve(label="a", legend="a", colour=0, xs=[1.0, 2.0], ys=[1.0, None], errors=[0.1, None])
one, two = (draw(Plot(panels=[Panel(curves=[curve])], x_label="x", y_label="y"), [], "a", ()) for _ in range(2))
assert one.svg == two.svg and one.png == two.png
assert settings() == before and "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_cell_can_be_run_again_by_its_own_command(report: tuple[Path, dict[str, Any]]) -> None:
    cell = next(cell for cell in report[1]["items"][0]["cells"] if cell["where"] == "SUP, uncorrelated, N=10")
    words = cell["command"].split()
    assert words[:3] == ["doyen", "sim", "announce"]
    done = subprocess.run([sys.executable, "-m", "doyen", *words[1:]], check=True, capture_output=True)
    assert json.loads(done.stdout)["tmax"] == {"mean": cell["ours"], "stderr": cell["stderr"]}


def test_the_number_of_jobs_changes_nothing(tmp_path: Path) -> None:
    reports = [
        invoke("run", "le/table5.1", "--runs", "50", "--jobs", jobs, "--out", str(tmp_path), "--json").stdout
        for jobs in ("1", "2")
    ]
    assert reports[0] == reports[1]


def test_the_machines_can_be_asked_instead(tmp_path: Path) -> None:
    small = Item(
        id="le/small",
        title="small",
        caption="small",
        tasks=(task("LE-S", 5, "correlated"),),
        outcome=lambda results: Outcome(
            cells=[Measured(where=next(iter(results.values())).engine, mean=1.0, stderr=0.0)]
        ),
    )
    budget = Budget(runs=5, seed=1, jobs=1, engine="machine")
    (done,) = reproduce(paper("le"), [small], expected_of(paper("le")), budget, lambda what, total: _silent())
    assert done.cells[0].where == "machine"
    assert run_task(small.tasks[0], budget, None).trace_hash


class _silent:
    def __enter__(self) -> Any:
        return lambda runs: None

    def __exit__(self, *error: object) -> None: ...


# A paper of our own, to be wrong about.


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One item, which measures 5.00 ± .01; its expected.toml is the caller's to write."""
    item = Item(
        id="toy/five",
        title="five",
        caption="It is five.",
        tasks=(Task("anything"),),
        outcome=lambda results: Outcome(cells=[Measured(where="five", mean=5.0, stderr=0.01)]),
    )
    found = Paper(key="toy", folder=tmp_path, items=(item,), study=lambda *_: None, runs={"kernel": 10, "machine": 10})
    for module in (doyen_papers.papers, sys.modules["doyen_papers.cli.papers"]):
        monkeypatch.setattr(module, "paper", lambda key: found)
    monkeypatch.setattr(doyen_papers.papers, "KEYS", ("toy",))
    return tmp_path


def expecting(folder: Path, value: float, further: str = "", where: str = "five", item: str = "toy/five") -> None:
    (folder / "expected.toml").write_text(
        '[paper]\nkey = "toy"\ntitle = "T"\nsource = "s"\nabout = "a"\n[[expect]]\n'
        f'item = "{item}"\nwhere = "{where}"\nkind = "exact"\nvalue = {value}\nreason = "r"\nsource = "s"\n{further}'
    )


@pytest.mark.parametrize(
    ("value", "further", "misses", "unexplained", "strict"),
    [
        (5.0, "", 0, 0, 0),
        (6.0, "", 1, 1, 1),
        (4.0, 'says = "it is four"', 1, 1, 1),
        (6.0, 'explained = "six was a printing error"', 1, 0, 0),
        (6.0, 'afterwards = "six was a printing error"', 1, 0, 0),
    ],
)
def test_a_wrong_expectation_is_a_miss(
    toy: Path, value: float, further: str, misses: int, unexplained: int, strict: int
) -> None:
    expecting(toy, value, further)
    out = toy / "report"
    result = invoke("run", "--out", str(out), "--json")
    assert result.return_value == 0
    found = json.loads(result.stdout)
    assert (found["misses"], found["misses_unexplained"]) == (misses, unexplained)
    assert invoke("run", "--strict", "--out", str(out)).return_value == strict
    text = invoke("run", "--out", str(out)).stdout
    assert ("miss" in text) == bool(misses)
    page = (out / "index.html").read_text()
    if "four" in further:
        assert "What did not hold" in page and "it is four" in page and "needs looking at" in page


def test_an_expectation_nobody_answers_is_refused(toy: Path) -> None:
    expecting(toy, 5.0, where="six")
    with pytest.raises(ConfigError, match="number 1 where = 'six'"):
        command.main(["run", "--out", str(toy)], standalone_mode=False)
    expecting(toy, 5.0, item="toy/six")
    with pytest.raises(ConfigError, match=r"number 1 item = 'toy/six'.*toy/five"):
        expected_of(doyen_papers.papers.paper("toy"))


# Refusals.


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["le/fig9.9"], r"'le/fig9\.9'.*le/fig5\.6.*le/perturbations"),
        (["le/fig5.6", "nonsense"], "'nonsense'"),
        (["le/fig5.6", "--runs", "1"], "--runs 1"),
        (["le/fig5.6", "--jobs", "-1"], "--jobs -1"),
        (["le/fig5.6", "--out", "/dev/null/report"], "--out /dev/null/report"),
        (["le/fig5.6", "--engine", "steam"], "--engine"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(
    arguments: list[str], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["papers", "run", *arguments])
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert re.search(complaint, said.err) and said.out == ""
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit) as ended:
        main(["papers", "run", "le/fig5.6", "--out", str(tmp_path / "report")])
    assert ended.value.code == 2
    assert "pip install 'doyen[papers]'" in capsys.readouterr().err
    assert not (tmp_path / "report").exists()


# Small helpers.


def test_where_a_curve_stays_above_a_level() -> None:
    assert from_which([10, 20, 30], [-1.0, 1.0, 2.0], 0.0) == 15
    assert from_which([10, 20, 30, 40], [1.0, -1.0, 1.0, 2.0], 0.0) == 25  # Not where it fell back again.
    assert from_which([10, 20], [1.0, -1.0], 0.0) is None
    assert from_which([10, 20], [1.0, 2.0], 0.0) == 10


def test_the_worst_gap_is_the_one_that_says_most_against_the_claim() -> None:
    gaps = [(10, 0.5, 0.1), (20, 0.4, 0.01), (30, 0.3, 0.2)]
    assert narrowest(gaps)[0] == 30
    assert farthest(gaps, 0.5)[0] == 20
    assert narrowest([*gaps, (40, -inf, 0.0)])[0] == 40  # What never happened.


def test_neighbouring_cells_have_seeds_of_their_own() -> None:
    settings = [task(name, n, "correlated").setting for name in ("LE-S", "SUP") for n in range(2, 50)]
    assert len({cell_seed(1, setting) for setting in settings}) == len(settings)
    assert cell_seed(1, settings[0]) != cell_seed(2, settings[0])
