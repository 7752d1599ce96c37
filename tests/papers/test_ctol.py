"""[CTOL] reproduced, in its quick form: what has no chance in it whole, the rest by one small point."""

from pathlib import Path

import pytest

from doyen.sim.runs import Figure
from doyen.sim.streams import Streams
from doyen_papers.papers import paper
from doyen_papers.papers.cells import difference, gain, ratio
from doyen_papers.papers.ctol.cells import Asked, elections, run_task, statistics, straightness
from doyen_papers.papers.ctol.points import POINTS, Point, traces
from doyen_papers.papers.ctol.tables import needed
from doyen_papers.papers.item import Budget
from doyen_papers.papers.running import expected_of, reproduce
from doyen_papers.studies.ctolerant import TABLE_I
from doyen_papers.studies.ground import CROWDS, draw_places
from doyen_papers.studies.memstats import percentile, trace_stats
from doyen_papers.studies.memtrace import Header, MemTrace

EXACT = ("lemma1", "fig1", "fig2", "theorem1", "theorem2", "theorem3")


class Silent:
    def __enter__(self) -> object:
        return lambda runs: None

    def __exit__(self, *error: object) -> None: ...


@pytest.mark.parametrize("name", EXACT)
def test_lemma_walk_throughs_and_theorems_hold(name: str) -> None:
    found = paper("ctol")
    items = [item for item in found.items if item.id == f"ctol/{name}"]
    budget = Budget(runs=4, seed=1, jobs=1, engine="machine")
    (done,) = reproduce(found, items, expected_of(found), budget, lambda what, total: Silent())  # type: ignore[arg-type, return-value]
    assert done.cells and all(cell.verdict == "in band" for cell in done.cells)


def test_a_wrong_machine_would_be_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Theorem 1's check can fail: with one answer fewer than c+1 somebody else is elected."""
    from doyen.election.churn.standpoint import Standpoint

    monkeypatch.setattr(Standpoint, "asked_count", lambda self: max(1, self.missing_max()))
    broken = run_task(
        elections(Point(), "base").__class__(Asked(question="theorem1"), "machine"),
        Budget(runs=40, seed=1, jobs=1, engine="machine"),
        None,
    )
    assert broken.of["wrong"] is not None and broken.of["wrong"].mean > 0


def test_traces_are_recorded_once_and_elections_run_over_them(tmp_path: Path) -> None:
    point = Point(size=32)
    budget = Budget(runs=2, seed=1, jobs=1, engine="machine", work=str(tmp_path))
    first = run_task(elections(point, "hybrid"), budget, None)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "traces").iterdir()}
    assert len(kept) == point.trace_count
    assert run_task(elections(point, "hybrid"), budget, None) == first
    assert run_task(statistics(point), budget, None).of["missing_mean"] is not None
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "traces").iterdir()} == kept
    assert set(traces(point, str(tmp_path), seed=1, jobs=1)) == {str(path) for path in kept}
    assert first.of["agreed"] is not None and first.of["agreed"].mean == 1


def test_every_cell_of_table_i_is_a_point() -> None:
    assert {(point.topology, point.size, point.drop): point.c for point in POINTS} == TABLE_I


def test_ctol_cluster_sizes_are_the_papers() -> None:
    places = draw_places("cluster", 49, 15.0, Streams(1).of("x"))
    assert CROWDS == (7, 7, 9, 10, 16) and len(places) == 49


def test_ctol_theorem_4_the_strict_bound() -> None:
    assert [needed(p, n) for p, n in ((0.34, 32), (0.43, 49), (0.48, 64), (0.5, 128), (0.5, 256))] == [4, 5, 6, 8, 9]


def test_c_and_p_of_a_trace_by_hand() -> None:
    """Three nodes: a drops c at 200 ms, and only b has suspected a."""
    header = Header(membership="medley", drop=0.1, seed=1, nodes=["a", "b", "c"], duration_ms=400)
    full = [(0, i, j, "a", 0) for i in range(3) for j in range(3) if i != j]
    changes = [*full, (200, 0, 2, "f", 0), (200, 1, 0, "s", 1)]
    found = trace_stats(MemTrace(header, changes))
    assert (found.missing_max, found.missing_mean) == (1.0, pytest.approx(2 / 9))  # c, at two of three instants.
    assert found.p is None  # Lists are compared at 0 only, when nobody was suspected.
    listed = trace_stats(MemTrace(header, [*full[:2], (0, 1, 0, "s", 1), *full[3:]]))
    assert listed.p == pytest.approx(2 / 3)  # Of three lists, b's alone has a.


def test_small_sums() -> None:
    from collections import Counter

    assert percentile(Counter({0: 99, 5: 1}), 0.99) == 0 and percentile(Counter({0: 98, 5: 2}), 0.99) == 5
    a, b = Figure(2.0, 0.2), Figure(4.0, 0.4)
    assert ratio("r", a, b).mean == 0.5 and ratio("r", a, b, less=1.0).mean == -0.5
    assert gain("g", a, b).mean == 0.5 and difference("d", b, a).mean == 2.0
    assert ratio("r", a, None).mean is None and difference("d", None, a).mean is None
    assert straightness((1.0, 2.0, 3.0), [a, b, Figure(6.0, None)]) == pytest.approx(1.0)
    bent = straightness((1.0, 2.0, 3.0), [a, b, a])
    assert bent is not None and bent < 0.1
