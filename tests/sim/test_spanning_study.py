"""Spanning elections on graphs: the walk-through, Figure 6.2, counts, failures, corrupted state.  [MADM]"""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from doyen.cli import app
from doyen.core.ids import NodeId
from doyen.core.leadership import LeaderElected
from doyen.core.order import order
from doyen.errors import ConfigError
from doyen.sim.node import SimNode
from doyen_papers.papers.madm.chapter import SEVEN, SEVEN_QUALITY
from doyen_papers.studies.corruption import bound_of, corrupt
from doyen_papers.studies.graphs import (
    chained,
    leaf_count,
    random_edges,
    random_quality,
    random_setting,
    regular,
)
from doyen_papers.studies.spanning import (
    Experiment,
    Failure,
    Run,
    Sent,
    SpanningSetting,
    faults_of,
    graph,
    simulate,
)
from doyen_papers.studies.spanning_counts import message_count

TRANSCRIPT = Path(__file__).parents[1] / "transcripts" / "madm_seven_nodes.txt"


def seven(*failures: str, quality: dict[str, float] | None = None, **more: object) -> Run:
    """`fail-link 2-3@1`."""
    found = graph(SEVEN, SEVEN_QUALITY | (quality or {}))
    wanted = []
    for text in failures:
        what, _, rest = text.partition(" ")
        who, _, at = rest.partition("@")
        wanted.append(Failure(what, tuple(NodeId(n) for n in who.split("-")), float(at)))  # type: ignore[arg-type]
    setting = SpanningSetting(graph=found, initiators=(NodeId("2"),), failures=tuple(wanted), **more)  # type: ignore[arg-type]
    run = simulate(setting, 1, log=True)
    assert faults_of(run, found.quality) == []
    return run


def leaders(run: Run) -> dict[str, str | None]:
    return {"".join(region.members): region.leader for region in run.regions}


def told(sent: Sent) -> str:
    """As the chapter writes it."""
    message = sent.message
    kind = type(message).__name__.upper()
    fields = {
        "MQFM": lambda: f"{message.best.quality:g},{message.best.node},{sent.sender}",
        "LDM": lambda: f"{message.leader.node}",
    }.get(kind, lambda: f"{message.election.initiator},{sent.sender}")()
    return f"{sent.at:g} {kind}[{fields}] to {sent.receiver}"


def test_madm_6_2_5_the_seven_nodes_message_by_message() -> None:
    run = seven()
    assert [told(sent) for sent in run.log] == TRANSCRIPT.read_text().splitlines()
    assert run.messages == {"eim": 12, "ack": 5, "agm": 6, "mqfm": 12, "ldm": 12, "request": 0, "total": 47}
    assert run.declared_at == 7
    (parents,) = run.parents.values()
    assert parents == {"2": None, "0": "2", "1": "2", "3": "2", "6": "0", "5": "1", "4": "3"}


def test_the_printed_order_needs_three_hops_of_patience_for_co_parents() -> None:
    assert [told(sent) for sent in seven(co_parent_hops=4).log] == TRANSCRIPT.read_text().splitlines()
    assert [told(sent) for sent in seven(co_parent_hops=2).log] != TRANSCRIPT.read_text().splitlines()
    assert leaders(seven(co_parent_hops=0)) == {"0123456": "3"}  # The tree alone yields the maximum.


@pytest.mark.parametrize("silent", [False, True], ids=["told", "silent"])
@pytest.mark.parametrize(
    ("failures", "outcome"),
    [
        (["fail-link 2-3@1"], {"0123456": "3"}),
        (["fail-link 3-4@1"], {"012356": "3", "4": "4"}),
        (["fail-link 2-3@1", "fail-link 0-3@1"], {"0123456": "3"}),
        (["fail-link 2-3@1", "fail-link 0-3@1", "fail-link 3-5@1"], {"01256": "2", "34": "3"}),
        *(([f"fail-node {n}@1"], {"0123456".replace(n, ""): "3"}) for n in "01456"),
        (["fail-node 3@1"], {"01256": "2", "4": "4"}),
        (["fail-node 2@1"], {"013456": "3"}),
    ],
    ids=lambda x: "+".join(x) if isinstance(x, list) else "",
)
def test_madm_figure_6_2(failures: list[str], outcome: dict[str, str], silent: bool) -> None:
    assert leaders(seven(*failures, silent=silent)) == outcome


def test_any_single_link_failure_is_not_tolerated_as_printed_and_re_parenting_mends_it() -> None:
    best = {"1": 0.99}
    mended = seven("fail-link 1-2@1", quality=best)
    assert leaders(mended) == {"0123456": "1"}
    assert len(mended.declarations) == 1  # In the same election: 1 reports by way of its own child.
    printed = seven("fail-link 1-2@1", quality=best, silent=True)  # Nobody is told, so nobody asks for a parent:
    assert [declaration.leader for declaration in printed.declarations] == [
        "3",
        "1",
    ]  # lost, and then found by 1 itself.


def test_every_single_link_failure_at_every_moment_elects_the_best() -> None:
    for a, b in SEVEN:
        if {a, b} != {"3", "4"}:
            for at in (0.5, 1, 2, 3, 4, 5, 6, 7, 8):
                for best in "01456":
                    found = leaders(seven(f"fail-link {a}-{b}@{at}", quality={best: 0.99}))
                    assert found == {"0123456": best}, (a, b, at, best)


def test_a_partition_has_a_leader_each_and_one_again_after_it_heals() -> None:
    cuts = ["fail-link 0-2@20", "fail-link 1-2@20", "fail-link 2-3@20"]
    assert leaders(seven(*cuts)) == {"013456": "3", "2": "2"}
    assert leaders(seven(*cuts, "heal-link 1-2@60")) == {"0123456": "3"}


def test_the_winner_dying_before_its_declaration_is_a_leader_failure() -> None:
    run = seven("fail-node 3@6.5")  # Its report is under way, and counted.
    assert run.declarations[0].leader == "3"
    assert leaders(run) == {"01256": "2", "4": "4"}


def test_a_node_returns_during_and_after_an_election() -> None:
    assert leaders(seven("fail-node 6@1", "recover 6@2.5", quality={"6": 0.99}))["0123456"] in ("3", "6")
    late = seven("fail-node 6@1", "recover 6@20", quality={"6": 0.99})
    assert leaders(late) == {"0123456": "3"}  # A better one that returns does not start an election.
    assert len(late.declarations) == 1
    assert leaders(seven("fail-node 3@20", "recover 3@60"))["0123456"] in ("2", "3")


@pytest.mark.parametrize("durable", [True, False])
def test_a_node_that_restarts_alone_goes_on_above_its_own_terms_only_if_they_are_durable(durable: bool) -> None:
    """Without its record it leads itself under a term that it has used before: no fencing token."""
    found = graph([("0", "1")], {"0": 2.0, "1": 1.0})
    failures = (
        Failure("fail-link", ("0", "1"), 20.0),  # type: ignore[arg-type]
        Failure("heal-link", ("0", "1"), 30.0),  # type: ignore[arg-type]
        Failure("fail-link", ("0", "1"), 60.0),  # type: ignore[arg-type]
        Failure("fail-node", (NodeId("0"),), 70.0),
        Failure("recover", (NodeId("0"),), 80.0),
        Failure("heal-link", ("0", "1"), 120.0),  # type: ignore[arg-type]
    )
    setting = SpanningSetting(graph=found, initiators=(NodeId("0"),), failures=failures, durable=durable)
    terms: list[int] = []

    def watch(node: SimNode, channel: str, fact: Any, now: int) -> None:
        if isinstance(fact, LeaderElected) and fact.term.leader == node.name == "0":
            terms.append(fact.term.number)

    run = simulate(setting, 1, prepare=lambda experiment: experiment.sim.watchers.append(watch))
    assert faults_of(run, found.quality) == []
    assert leaders(run) == {"01": "0"}
    assert (len(set(terms)) == len(terms) and terms == sorted(terms)) is durable, terms


def check(setting: SpanningSetting, seed: int) -> None:
    """One line replays it: check(random_setting(Random(SEED), failing=…), SEED)."""
    run = simulate(setting, seed)
    found = faults_of(run, setting.graph.quality)
    if not setting.failures:
        best = min(setting.graph.nodes, key=lambda name: (-setting.graph.quality[name], order(name)))
        if [region.leader for region in run.regions] != [best] or len(run.declarations) != 1:
            found.append(f"elected {run.regions}, the best is {best}")
        if run.messages["request"]:
            found.append(f"{run.messages['request']} requests though nothing failed")
        if len(setting.initiators) == 1:
            leaves = leaf_count(setting.graph, setting.initiators[0])
            wanted = message_count(len(setting.graph.edges), len(setting.graph.nodes), leaves)
            if run.messages["total"] != wanted:
                found.append(f"{run.messages['total']} messages, not {wanted}")
    assert not found, f"seed {seed}, failing {bool(setting.failures)}: {found}"


@pytest.mark.parametrize("failing", [False, True], ids=["quiet", "failing"])
@pytest.mark.parametrize("part", range(4))
def test_random_graphs(part: int, failing: bool) -> None:
    for seed in range(part * 40, part * 40 + 40):
        check(random_setting(Random(seed), failing=failing), seed)


@pytest.mark.soak
@pytest.mark.parametrize("failing", [False, True], ids=["quiet", "failing"])
@pytest.mark.parametrize("part", range(100))
def test_ten_thousand_random_graphs(part: int, failing: bool) -> None:
    for seed in range(part * 100, part * 100 + 100):
        check(random_setting(Random(seed), failing=failing), seed)


@pytest.mark.parametrize("seed", [4099, 4080, 24017, 26548])
def test_failures_that_once_ended_in_two_leaders(seed: int) -> None:
    check(random_setting(Random(seed), failing=True), seed)


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("shape", ["ring", "bus", "complete", "torus", "star", "tree"])
def test_the_count_of_messages_holds_on_regular_graphs(shape: str, fifo: bool) -> None:
    size = 16
    found = graph(regular(shape, size), {str(i): (i * 7 % size) / size for i in range(size)})
    for delay in ("unit", "random"):
        setting = SpanningSetting(graph=found, initiators=(NodeId("3"),), delay=delay, fifo=fifo)  # type: ignore[arg-type]
        check(setting, 5)


@pytest.mark.parametrize("initiator", ["0", "1", "mate of 1"])
def test_time_grows_with_the_diameter_and_not_with_n(initiator: str) -> None:
    def declared_at(k: int, **more: Any) -> float:
        size = 2 * k + 1
        found = graph(chained(k), {str(i): i / size for i in range(size)})
        first = NodeId(str(k + 1) if initiator == "mate of 1" else initiator)
        run = simulate(SpanningSetting(graph=found, initiators=(first,), **more), 1)
        assert faults_of(run, found.quality) == []
        assert run.declared_at is not None
        return run.declared_at

    assert len(chained(4)) == 12  # 0–a, a–(k+a), (k+a)–(a+1), for a = 1…k, the last included.
    times = {k: declared_at(k) for k in (4, 8, 16, 32, 64)}
    assert len({times[k] for k in (8, 16, 32, 64)}) == 1, times
    assert times[8] - times[4] <= (3 if initiator == "mate of 1" else 0), (
        times
    )  # At k=4 its farthest is one hop nearer.
    unbounded = {k: declared_at(k, co_parent_hops=1000) for k in (4, 16)}  # What the bound is for.
    assert unbounded[16] > unbounded[4] + 10


@pytest.mark.parametrize("slowness", [1.5, 3.0, 6.0])
def test_beyond_delta_it_is_safe_and_elects_again_until_it_is_patient_enough(slowness: float) -> None:
    again = 0
    for seed in range(20):
        setting = replace(random_setting(Random(seed), size_max=20), slowness=slowness)
        run = simulate(setting, seed)
        assert faults_of(run, setting.graph.quality) == [], seed
        elections = {declaration.election for declaration in run.declarations}
        assert len(elections) == len(run.declarations)  # None ever declares two leaders.
        again += len(elections) - 1
    assert again > 0  # Else hops were not long enough to matter.


def stabilises(seed: int, *, far: bool = False) -> float:
    """The share of its bound that a run from corrupted state took."""
    rng = Random(seed)
    size = rng.randint(2, 14)
    edges = random_edges(rng, size)
    if rng.random() < 0.3:
        edges = [edge for edge in edges if rng.random() < 0.8]  # Into pieces, perhaps: each is to have its leader.
    found = graph(edges, random_quality(rng, size))
    pulse = rng.choice([4.0, 6.0, 12.0])
    setting = SpanningSetting(
        graph=found, initiators=(found.nodes[0],), delay="random", pulse_units=pulse, unaided=True
    )
    experiment = Experiment(setting, seed)
    corrupt(experiment, rng, far=far)
    run = experiment.run()
    assert run.terminated, f"seed {seed}"
    assert all(region.leader is not None for region in run.regions)
    assert run.settled_at is not None
    return run.settled_at / bound_of(experiment)


def test_corrupted_state_stabilises_within_its_bound() -> None:
    assert max(stabilises(seed) for seed in (*range(40), 1590)) <= 1  # 1590: corrupted patience (decision 46).


def test_memory_of_the_future_and_of_nobody_does_not_outlast_the_bound() -> None:
    assert max(stabilises(seed, far=True) for seed in range(30)) <= 1


def test_without_a_pulse_or_a_failure_detector_corruption_stays() -> None:
    """As published: ghosts are believed forever, so the theorem needs more than the lemmas."""
    stuck = 0
    for seed in range(10):
        rng = Random(seed)
        found = graph(random_edges(rng, 8), random_quality(rng, 8))
        experiment = Experiment(SpanningSetting(graph=found, initiators=(found.nodes[0],), unaided=True), seed)
        corrupt(experiment, rng)
        stuck += not experiment.run().terminated
    assert stuck > 0


def test_bits_of_a_message_grow_with_the_length_of_names_and_nothing_else() -> None:
    """[MADM §6.2.4.3] O(log N): a name of one more digit is 8 bits more, and no message has more than two names."""

    def bits(k: int) -> dict[str, int]:
        found = graph(chained(k), {str(i): float(i) for i in range(2 * k + 1)})
        return simulate(SpanningSetting(graph=found, initiators=(NodeId("0"),)), 1).bits

    few, many = bits(4), bits(64)  # One digit; three.
    assert set(few) == set(many) == {"eim", "ack", "agm", "mqfm", "ldm"}
    assert all(0 <= many[kind] - few[kind] <= 2 * 2 * 8 for kind in few)
    assert max(few.values()) <= 200


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_corrupted_state_stabilises_at_length(part: int) -> None:
    assert max(stabilises(seed) for seed in range(1000 + 100 * part, 1100 + 100 * part)) <= 1


def test_the_same_seed_gives_the_same_run() -> None:
    setting = random_setting(Random(3), failing=True)
    assert simulate(setting, 9).trace_hash == simulate(setting, 9).trace_hash
    assert simulate(setting, 9).trace_hash != simulate(setting, 10).trace_hash


# The command.


EDGES = ",".join(f"{a}-{b}" for a, b in SEVEN)


@pytest.fixture
def quality(tmp_path: Path) -> str:
    path = tmp_path / "q.csv"
    path.write_text("node,quality\n" + "".join(f"{n},{q}\n" for n, q in SEVEN_QUALITY.items()))
    return str(path)


def ask(*arguments: str) -> dict[str, object]:
    result = CliRunner().invoke(app, ["sim", "spanning", *arguments, "--json"], catch_exceptions=False)
    found: dict[str, object] = json.loads(result.output)
    return found


def test_doyen_sim_spanning(quality: str, tmp_path: Path) -> None:
    found = ask("--graph", EDGES, "--quality", quality, "--initiators", "2", "--seed", "1")
    assert found["regions"] == [{"members": list("0123456"), "leader": "3"}]
    assert found["messages"] == {"eim": 12, "ack": 5, "agm": 6, "mqfm": 12, "ldm": 12, "request": 0, "total": 47}
    assert (found["declared_at"], found["terminated"]) == (7, True)
    path = tmp_path / "edges"
    path.write_text("# Figure 6.1\n" + "".join(f"{a} {b}\n" for a, b in SEVEN))
    cut = ["--fail-link", "2-3@1", "--fail-link", "0-3@1", "--fail-link", "3-5@1.0"]
    found = ask("--graph", str(path), "--quality", quality, "--initiators", "2,5", "--delay", "unit", *cut)
    assert {"".join(r["members"]): r["leader"] for r in found["regions"]} == {"01256": "2", "34": "3"}  # type: ignore
    trace = tmp_path / "trace"
    back = ["--fail-node", "3@1", "--recover", "3@9.5", "--trace", str(trace)]
    found = ask("--graph", EDGES, "--quality", quality, "--initiators", "2", "--delay", "random", *back)
    assert found["terminated"] is True
    assert "recover 3" in trace.read_text()
    arguments = ["sim", "spanning", "--graph", EDGES, "--quality", quality, "--initiators", "2"]
    text = CliRunner().invoke(app, arguments, catch_exceptions=False).output
    assert text.startswith("3 leads 0, 1, 2, 3, 4, 5, 6")


def test_inline_edges_may_be_longer_than_a_files_name(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text("".join(f"{i},{i}\n" for i in range(129)))
    found = ask("--graph", ",".join(f"{a}-{b}" for a, b in chained(64)), "--quality", str(path), "--initiators", "0")
    assert found["declared_at"] == 8
    assert found["messages"]["total"] == message_count(192, 129, 0)  # type: ignore[index]


def test_one_node_alone_leads_itself_and_a_graph_may_be_in_pieces(tmp_path: Path) -> None:
    path, nothing = tmp_path / "q.csv", tmp_path / "edges"
    nothing.write_text("# none\n")
    path.write_text("0,1\n")
    found = ask("--graph", str(nothing), "--quality", str(path), "--initiators", "0")
    assert (found["regions"], found["terminated"]) == ([{"members": ["0"], "leader": "0"}], True)
    assert found["messages"]["total"] == 0  # type: ignore[index]
    path.write_text("0,1\n1,2\n2,5\n3,4\n4,0\n")  # The failure detector reports to the pieces that nobody told.
    found = ask("--graph", "0-1,2-3", "--quality", str(path), "--initiators", "0")
    assert {"".join(r["members"]): r["leader"] for r in found["regions"]} == {"01": "1", "23": "2", "4": "4"}  # type: ignore


def test_names_with_dashes_and_times_as_fractions(tmp_path: Path) -> None:
    path, edges = tmp_path / "q.csv", tmp_path / "edges"
    path.write_text('n-1,1\nn-2,"2"\nn-3,3\n')
    edges.write_text("n-1 n-2\nn-2 n-3\n")
    for when in ("3/2", "1.5", "15e-1"):
        found = ask(
            "--graph", str(edges), "--quality", str(path), "--initiators", "n-1,n-1", "--fail-link", f"n-3-n-2@{when}"
        )
        assert [r["leader"] for r in found["regions"]] == ["n-2", "n-3"]  # type: ignore
        assert found["declared_at"] == 2.5


def test_a_failure_comes_after_the_deliveries_of_its_instant(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text("0,1\n1,2\n")
    arguments = ["--graph", "0-1", "--quality", str(path), "--initiators", "0"]
    found = ask(*arguments, "--fail-link", "0-1@2")  # The report arrives at 2, and counts; its declaration is lost.
    assert [r["leader"] for r in found["regions"]] == ["0", "1"]  # type: ignore
    assert found["messages"] == {"eim": 1, "ack": 0, "agm": 0, "mqfm": 1, "ldm": 1, "request": 0, "total": 3}
    found = ask(*arguments, "--fail-link", "0-1@1.999")
    assert found["messages"] == {"eim": 1, "ack": 0, "agm": 0, "mqfm": 1, "ldm": 0, "request": 0, "total": 2}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--graph", "0-2,2-9"], "edge 2-9: node 9 has no quality"),
        (["--graph", "0-2,2-2"], "edge 2-2: a node is not its own neighbour"),
        (["--graph", "0-2,2-0"], "edge 2-0: is there twice"),
        (["--graph", "nowhere.txt"], "is no file, and no list of edges"),
        (["--initiators", "9"], "--initiators 9 is not a node"),
        (["--initiators", ","], "--initiators must name"),
        (["--fail-link", "0-1@1"], "--fail-link 0-1@1: the graph has no such edge"),
        (["--fail-link", "0-2"], '--fail-link "0-2": give who and when'),
        (["--fail-link", "0@1"], '--fail-link "0@1"'),
        (["--fail-node", "9@1"], "--fail-node 9@1: the graph has no such node"),
        (["--fail-node", "3@-1"], '--fail-node "3@-1"'),
        (["--recover", "3@soon"], '--recover "3@soon"'),
        (["--recover", "3@5"], "--recover 3@5: it has not failed by then"),
        (["--fail-node", "3@6", "--recover", "3@5"], "--recover 3@5: it has not failed by then"),
        (["--heal-link", "2-3@5"], "--heal-link 2-3@5: it has not failed by then"),
        (["--fail-node", "3@1/0"], '--fail-node "3@1/0"'),
        (["--fail-node", "3@inf"], '--fail-node "3@inf"'),
        (["--pulse", "1"], "--pulse 1 must be from 4"),
    ],
)
def test_bad_graphs_are_named_by_edge(quality: str, more: list[str], says: str) -> None:
    arguments = ["sim", "spanning", "--graph", EDGES, "--quality", quality, "--initiators", "2", *more]
    with pytest.raises(ConfigError, match=says):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("0,1\n0,2\n", "line 2: node 0 is there twice"),
        ("0,much\n", "line 1: node 0"),
        ("0\n", "line 1"),
        ("0,nan\n", "0"),
    ],
)
def test_bad_qualities_are_named_by_row(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "q.csv"
    path.write_text(content)
    arguments = ["sim", "spanning", "--graph", "0-1", "--quality", str(path), "--initiators", "0"]
    with pytest.raises(ConfigError, match=says):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
