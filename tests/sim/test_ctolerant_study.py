"""Churn-tolerant elections by simulation: Lemma 1, the paper's bands, traces; every option bites.  [CTOL §VI]"""

import json
from collections import Counter
from math import log
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from doyen.cli import app
from doyen.core.config import options
from doyen.core.ids import NodeId
from doyen.election.churn.standpoint import hash_rank
from doyen.errors import ConfigError
from doyen.sim.runs import Figure
from doyen.sim.streams import Streams
from doyen_papers.studies.ctolerant import MEMBERSHIP, TABLE_I, ChurnSetting, Experiment, Summary, record, study
from doyen_papers.studies.ground import CROWDS, REACH_M, build_ground, draw_places
from doyen_papers.studies.memtrace import MemTrace, read

QUIET: dict[str, Any] = {"drop": 0.0, "topology": "random", "nodes": 16}


def run(runs: int = 5, *, seed: int = 5, jobs: int = 1, **given: Any) -> Summary:
    return study(ChurnSetting(**given), runs=runs, seed=seed, jobs=jobs)


def mean(summary: Summary, name: str) -> float:
    found = summary.figures[name]
    assert found is not None, f"{name} never happened"
    return found.mean


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Medley on 32 nodes with a tenth lost per hop, the five lowest hashes handicapped."""
    path = tmp_path_factory.mktemp("trace") / "medley.jsonl"
    setting = ChurnSetting(nodes=32, drop=0.1, handicap=True, warmup_s=60.0)
    record(setting, 11, duration_s=60.0).write(path)
    return str(path)


@pytest.mark.parametrize("which", [0, -1])
def test_who_starts_first_knows_how_far_the_others_are(which: int) -> None:
    """Routes lead through nodes that have not started yet: Medley asks for distances once, at its own start."""
    experiment = Experiment(ChurnSetting(nodes=32, drop=0.1, warmup_s=0.0), 3, None)
    experiment.begin()
    node = experiment.nodes[which]
    turns = Counter(node.ports[MEMBERSHIP].machine.targets.next() for _ in range(2000))
    hops = {other.name: len(experiment.ground.path(node.index, other.index) or ()) for other in experiment.nodes}
    near, far = ([turns[name] for name, away in hops.items() if low <= away <= high] for low, high in ((1, 1), (3, 99)))
    assert sum(near) / len(near) > 3 * sum(far) / len(far)


@pytest.mark.parametrize("variant", ["base", "preferred"])
@pytest.mark.parametrize(("c", "f"), [(0, 0), (3, 0), (4, 2)])
def test_ctol_lemma_1_exactly(variant: str, c: int, f: int) -> None:
    summary = run(variant=variant, missing_max=str(c), failure_max=f, **QUIET)
    assert mean(summary, "unicasts") == 2 * (c + f + 1) + 1
    assert mean(summary, "multicasts") == mean(summary, "leader_changes") == summary.agreement == 1
    assert mean(summary, "hash_rank") == 0


def test_optimistic_variants_confirm_once_where_views_agree() -> None:
    for variant in ("optimistic", "hybrid"):
        summary = run(variant=variant, missing_max="3", **QUIET)
        assert mean(summary, "unicasts") == 2 * 4 + 2
        assert mean(summary, "multicasts") == 2
        assert mean(summary, "leader_changes") == 1
        assert mean(summary, "completion") <= mean(summary, "completion_final")


def test_the_same_seed_gives_the_same_figures_however_many_jobs() -> None:
    assert run(4, jobs=1, variant="hybrid", **QUIET) == run(4, jobs=2, variant="hybrid", **QUIET)


def test_ctol_bands_over_a_trace(trace: str) -> None:
    """Optimistic tells sooner than Base, Preferred and Hybrid avoid the unhealthy; all agree."""
    found = {
        variant: run(25, variant=variant, trace=trace, missing_max="7")
        for variant in ("base", "optimistic", "preferred", "hybrid")
    }
    for variant, summary in found.items():
        assert summary.agreement == 1, variant
    gain = 1 - mean(found["optimistic"], "completion") / mean(found["base"], "completion")
    assert 0.25 <= gain <= 0.65
    assert mean(found["hybrid"], "completion") < mean(found["preferred"], "completion")
    assert mean(found["base"], "leader_changes") == mean(found["preferred"], "leader_changes") == 1
    assert mean(found["optimistic"], "leader_changes") <= 1.2
    assert mean(found["base"], "hash_rank") == mean(found["optimistic"], "hash_rank") == 0
    for variant in ("preferred", "hybrid"):
        assert mean(found[variant], "unhealthy_rank") > mean(found["base"], "unhealthy_rank")
        assert mean(found[variant], "preference") > mean(found["base"], "preference")
    assert mean(found["base"], "bytes") < mean(found["hybrid"], "bytes")


def test_ctol_theorem_4_preference_with_more_than_log_n_responses(trace: str) -> None:
    summary = run(40, variant="preferred", trace=trace, missing_max="9")
    p, size = mean(summary, "p"), 32
    assert 0 < p < 1
    assert 9 + 1 > log(size) / log(1 / p)  # r > log_{1/p} N: then with 1 − 1/N or more,
    assert mean(summary, "preference") >= 1 - 3 / size  # within the error of forty runs.


def test_top_exclusion_elects_lower_hashes(trace: str) -> None:
    union, top = (run(25, variant="preferred", trace=trace, missing_max="7", exclusion=how) for how in ("union", "top"))
    assert mean(top, "hash_rank") <= mean(union, "hash_rank")


def test_the_local_baseline_splits_where_views_differ(trace: str, tmp_path: Path) -> None:
    assert run(5, variant="local", **QUIET).agreement == 1
    whole, path = read(trace), str(tmp_path / "one-lacks-the-lowest.jsonl")
    names = whole.header.nodes
    lowest = min(range(len(names)), key=lambda i: hash_rank(NodeId(names[i])))
    weak = (lowest + 1) % len(names)
    changes = [(t, n, m, "f" if (n, m) == (weak, lowest) else s, x) for t, n, m, s, x in whole.changes]
    MemTrace(whole.header, changes).write(path)
    split = run(5, variant="local", trace=path)
    assert split.agreement == 0 and mean(split, "leader_changes") == 2 and mean(split, "unicasts") == 0
    assert run(5, variant="base", trace=path, missing_max="3").agreement == 1


def test_several_initiators_and_a_crashed_one_still_agree() -> None:
    several = run(10, variant="hybrid", initiators=4, missing_max="2", **QUIET)
    assert several.agreement == 1
    crashed = run(6, variant="optimistic", crash_initiator=True, missing_max="2", **QUIET)
    assert crashed.agreement == 1
    assert mean(crashed, "completion_final") > 5  # Patience first: nobody's view says that it died.


def test_where_c_and_f_ask_for_more_than_there_are_nobody_is_elected() -> None:
    summary = study(ChurnSetting(nodes=4, drop=0.0, topology="grid", missing_max="9"), runs=2, seed=1, jobs=1)
    assert summary.agreement == 0.0 and summary.figures["completion"] is None
    assert summary.figures["unicasts"] == summary.figures["bytes"] == Figure(0.0, 0.0)


def test_live_membership_underneath() -> None:
    for membership in ("swim", "medley", "heartbeat"):
        summary = run(1, variant="hybrid", nodes=12, drop=0.05, membership=membership, missing_max="2", warmup_s=20.0)
        assert summary.agreement == 1, membership


def test_c_comes_from_table_i_or_is_estimated() -> None:
    assert ChurnSetting(nodes=49, drop=0.2).bound() == 13 == TABLE_I["random", 49, 0.2]
    assert ChurnSetting(nodes=50, drop=0.2).bound() == "auto"
    summary = run(1, variant="base", nodes=16, drop=0.05, missing_max="auto", warmup_s=40.0)
    assert summary.missing_max is not None and 1 <= summary.missing_max.mean <= 15


def test_the_handicap_makes_the_lowest_hashes_unhealthy() -> None:
    fair, unfair = (
        run(3, variant="base", nodes=20, drop=0.15, missing_max="5", handicap=how, warmup_s=40.0)
        for how in (False, True)
    )
    assert mean(unfair, "unhealthy_rank") < mean(fair, "unhealthy_rank")


def test_the_grounds_are_those_of_the_paper() -> None:
    grid = build_ground("grid", 49, Streams(1).of("ground"))
    assert grid.places[8] == (2.5, 2.5)
    assert len(grid.neighbours(24)) == 8  # Diagonal neighbours are within 4 m too.
    for ground in ("random", "cluster"):
        topology = build_ground(ground, 49, Streams(1).of("ground"))  # type: ignore[arg-type]
        assert topology.connected()
        assert max(max(place) for place in topology.places) <= 15.0 + 1e-9
    assert sum(CROWDS) == 49 and REACH_M == 4.0
    assert len(draw_places("cluster", 64, 17.0, Streams(1).of("x"))) == 64


def test_a_trace_is_read_back_as_it_was_written(trace: str, tmp_path: Path) -> None:
    first = read(trace)
    again = tmp_path / "again.jsonl"
    first.write(again)
    assert read(str(again)) == first
    assert first.header.membership == "medley" and len(first.header.places) == 32
    assert len([change for change in first.changes if change[0] == 0]) >= 32 * 31
    assert first.changes[-1][0] <= first.header.duration_ms == 60_000


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty"),
        ("{}", "line 1"),
        ('{"format":"x","version":1,"membership":"swim","drop":0,"seed":1,"nodes":[],"duration_ms":1}', "is x 1"),
    ],
)
def test_a_bad_trace_is_refused_with_its_line(text: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        read(str(path))


def test_a_trace_out_of_order_is_refused(trace: str, tmp_path: Path) -> None:
    header = Path(trace).read_text().splitlines()[0]
    path = tmp_path / "bad.jsonl"
    path.write_text(f'{header}\n[5,0,1,"a",0]\n[4,0,1,"a",0]\n')
    with pytest.raises(ConfigError, match="line 3"):
        read(str(path))


def test_every_option_of_the_study_bites(trace: str) -> None:
    """Another value, another run: none is decoration."""
    base = {"variant": "hybrid", "nodes": 14, "drop": 0.1, "missing_max": "3", "warmup_s": 20.0}
    plain = run(1, **base).trace_hash  # type: ignore[arg-type]
    changes: dict[str, Any] = {
        "variant": "base", "topology": "grid", "nodes": 15, "drop": 0.12, "missing_max": "4", "failure_max": 1,
        "candidates": 2, "unhealthy": 1, "timeout_s": 0.3, "initiators": 2, "crash_initiator": True,
        "membership": "swim", "trace": trace, "handicap": True, "warmup_s": 22.0,
        "confirmed": False, "gossip": "acks",
    }  # fmt: skip
    for name, value in changes.items():
        assert run(1, **(base | {name: value})).trace_hash != plain, name
    untested = {option.name for option in options(ChurnSetting)} - changes.keys()
    assert untested == {
        "evenly",  # tests/papers/test_ctol.py
        "exclusion",
        "handicap_form",
        "notify_retries",
    }  # Of these only exclusion is tested in the study.


def test_bad_settings_name_the_field() -> None:
    for field, value in (("drop", 1.0), ("nodes", 0), ("missing_max", "few"), ("initiators", 99), ("timeout_s", 0.0)):
        with pytest.raises(ConfigError) as caught:
            ChurnSetting(**({"nodes": 20} | {field: value}))
        assert caught.value.field == field


def test_the_command_answers_with_one_json_object() -> None:
    arguments = (
        "sim ctolerant --variant base --topology grid --nodes 16 --drop 0 --missing-max 3 --runs 2 --jobs 1 --json"
    )
    result = CliRunner().invoke(app, arguments.split(), catch_exceptions=False)
    answer = json.loads(result.output)
    assert answer["unicasts"] == {"mean": 9.0, "stderr": 0.0}
    assert answer["agreement"] == 1.0
    for name in ("completion", "completion_final", "multicasts", "bytes", "bytes_end_to_end", "leader_changes"):
        assert set(answer[name]) == {"mean", "stderr"}


def test_the_walkthroughs_answer_as_the_issue_shows() -> None:
    result = CliRunner().invoke(app, ["sim", "walkthrough", "ctol/figure2", "--json"], catch_exceptions=False)
    answer = json.loads(result.output)
    assert answer["steps"][0] == {"from": 4, "excluded": {"3": 2, "1": 1}, "candidates": [0, 2], "leaders": [0, 2]}
    assert (answer["notified"], answer["unicasts"], answer["multicasts"]) == ([0, 2], 8, 2)
    assert set(answer) == {"steps", "notified", "unicasts", "multicasts"}
