"""Scenario files and flags: what they mean, what they refuse and how, and the line that runs one again."""

import importlib.util
import json
import re
import shlex
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from doyen.cli import main
from doyen.cli.options import flag_of
from doyen.core.clock import FOREVER, ms, seconds
from doyen.core.config import Option, choices, is_duration, load, options
from doyen.errors import ConfigError
from doyen.sim.churn import ChurnConfig, ChurnEvent
from doyen.sim.network import Loss, NetworkConfig
from doyen.sim.scenario import Scenario, from_line, read_file, simulate, to_line
from doyen.sim.scenario.nodes import world_of
from doyen.sim.scenario.schema import Group, RunConfig
from doyen.sim.topology import TopologyConfig
from doyen.sim.trace import Kind
from doyen.sim.world import World

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "scenarios").glob("*.toml"))
LONG = (
    "lossy_grid",
    "ring_storm",
    "starved",
)  # Run by the soak; test_kills.py and test_ring_storm.py run them once or more.
EACH = [pytest.param(path, marks=[pytest.mark.soak] * (path.stem in LONG), id=path.stem) for path in FILES]


class Ran:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def doyen(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: Any) -> Ran:
        with pytest.raises(SystemExit) as ended:
            main(["sim", *map(str, arguments)])
        captured = capsys.readouterr()
        return Ran(int(ended.value.code or 0), captured.out, captured.err)

    return run


def refused(ran: Ran, *words: str) -> None:
    """Exit code 2, one line that names the culprit, nothing else."""
    assert ran.code == 2, ran.err
    assert ran.out == "" and ran.err.startswith("doyen: ") and ran.err.count("\n") == 1, ran.err
    for word in words:
        assert word in ran.err, ran.err


# ── Examples ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", EACH)
def test_every_example_does_what_its_first_line_says(path: Path, doyen: Any) -> None:
    ran = doyen("run", path, "--json")
    fails = "It fails." in path.read_text().splitlines()[0]
    assert ran.code == (1 if fails else 0), ran.err
    assert ran.json["agreed"] is not fails and bool(ran.json["violations"]) is fails
    if ran.json["never_fired"]:  # What befalls a run at random need not be in the first one.
        assert doyen("run", path, "--runs", 8, "--jobs", 1, "--json").json["never_fired"] == []


@pytest.mark.parametrize("path", EACH)
def test_a_scenario_is_the_same_as_a_line_and_replays_to_the_same_trace(path: Path, doyen: Any) -> None:
    scenario = read_file(path)
    assert from_line(to_line(scenario)) == scenario
    first = doyen("run", path, "--seed", 5, "--json")
    program, *arguments = shlex.split(first.json["replay"])
    assert program == "doyen"
    again = doyen(*arguments[1:], "--json")
    assert again.json == first.json and again.code == first.code


# ── Files and flags ─────────────────────────────────────────────────────────────────────────────────────────


def test_flags_win_over_the_file_and_are_enough_without_one(tmp_path: Path, doyen: Any) -> None:
    path = tmp_path / "a.toml"
    path.write_text(
        "[group]\nnodes = 3\nprotocol = 'announce'\n[network]\nfifo = true\n[run]\nlength = '20s'\nseed = 4\n"
    )
    assert doyen("run", path, "--json").json["up"] == 3
    both = doyen("run", path, "--group-nodes", 6, "--no-network-fifo", "--json").json
    assert both["up"] == 6 and both["seed"] == 4
    by_flags = ("--group-nodes", 6, "--run-length", "20s", "--seed", 4, "--group-protocol", "announce")
    assert both == doyen("run", *by_flags, "--json").json


def test_a_file_that_does_not_say_how_to_elect_elects_as_nodes_do_by_default(tmp_path: Path, doyen: Any) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[group]\nnodes = 3\n")
    ran = doyen("run", path, "--json").json
    assert ran["election"] == "hybrid" and ran["agreed"]
    assert ran == doyen("run", "--nodes", 3, "--json").json
    assert doyen("run", path, "--group-election-listen-timeout", "2s", "--json").json["election"] == "announce"
    refused(doyen("run", path, "--run-length", "15s"), "--run-length 15s leaves no quiet time", "--run-quiet 0")
    assert doyen("run", path, "--run-length", "15s", "--run-quiet", "0s", "--json").json["election"] == "hybrid"
    path.write_text("# Nothing.\n")
    refused(doyen("run", path), str(path), "it is empty")
    refused(doyen("run", "--runs", 1_000_001), "--runs 1000001 is too many")


def test_every_field_has_a_flag_and_every_flag_a_text(doyen: Any) -> None:
    text = doyen("run", "--help").out
    for option in options(Scenario):
        assert flag_of(option) in text and option.doc, option.name


def test_lists_are_given_as_in_toml_or_with_commas(doyen: Any) -> None:
    events = '[{do = "crash", at = "5s", who = ["leader"]}, {do = "join", at = "6s"}]'
    announced = ("run", "--group-protocol", "announce", "--json")
    ran = doyen(*announced, "--churn-events", events, "--run-checks", "terms,agreement").json
    assert ran["faults"] == {"crash": 1, "join": 1} and list(ran["looked"]) == ["terms", "agreement"]
    shaped = doyen(*announced, "--topology-shape", "edges", "--topology-edges", "[[0,1],[1,2],[2,3],[3,4]]").json
    assert shaped["agreed"] and shaped["hops"] == 4 * shaped["messages"]


def test_many_runs_are_summed_up_and_do_not_depend_on_jobs(doyen: Any) -> None:
    arguments = ("run", ROOT / "scenarios/lan.toml", "--runs", 6, "--network-duplicate-prob", 0.1, "--json")
    one, two = doyen(*arguments, "--jobs", 1).json, doyen(*arguments, "--jobs", 2).json
    assert one == two and one["agreed"] == 6 and one["messages"]["stderr"] > 0 and one["faults"]["crash"] == 30


def test_a_fault_that_never_fires_is_reported(doyen: Any) -> None:
    arguments = ("run", "--topology-shape", "bus", "--churn-events", '[{do="cut", at="1s", who=[0], to=[4]}]')
    assert doyen(*arguments, "--json").json["never_fired"] == ["cut"]
    assert re.search(r"cut +never fired", doyen(*arguments).out)
    several = doyen(*arguments, "--runs", 2, "--json").json
    assert several["never_fired"] == ["cut"] and several["faults"]["cut"] == 0


def test_a_trace_has_a_line_per_event_as_documented(tmp_path: Path, doyen: Any) -> None:
    path = tmp_path / "trace.txt"
    ran = doyen("run", ROOT / "scenarios/storm.toml", "--trace", path, "--json")
    lines = path.read_text().splitlines()
    shape = re.compile(r"^ *\d+\.\d{9}  (\w+) {1,8} ?(.{24,}?) (.*)$")
    kinds = {found[1] for line in lines if (found := shape.match(line))}
    assert all(shape.match(line) for line in lines)
    assert len([line for line in lines if line[18:27].strip() in ("timer", "world")]) <= ran.json["events"] + 30
    documented = (ROOT / "docs/reference/trace.md").read_text()
    assert kinds | {"send"} == set(get_args(Kind))
    assert all(f"| `{kind}` |" in documented for kind in get_args(Kind))


def test_a_violation_exits_1_and_prints_a_line_that_replays_and_shrinks(doyen: Any) -> None:
    ran = doyen("run", ROOT / "scenarios/receipt.toml")
    said, replay = ran.err.splitlines()
    assert ran.code == 1 and said.startswith("doyen: agreement violated at")
    arguments = shlex.split(replay)[2:]
    again = doyen(*arguments, "--json")
    assert again.code == 1 and again.json["trace_hash"] in ran.out
    shrunk = doyen(*arguments, "--shrink", "--json")
    assert shrunk.code == 1 and shrunk.json["up"] <= 3 and "still violated" in shrunk.err
    refused(doyen("replay", "{}", "--shrink"), "--shrink")


# ── Ranks ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_rank_elects_the_best_by_its_own_measure() -> None:
    topology = TopologyConfig(shape="geometric")
    network = NetworkConfig(loss=Loss(model="links", prob=0.1))

    def world(rank: Any) -> World:
        return world_of(Scenario(group=Group(nodes=15, rank=rank), topology=topology, network=network), 7)

    def leader(rank: Any) -> int:
        scenario = Scenario(group=Group(nodes=15, rank=rank), topology=topology, network=network)
        result = simulate(scenario, 7)
        assert result.agreed
        return int(str(result.leader)[1:])

    graph = world("address").network.topology
    assert leader("address") == 14
    counts = [len(graph.neighbours(i)) for i in range(15)]
    assert leader("neighbours") == max(range(15), key=lambda i: (counts[i], i))
    hops = [sum(len(graph.path(i, j) or ()) for j in range(15)) for i in range(15)]
    assert leader("delay") == min(range(15), key=lambda i: (hops[i], -i))
    loads = [-(s or 0) for s in world("load").standings]
    assert leader("load") == loads.index(min(loads)) and 0 <= min(loads) < max(loads) < 1
    losses = [-(s or 0) for s in world("loss").standings]
    assert leader("loss") == losses.index(min(losses)) and len(set(losses)) == 15


# ── Refusals ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[netwrk]\n", ["netwrk", "do you mean network"]),
        ("[network.loss]\nmodel = 'foggy'\n", ["[network.loss]", 'model = "foggy"', "none, uncorrelated"]),
        ("[network.loss]\nprob = 1.5\n", ["[network.loss]", "prob", "0 to 1"]),
        ("[network.loss]\nprob = nan\n", ["[network.loss]", "prob"]),
        ("[network.loss]\nprob = '0.1'\n", ["[network.loss]", "prob", "give a number"]),
        ("[network]\nloss = 3\n", ["[network.loss]", "table"]),
        ("network = 3\n", ["[network]", "table"]),
        ("[network.delay]\nmean = 'fast'\n", ["[network.delay]", "mean", "200ms"]),
        ("[network.delay]\nmean = true\n", ["[network.delay]", "mean"]),
        ("[network.delay]\nmean = 'inf'\n", ["[network.delay]", "mean", "finite"]),
        ("[group]\nnodes = 0\n", ["[group]", "nodes"]),
        ("[group]\nnodes = '7'\n", ["[group]", "nodes", "give a whole number"]),
        ("[group]\nnodes = 2.5\n", ["[group]", "nodes", "give a whole number"]),
        ("[group]\nnodes = true\n", ["[group]", "nodes", "give a whole number"]),
        ("[group]\nnodes = 2\nnames = ['a']\n", ["[group]", "names"]),
        ("[group]\nnodes = 2\nnames = ['a', 'a']\n", ["[group]", "names", "differ"]),
        ("[group]\nnodes = 2\nnames = ['a', 'leader']\n", ["[group]", "names", "leader"]),
        ("[group]\nobserver_count = 5\n", ["[group]", "observer_count"]),
        ("[group]\nrank = 'load'\nelection.leader_is = 'earliest'\n", ["[group]", "rank", "leader_is"]),
        ("[group.election]\nleader_count = 9\n", ["[group.election]", "leader_count", "9", "5"]),
        ("[group.election]\nannounce_interval = 0\n", ["[group.election]", "announce_interval", "more than 0s"]),
        ("[group.election]\nT_A = 1\n", ["[group.election]", "T_A", "announce_interval"]),
        ("[topology]\nshape = 'edges'\nedges = [[0, 9]]\n", ["[topology]", "edges", "0-9"]),
        ("[topology]\nshape = 'edges'\nedges = [[0, 1, 2]]\n", ["[topology]", "edges"]),
        ("[topology]\nshape = 'edges'\nedges = [[1, 1]]\n", ["[topology]", "edges", "1-1"]),
        ("[topology]\nshape = 'geometric'\nreach_m = 0.1\n", ["[topology]", "reach_m"]),
        ("[churn]\nevents = 5\n", ["[churn]", "events"]),
        ("[[churn.events]]\nat = '1s'\n", ["[churn.events[0]]", "do", "missing"]),
        ("[[churn.events]]\ndo = 'crash'\nat = '1s'\nwho = ['zed']\n", ["[churn.events[0]]", "who", "zed"]),
        ("[[churn.events]]\ndo = 'partition'\nat = '1s'\nwho = ['n0', 77]\n", ["[churn.events[0]]", "who", "77"]),
        ("[[churn.events]]\ndo = 'crash'\nat = '59s'\nwho = [0]\n", ["[churn.events[0]]", "at", "59s", "quiet"]),
        ("[[churn.events]]\ndo = 'join'\nat = '1s'\nwho = ['n0']\n", ["[churn.events[0]]", "who", "n0"]),
        ("[churn.random]\ncrash_rate = -1\n", ["[churn.random]", "crash_rate"]),
        ("[churn.random]\nup_min = 50\n", ["[churn.random]", "up_min"]),
        ("[clocks]\ndrift_max = 2.0\n", ["[clocks]", "drift_max"]),
        ("[group]\nprotocol = 'announce'\n[run]\nquiet = '1s'\n", ["[run]", "quiet", "5.7s"]),
        ("[node]\nelection = 'hybrid'\n[run]\nquiet = '1s'\n", ["[run]", "quiet", "104.656s"]),
        ("[run]\nlength = '5s'\n", ["[run]", "length", "quiet"]),
        ("[run]\nchecks = ['vibes']\n", ["[run]", "checks"]),
        ("[run]\nseed = -1\n", ["[run]", "seed"]),
        ("[run\n", ["TOML"]),
        ("\x00", ["TOML"]),
    ],
)
def test_a_bad_file_is_refused_with_its_name_the_table_and_the_field(
    text: str, words: list[str], tmp_path: Path, doyen: Any
) -> None:
    path, trace = tmp_path / "bad.toml", tmp_path / "trace.txt"
    path.write_text(text)
    refused(doyen("run", path, "--trace", trace), f"scenario {path}", *words)
    assert not trace.exists()


def test_other_bad_input_is_refused(tmp_path: Path, doyen: Any) -> None:
    refused(doyen("run", tmp_path / "none.toml"), "none.toml", "No such file")
    refused(doyen("run", tmp_path / "two\nlines.toml"), r"two\nlines.toml", "No such file")
    refused(doyen("run", "/dev/zero"), "/dev/zero", "this is no scenario")
    (tmp_path / "near.toml").write_text("[nod]\n")
    refused(doyen("run", tmp_path / "near.toml"), "do you mean node?")
    refused(doyen("run", tmp_path), str(tmp_path))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    refused(doyen("run", tmp_path / "binary.toml"), "UTF-8")
    refused(doyen("run", "--network-loss-prob", "1.5"), "--network-loss-prob 1.5", "0 to 1")
    refused(doyen("run", "--network-loss-prob", "often"), "--network-loss-prob")
    refused(
        doyen("run", "--group-election-announce-interval", "0"), "--group-election-announce-interval", "more than 0s"
    )
    refused(doyen("run", "--group-election-leader-count", "9"), "--group-election-leader-count 9")
    refused(doyen("run", "--churn-events", "[{]"), "--churn-events")
    refused(doyen("run", "--churn-events", "[3]"), "--churn-events")
    refused(doyen("run", "--churn-events", '[{do="crash", at="1s", who=["zed"]}]'), "--churn-events", "zed")
    refused(doyen("run", "--topology-edges", "[[0, 1]]"), "--topology-edges")
    refused(doyen("run", "--runs", "0"), "--runs")
    refused(doyen("run", "--jobs", "-1"), "--jobs")
    refused(doyen("run", "--trace", "/nonexistent/trace"), "--trace")
    refused(doyen("run", "--no-such-flag"), "--no-such-flag")
    for line in ("", "{", "3", "[1]", "{run = {seed = 'x'}}", "{nope = 1}", "{}\n{}"):
        refused(doyen("replay", line))


ODD_TEXTS = ["", "x", "-1", "0", "nan", "inf", "-inf", "1e400", "[", "[[]]", "{}", "9" * 30, "\n", "\x00", "é" * 200]


@pytest.mark.parametrize("option", options(Scenario), ids=lambda option: option.name)
def test_any_text_for_any_flag_runs_or_is_refused(option: Option, doyen: Any) -> None:
    for text in ODD_TEXTS:
        length = () if option.name in ("run.length", "run.quiet") else ("--run-length", "1s", "--run-quiet", "0s")
        ran = doyen("run", *length, f"{flag_of(option)}={text}")
        if ran.code != 0:
            refused(ran, flag_of(option)[2:] if option.type is bool else flag_of(option))


LEAVES = [option for option in options(Scenario) if option.name != "churn.events"]
anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.one_of(st.integers(), st.text(max_size=3)), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.sampled_from(["inf", "200ms", "1s", "0s", "99999999h", "leader", [[0, 1]], [{}], {}]),
)


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(st.sampled_from([option.path for option in LEAVES]), anything, max_size=3))
def test_any_value_in_any_field_is_taken_or_refused_by_name(values: dict[tuple[str, ...], Any]) -> None:
    tables: dict[str, Any] = {}
    for path, value in values.items():
        table = tables
        for part in path[:-1]:
            table = table.setdefault(part, {})
        table[path[-1]] = value
    try:
        scenario = load(Scenario, tables, "file")
    except ConfigError as error:
        text = str(error)
        assert text.startswith("file: [") and "\n" not in text
    else:
        assert from_line(to_line(scenario)) == scenario


event_fields = st.fixed_dictionaries(
    {},
    optional={
        "do": st.sampled_from([*choices(next(o.type for o in options(ChurnEvent) if o.name == "do")), "x", 3]),
        "at": st.one_of(st.sampled_from(["0s", "5s", "70s", "inf"]), anything),
        "who": st.one_of(
            st.lists(st.sampled_from(["n0", "leader", "random", "all", "zed", 3, -1]), max_size=2), anything
        ),
        "to": st.one_of(st.lists(st.sampled_from(["n1", "all", 2]), max_size=2), anything),
        "by": st.sampled_from(["0s", "1s", "-1s"]),
        "lasting": st.sampled_from(["0s", "1s", "inf"]),
        "every": st.sampled_from(["0s", "1s"]),
        "more": anything,
    },
)


@settings(max_examples=400, deadline=None)
@example([{"do": "join", "at": "0s", "who": [""]}])
@given(st.lists(event_fields, max_size=3))
def test_any_event_is_taken_and_runs_or_is_refused_by_name(events: list[dict[str, Any]]) -> None:
    try:
        scenario = load(Scenario, {"churn": {"events": events}, "run": {"length": "20s"}}, "file")
    except ConfigError as error:
        text = str(error)
        assert text.startswith("file: [churn") and "\n" not in text
    else:
        assert from_line(to_line(scenario)) == scenario
        assert not simulate(scenario).violations


# ── The line, and the reference ─────────────────────────────────────────────────────────────────────────────


def test_a_line_has_only_what_is_not_as_usual_and_that_exactly() -> None:
    assert to_line(Scenario()) == "{}"
    odd = Scenario(
        group=Group(nodes=2, names=("it's", 'a "b" \\ é')),
        churn=ChurnConfig(events=(ChurnEvent(do="join", at=seconds(1) + 1, to=("it's", 1)),)),
        run=RunConfig(length=seconds(60) + 7, seed=2**63 + 5, checks=()),
        network=NetworkConfig(reorder_by=ms(0.001), loss=Loss(prob=1e-7)),
    )
    line = to_line(odd)
    assert from_line(line) == odd and "\n" not in line and '"60.000000007s"' in line
    assert from_line(shlex.split(shlex.quote(line))[0]) == odd
    long = Scenario(network=NetworkConfig(loss=Loss(window=seconds(10**6))))
    assert from_line(to_line(long)) == long


def test_the_reference_is_made_from_the_structs() -> None:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs/reference/scenarios.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (ROOT / "docs/reference/scenarios.md").read_text()
    assert written == module.page(), "run: python docs/reference/scenarios.py > docs/reference/scenarios.md"
    for option in options(Scenario):
        assert f"`{flag_of(option)}`" in written


def test_every_option_has_a_default_that_is_shown_as_a_person_would_write_it(doyen: Any) -> None:
    text = " ".join(doyen("run", "--help").out.split())
    for option in options(Scenario):
        if is_duration(option.type):
            assert option.default == FOREVER or isinstance(option.default, int)
    assert "[1s]" in text and "[inf]" in text and "[complete]" in text
