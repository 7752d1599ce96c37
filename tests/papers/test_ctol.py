"""[CTOL] reproduced, in its quick form: what has no chance in it whole, the rest by one small point."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from doyen.sim.runs import Figure, run_seed
from doyen.sim.streams import Streams
from doyen_papers.papers import paper
from doyen_papers.papers.cells import difference, outcomes, paired, paired_gain, paired_ratio
from doyen_papers.papers.ctol import cells
from doyen_papers.papers.ctol.cells import MODES, Asked, elections, run_task, statistics, straightness
from doyen_papers.papers.ctol.points import POINTS, Point, recorded
from doyen_papers.papers.ctol.tables import needed
from doyen_papers.papers.item import Budget, Task
from doyen_papers.papers.running import expected_of, reproduce
from doyen_papers.studies.ctolerant import TABLE_I, ChurnSetting, Experiment, simulate
from doyen_papers.studies.ground import CROWDS, draw_places
from doyen_papers.studies.memstats import percentile, trace_stats
from doyen_papers.studies.memtrace import Header, MemTrace, Stage

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
        Task(Asked(question="theorem1"), "machine"),
        Budget(runs=40, seed=1, jobs=1, engine="machine"),
        None,
    )
    assert broken.of["wrong"] is not None and broken.of["wrong"].mean > 0


def test_every_run_has_a_trace_of_its_own_and_all_modes_share_it(tmp_path: Path) -> None:
    point = Point(size=32)
    budget = Budget(runs=3, seed=1, jobs=1, engine="machine", work=str(tmp_path))
    first = run_task(elections(point), budget, None)
    places = {tuple(map(tuple, recorded(point, run_seed(1, run)).header.places)) for run in range(budget.runs)}
    assert len(places) == budget.runs  # Nobody stands where somebody of another run does.
    assert run_task(statistics(point), budget, None).of["missing_mean"] is not None
    labels = [label for label, mode in MODES.items() if mode.exclusion == "union"]
    assert all(first.columns[f"{label}: agreed"] == [1.0] * budget.runs for label in labels)


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are kept as they end; a line that was torn, other code and other seeds are made anew."""
    made: list[int] = []

    def count(point: Point, seed: int) -> dict[str, float | None]:
        made.append(seed)
        return {"x": float(seed % 97), "y": None}

    monkeypatch.setattr(cells, "elected", count)
    task, few = elections(Point(size=32)), Budget(runs=3, seed=1, jobs=1, engine="machine", work=str(tmp_path))
    first = run_task(task, few, None)
    (path,) = (tmp_path / "runs").iterdir()
    assert len(made) == len(path.read_text().split()) == 3
    assert run_task(task, few, None) == first and len(made) == 3
    path.write_bytes(path.read_bytes()[:-9])  # The process was killed while it wrote its last run.
    assert run_task(task, replace(few, runs=5), None).columns["x"][:3] == first.columns["x"]
    assert made[3:] == [run_seed(1, 2), run_seed(1, 3), run_seed(1, 4)]
    assert run_task(task, replace(few, runs=5), None).runs == 5 and len(made) == 6
    run_task(task, replace(few, seed=2), None)
    assert len(made) == 9
    monkeypatch.setattr(cells, "code", lambda: "other code")
    run_task(task, few, None)
    assert len(made) == 12


def test_as_printed_nothing_is_confirmed_and_the_same_leader_is_elected(tmp_path: Path) -> None:
    """What our confirmation costs is bytes, and what it changes is not the leader."""
    point, costs = Point(size=32), []
    for seed in range(1, 5):
        stage = Stage(recorded(point, seed))
        ours, printed, base = (
            simulate(ChurnSetting(variant=variant, confirmed=confirmed, missing_max="2"), seed, stage=stage)  # type: ignore[arg-type]
            for variant, confirmed in (("optimistic", True), ("optimistic", False), ("base", True))
        )
        assert printed.agreed and ours.agreed
        assert printed.hash_rank == ours.hash_rank == base.hash_rank == 0
        assert printed.completion_final == printed.completion  # Every LEADER stands as it is.
        costs.append((printed.bytes or 0) / (ours.bytes or 1))
    assert sum(costs) < 0.95 * len(costs)


def test_gossip_can_be_left_to_acks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pings carry none, no ping has an update, and news still spread."""
    from doyen.membership.swim.messages import Ack, Ping

    carried: Counter[tuple[str, bool]] = Counter()
    for gossip in ("all", "acks"):
        experiment = Experiment(
            ChurnSetting(nodes=12, drop=0.2, gossip=gossip, warmup_s=20.0, variant="local"), 1, None
        )  # type: ignore[arg-type]

        def on_send(node: object, channel: str, message: object, now: int, gossip: str = gossip) -> None:
            if isinstance(message, Ping | Ack) and message.updates:
                carried[gossip, isinstance(message, Ping)] += 1

        experiment.sim.send_watchers.append(on_send)
        experiment.begin()
    assert carried["all", True] and carried["all", False] and carried["acks", False]
    assert not carried["acks", True]


def test_what_is_private_is_told_to_nobody_but_whom_it_concerns() -> None:
    from doyen.membership.swim.messages import Word

    told: Counter[str] = Counter()
    for gossip in ("all", "private"):
        experiment = Experiment(
            ChurnSetting(nodes=12, drop=0.2, gossip=gossip, warmup_s=40.0, variant="local"),  # type: ignore[arg-type]
            1,
            None,
        )

        def on_send(node: object, channel: str, message: Any, now: int, gossip: str = gossip) -> None:
            for update in getattr(message, "updates", ()):
                if update.word != int(Word.ALIVE):
                    told[gossip] += 1

        experiment.sim.send_watchers.append(on_send)
        experiment.begin()
        assert any(seen.suspicion_count for node in experiment.nodes for seen in experiment.view(node).members.values())
    assert told["all"] > 50 * told["private"]


def test_a_far_member_is_told_sooner_where_leader_is_repeated_evenly() -> None:
    """The longest of 60 runs of Hybrid at drop .15, seed 2: eight hops, and one copy in ten seconds from 30 s on."""
    seed = 1127483384373644094
    stage = Stage(recorded(Point(drop=0.15), seed))
    slow, even = (
        simulate(ChurnSetting(variant="hybrid", missing_max="10", evenly=evenly), seed, stage=stage).completion
        for evenly in (False, True)
    )
    assert slow is not None and even is not None and even < 20 < 90 < slow


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
    assert percentile(Counter({0: 99, 5: 1}), 0.99) == 0 and percentile(Counter({0: 98, 5: 2}), 0.99) == 5
    a, b = Figure(2.0, 0.2), Figure(4.0, 0.4)
    assert difference("d", b, a).mean == 2.0 and difference("d", None, a).mean is None
    assert straightness((1.0, 2.0, 3.0), [a, b, Figure(6.0, None)]) == pytest.approx(1.0)
    bent = straightness((1.0, 2.0, 3.0), [a, b, a])
    assert bent is not None and bent < 0.1


def test_what_belongs_together_is_compared_run_by_run() -> None:
    """Runs differ by a factor of 100, and one column is always half of the other: there is no error in that."""
    found = outcomes([{"a": x, "b": 2 * x} for x in (1.0, 10.0, 100.0)] + [{"a": None, "b": 5.0}])
    assert (paired_ratio("r", found, "a", "b").mean, paired_ratio("r", found, "a", "b").stderr) == (0.5, 0.0)
    assert paired_gain("g", found, "a", "b").mean == 0.5
    assert paired("d", found, "b", "a").mean == pytest.approx(37.0)
    assert difference("d", Figure(1.0, None), Figure(0.5, 0.1)).stderr is None  # One run has no error.
    assert paired_ratio("r", found, "a", "b", less=1.0).mean == -0.5
    assert paired_ratio("r", outcomes([{"a": 1.0, "b": 2.0}]), "a", "b").stderr is None
    assert paired_ratio("r", outcomes([{"a": 1.0, "b": None}]), "a", "b").mean is None
