"""Every option of a scenario, changed alone, changes the trace, and the figure that it governs.

Table-driven over the Structs: an option without a row fails.  A row has a base scenario in which the option matters,
values, and the figure; `grows` says that the figure rises from value to value, otherwise all must differ.
"""

import re
import tomllib
from collections.abc import Callable
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import pytest
from msgspec.msgpack import Decoder

from doyen.core.config import choices, load, options
from doyen.sim import engine
from doyen.sim.checkers import CHECKERS
from doyen.sim.churn import LATE_CLAIM, ChurnEvent
from doyen.sim.scenario import Result, Scenario, simulate
from doyen.sim.trace import Trace


class Seen:
    """One run, and its lines: (seconds, kind, who, what)."""

    def __init__(self, scenario: Scenario) -> None:
        text = StringIO()
        self.result: Result = simulate(scenario, trace=Trace(text))
        self.lines = [
            (float(line[:16]), line[18:27].strip(), line[28:52].strip(), line[53:].strip())
            for line in text.getvalue().splitlines()
        ]

    def latencies(self) -> list[float]:
        """From each message's send to each of its arrivals, as far as senders send one at a time."""
        sent: dict[str, float] = {}
        found = []
        for at, kind, who, _ in self.lines:
            sender = who.split(" → ")[0]
            if kind in ("multicast", "send"):
                sent[sender] = at
            elif kind == "arrive":
                found.append(at - sent[sender])
        return found

    def times(self, kind: str, what: str = "") -> list[float]:
        return [line[0] for line in self.lines if line[1] == kind and what in f"{line[2]} {line[3]}"]

    def longest_silence(self) -> int:
        """The most multicasts in a row, of one sender, that nobody heard."""
        longest, run, heard = 0, {}, {}
        for _, kind, who, _ in self.lines:
            sender = who.split(" → ")[0]
            if kind == "multicast":
                run[sender] = 0 if heard.get(sender, True) else run.get(sender, 0) + 1
                heard[sender] = False
                longest = max(longest, run[sender])
            elif kind == "arrive":
                heard[sender] = True
        return longest

    def highest_term(self) -> int:
        return max(int(found) for line in self.lines for found in re.findall(r"number=(\d+)", line[3]))

    def standings(self) -> list[float]:
        return [float(found) for line in self.lines for found in re.findall(r"standing=(-?[\d.]+)", line[3])]


Figure = Callable[[Seen], Any]


class Row:
    def __init__(
        self, base: str, values: list[Any], figure: Figure, *, grows: bool = False, watches_only: bool = False
    ) -> None:
        self.base, self.values, self.figure = base, values, figure
        self.grows, self.watches_only = grows, watches_only


def fault(name: str) -> Figure:
    return lambda seen: seen.result.faults.get(name, 0)


def of(name: str) -> Figure:
    return lambda seen: getattr(seen.result, name)


def travel(seen: Seen) -> float:
    return sum(seen.latencies())


def spread(seen: Seen) -> float:
    return max(seen.latencies()) - min(seen.latencies())


def rate_row(deed: str, base: str = "[group]\nnodes = 6\n") -> Row:
    return Row(f"{base}[run]\nlength = '40s'\nquiet = '0s'\n", [0.0, 20.0], fault(deed), grows=True)


ANNOUNCING = ("terms", "reigns", "unique", "existed", "inner", "incumbent", "steady", "agreement")
LOSSY = "[network.loss]\nmodel = 'uncorrelated'\nprob = 0.3\n"
SHORT = "[run]\nlength = '20s'\n"
FAST = "[group.election]\nannounce_interval = '200ms'\nlisten_timeout = '5s'\n"
LEAVES = "[[churn.events]]\ndo = 'leave'\nwho = ['leader']\nat = '5s'\n"
CRASHES = "[[churn.events]]\ndo = 'crash'\nwho = ['leader']\nat = '5s'\nevery = '8s'\nlasting = '4s'\n"
SIXTY = "[group]\nnodes = 60\n[run]\nlength = '12s'\n[network.delay]\nmean = '20ms'\n"
TWENTY = "[group]\nnodes = 20\n[run]\nlength = '12s'\n[network.delay]\nmean = '1ms'\n"
UNEVEN = (
    "[group]\nnodes = 20\n[run]\nlength = '12s'\n[network.loss]\nmodel = 'uncorrelated'\nprob = 0.1\n"
    "[network.delay]\nmodel = 'uniform'\nmean = '20ms'\nspread = '15ms'\n"
)
PLACED = "[group]\nnodes = 12\n[network.delay]\nmean = '10ms'\n[run]\nlength = '20s'\n"
RANKED = (
    PLACED.replace("[group]", "[topology]\nshape = 'geometric'\n[group]").replace("10ms'", "10ms'\nlink_spread = '9ms'")
    + "seed = 8\n[network.loss]\nmodel = 'links'\nprob = 0.1\n"
)
QUORUM = "[group]\nnodes = 5\n[node]\nelection = 'pole'\npreset = 'local'\nvoters = ['n0', 'n1', 'n2']\n"
FOLDER = "[group]\nnodes = 3\n[node]\nelection = 'directory'\npreset = 'local'\n"
RING = [[i, (i + 1) % 5] for i in range(5)]
STAR = [[0, i] for i in range(1, 5)]
LONG_NAMES = "[group]\nnodes = 3\nnames = [" + ", ".join(f"'{c * 60}'" for c in "abc") + "]\n"

ROWS: dict[str, Row] = {
    "group.nodes": Row("", [5, 8], of("up"), grows=True),
    "group.names": Row("[group]\nnodes = 3\n", [["a", "b", "c"], ["x", "z", "y"]], of("leader")),
    "group.protocol": Row(LOSSY, ["announce", "sup-al-receipt"], of("messages")),
    "group.rank": Row(RANKED, ["address", "load", "neighbours", "delay", "loss", "wake-up"], of("leader")),
    "group.load_max": Row("[group]\nrank = 'load'\n", [1.0, 50.0], lambda s: -min(s.standings()), grows=True),
    "group.observer_count": Row("", [0, 2, 4], of("leader")),
    # Whoever starts asks the seeds only, so the number of messages differs; 0: all are seeds.
    "group.seed_count": Row(
        "[node]\nelection = 'hybrid'\npreset = 'local'\n[run]\nquiet = '20s'\n", [1, 3, 0], of("messages")
    ),
    "group.start_spread": Row("", ["0s", "8s"], of("converged_at"), grows=True),
    "group.durable_terms": Row("", [False, True], of("records"), grows=True),
    "group.election.announce_interval": Row("", ["2s", "1s", "100ms"], of("messages"), grows=True),
    "group.election.listen_timeout": Row(
        CRASHES.replace("every = '8s'\nlasting = '4s'\n", ""), ["2s", "4s"], of("converged_at"), grows=True
    ),
    "group.election.suppress_interval": Row(SIXTY, ["4s", "400ms", "0s"], of("leader_changes"), grows=True),
    "group.election.leader_is": Row("[run]\nseed = 2\n", ["best", "earliest"], of("leader")),
    "group.election.timer": Row(SIXTY, ["exponential", "uniform"], of("leader_changes"), grows=True),
    "group.election.rank_map": Row(
        SIXTY.replace("12s'", "12s'\nseed = 7"), ["perfect", "likely", "none"], of("leader_changes"), grows=True
    ),
    "group.election.observed_rank": Row(UNEVEN, ["none", "delay", "loss", "neighbours"], of("messages")),
    "group.election.observe_interval": Row(
        TWENTY + "[group.election]\nobserved_rank = 'delay'\n", ["4s", "1s"], of("messages"), grows=True
    ),
    "group.election.group_size": Row(
        TWENTY + "[group.election]\ntimer = 'exponential'\n", [2, 5000], lambda s: s.times("multicast")[0], grows=True
    ),
    "group.election.leader_count": Row("", [1, 2, 3], lambda s: len(s.result.leaders), grows=True),
    "group.election.query_timeout": Row("", ["0s", "500ms"], of("converged_at"), grows=True),
    "group.election.bye_loss": Row(LEAVES, [0.0, 0.5], lambda s: len(s.times("multicast", "Bye")), grows=True),
    "group.election.bye_target_prob": Row(LEAVES, [0.99, 0.0], of("converged_at"), grows=True),
    "group.election.bye_from_all": Row(
        LEAVES.replace("leader", "n0"), [False, True], lambda s: len(s.times("multicast", "Bye")), grows=True
    ),
    "group.election.ageing_after": Row(
        "[group.election]\nlisten_timeout = '8s'\n[run]\nlength = '70s'\nquiet = '12s'\n"
        "[[churn.events]]\ndo = 'pause'\nwho = ['leader']\nat = '5s'\nlasting = '5s'\n"
        "[[churn.events]]\ndo = 'join'\nwho = ['a']\nat = '7s'\n"
        "",
        ["inf", "2s"],
        lambda s: len(s.times("fact", "silent")),
        grows=True,
    ),
    "topology.shape": Row(
        PLACED,
        ["complete", "ring", "bus", "star", "tree", "torus", "grid", "geometric", "clusters", ("edges", STAR)],
        travel,
    ),
    "topology.arity": Row(PLACED + "[topology]\nshape = 'tree'\n", [4, 2, 1], travel, grows=True),
    "topology.reach_m": Row(PLACED + "[topology]\nshape = 'geometric'\n", [9.0, 4.0], travel, grows=True),
    "topology.density": Row(PLACED + "[topology]\nshape = 'geometric'\n", [0.9, 0.2], travel, grows=True),
    "topology.cluster_count": Row(PLACED + "[topology]\nshape = 'clusters'\n", [1, 2, 6], travel),
    "topology.edges": Row("[topology]\nshape = 'edges'\n", [RING, STAR], travel),
    "network.delay.model": Row(
        SHORT + "[network.delay]\nspread = '50ms'\n", ["constant", "uniform", "exponential", "normal", "pareto"], travel
    ),
    "network.delay.mean": Row(SHORT, ["1ms", "100ms"], travel, grows=True),
    "network.delay.spread": Row(SHORT + "[network.delay]\nmodel = 'uniform'\n", ["1ms", "90ms"], spread, grows=True),
    "network.delay.link_spread": Row(SHORT, ["0s", "90ms"], spread, grows=True),
    "network.loss.model": Row(
        FAST + "[group]\nnodes = 6\n[network.loss]\nprob = 0.2\ncapacity = 4.0\nwindow = '1s'\n",
        ["none", "uncorrelated", "correlated", "load", "links", "bursts"],
        fault("loss"),
    ),
    "network.loss.prob": Row("[network.loss]\nmodel = 'uncorrelated'\n", [0.0, 0.1, 0.5], fault("loss"), grows=True),
    "network.loss.capacity": Row(
        TWENTY + "[group.election]\nsuppress_interval = '0s'\n[network.loss]\nmodel = 'load'\nprob = 0.2\n",
        [1e6, 2.0],
        fault("loss"),
        grows=True,
    ),
    "network.loss.window": Row(
        TWENTY + "[network.loss]\nmodel = 'load'\nprob = 0.2\ncapacity = 1.0\n",
        ["1ms", "1s"],
        fault("loss"),
        grows=True,
    ),
    "network.loss.burst_count": Row(
        FAST + "[network.loss]\nmodel = 'bursts'\nprob = 0.3\n", [1.0, 8.0], Seen.longest_silence, grows=True
    ),
    "network.duplicate_prob": Row("", [0.0, 0.2, 1.0], of("deliveries"), grows=True),
    "network.reorder_prob": Row("", [0.0, 0.2, 1.0], fault("reorder"), grows=True),
    "network.reorder_by": Row("[network]\nreorder_prob = 0.5\n", ["1ms", "400ms"], spread, grows=True),
    "network.fifo": Row(
        FAST + "[network.delay]\nmodel = 'exponential'\nmean = '300ms'\n",
        [False, True],
        fault("held in order"),
        grows=True,
    ),
    "network.corrupt_prob": Row("", [0.0, 0.1, 0.6], fault("corrupt"), grows=True),
    "churn.events": Row("", [[], [{"do": "crash", "who": ["leader"], "at": "5s"}]], fault("crash"), grows=True),
    "churn.random.crash_rate": rate_row("crash"),
    "churn.random.leave_rate": rate_row("leave"),
    "churn.random.join_rate": rate_row("join"),
    "churn.random.pause_rate": rate_row("pause"),
    "churn.random.slow_rate": rate_row("slow"),
    "churn.random.partition_rate": rate_row("partition"),
    "churn.random.block_rate": rate_row("block"),
    "churn.random.cut_rate": rate_row("cut"),
    "churn.random.graph_rate": rate_row("graph"),
    "churn.random.clog_rate": rate_row("clog"),
    "churn.random.clock_rate": rate_row("clock"),
    "churn.random.wall_rate": rate_row("wall"),
    "churn.random.resign_rate": rate_row("resign"),
    "churn.random.score_rate": rate_row("score"),
    "churn.random.will_rate": rate_row("will", QUORUM),
    "churn.random.old_will_rate": rate_row("old-will", QUORUM + CRASHES),
    "churn.random.baton_rate": rate_row("baton", QUORUM),
    "churn.random.voters_rate": rate_row("voters", QUORUM),
    "churn.random.hang_rate": rate_row("hang", FOLDER),
    "churn.random.io_error_rate": rate_row("io-error", FOLDER),
    "churn.random.late_claim_prob": Row(
        FOLDER + "[churn.random]\ncrash_rate = 20.0\n[run]\nlength = '40s'\nquiet = '0s'\n",
        [0.0, 1.0],
        fault(LATE_CLAIM),
        grows=True,
    ),
    "churn.random.disk_lost_max": Row(
        "[churn.random]\ncrash_rate = 60.0\ndisk_lost_prob = 1.0\n[group]\ndurable_terms = true\n",
        [0, 1, 5],
        fault("disk lost"),
        grows=True,
    ),
    "churn.random.mean_lasting": Row(
        "[churn.random]\npartition_rate = 20.0\n", ["100ms", "5s"], fault("cut off"), grows=True
    ),
    "churn.random.disk_lost_prob": Row(
        "[group]\ndurable_terms = true\n[churn.random]\ncrash_rate = 20.0\n", [1.0, 0.0], Seen.highest_term, grows=True
    ),
    "churn.random.slow_by": Row(
        "[churn.random]\nslow_rate = 20.0\n", ["1ms", "400ms"], lambda s: _lateness(s, "gets to it"), grows=True
    ),
    "churn.random.clock_by": Row(
        "[run]\nseed = 4\n[churn.random]\nclock_rate = 90.0\n", ["10ms", "9s"], of("leader_changes"), grows=True
    ),
    "churn.random.up_min": Row("[churn.random]\ncrash_rate = 60.0\n", [5, 3, 1], fault("crash"), grows=True),
    "clocks.offset_max": Row(
        "[group]\nrank = 'wake-up'\n", ["0s", "20s"], lambda s: max(map(abs, s.standings())), grows=True
    ),
    "clocks.drift_max": Row("", [0.0, 0.2], of("messages")),
    "run.length": Row("", ["20s", "40s"], of("messages"), grows=True),
    "run.warm_up": Row(LOSSY, ["30s", "0s"], of("messages"), grows=True),
    "run.quiet": Row(LOSSY, ["40s", "0s"], fault("loss"), grows=True),
    "run.seed": Row("", [1, 2, 3], of("converged_at")),
    "run.checks": Row(
        "[group]\nrank = 'wake-up'\n",
        [[], *([check] for check in CHECKERS if check in ANNOUNCING)],
        lambda s: str(s.result.looked),
        watches_only=True,
    ),
    "run.disk_delay": Row(
        "[group]\ndurable_terms = true\n", ["0s", "1s"], lambda s: sum(s.times("durable")), grows=True
    ),
    "run.datagram_max": Row(LONG_NAMES, [1400, 68], lambda s: len(s.result.violations), grows=True),
    "run.wire": Row("", [False, True], lambda s: None, watches_only=True),  # Its own test is below.
}

EVENT = {"do": "crash", "at": "5s", "who": ["n4"]}
DEEDS: dict[str, dict[str, Any]] = {
    "join": {"who": ["zed"]},
    "leave": {},
    "crash": {},
    "restart": {},
    "pause": {},
    "resume": {},
    "slow": {"by": "100ms"},
    "partition": {},
    "block": {},
    "cut": {},
    "star": {},
    "chain": {},
    "one-way-star": {},
    "graph": {"who": []},
    "heal": {"who": []},
    "clog": {},
    "release": {"who": []},
    "clock-forward": {"by": "2s"},
    "clock-back": {"by": "2s"},
    "wall-clock": {},
    "resign": {},
    "score": {},
}
LEADERS = {  # What only some elections know.
    **dict.fromkeys(("baton", "voters", "will", "old-will"), QUORUM),
    **dict.fromkeys(("hang", "io-error"), FOLDER),
}
PARTED = {"do": "partition", "who": ["n4"], "at": "5s", "name": "first"}
EVENT_ROWS: dict[str, Row] = {
    "at": Row("", [{**EVENT, "at": at} for at in ("5s", "9s")], of("converged_at"), grows=True),
    "every": Row(
        "", [{**EVENT, "who": ["leader"], "every": every} for every in ("0s", "9s")], fault("crash"), grows=True
    ),
    "until": Row(
        "",
        [{**EVENT, "who": ["leader"], "every": "9s", "until": until} for until in ("5s", "15s", "inf")],
        fault("crash"),
        grows=True,
    ),
    "who": Row(
        "",
        [{**EVENT, "who": who} for who in (["n4"], ["n4", "n3"], [2, "n4", "n3"])],
        lambda s: -s.result.up,
        grows=True,
    ),
    "to": Row("", [{**PARTED, "to": to} for to in (["n0"], ["n0", "n1"], [])], fault("cut off"), grows=True),
    "lasting": Row("", [{**PARTED, "lasting": time} for time in ("1s", "20s")], fault("cut off"), grows=True),
    "disk": Row(
        "[group]\ndurable_terms = true\n",
        [{**EVENT, "do": "restart", "every": "5s", "disk": disk} for disk in ("lost", "kept")],
        Seen.highest_term,
        grows=True,
    ),
    "by": Row(
        "",
        [{**EVENT, "do": "slow", "by": by} for by in ("10ms", "300ms")],
        lambda s: _lateness(s, "gets to it"),
        grows=True,
    ),
    "name": Row(
        "[run]\nquiet = '0s'\n",
        [[PARTED, {"do": "heal", "at": "9s", "name": name}] for name in ("second", "first")],
        fault("heal"),
        grows=True,
    ),
}


def _lateness(seen: Seen, what: str) -> float:
    """The longest between an arrival and the step that it leads to."""
    arrived, longest = 0.0, 0.0
    for at, kind, _, text in seen.lines:
        if kind == "arrive":
            arrived = at
        elif kind == "world" and what in text:
            longest = max(longest, at - arrived)
    return longest


def scenario_with(base: str, path: tuple[str, ...], value: Any) -> Scenario:
    tables = tomllib.loads(base)
    table = tables
    for part in path[:-1]:
        table = table.setdefault(part, {})
    if isinstance(value, tuple):
        value, table["edges"] = value
    table[path[-1]] = value
    return load(Scenario, tables, "test")


def check(row: Row, path: tuple[str, ...]) -> None:
    seen = [Seen(scenario_with(row.base, path, value)) for value in row.values]
    hashes = [one.result.trace_hash for one in seen]
    figures = [row.figure(one) for one in seen]
    if row.watches_only:
        assert len(set(hashes)) == 1, "watching must not change what is watched"
    else:
        assert len(set(hashes)) == len(hashes), hashes
    if row.grows:
        assert all(a < b for a, b in pairwise(figures)), figures
    elif path != ("run", "wire"):
        assert len(set(figures)) == len(figures), figures


OPTIONS = {option.name: option for option in options(Scenario)}


@pytest.mark.parametrize("name", OPTIONS)
def test_changed_alone_it_changes_the_trace_and_its_figure(name: str) -> None:
    assert name in ROWS, f"a new option needs a row here: {name}"
    option, row = OPTIONS[name], ROWS[name]
    every = set(choices(option.type)) | ({False, True} if option.type is bool else set())
    assert every <= {v[0] if isinstance(v, tuple) else v for v in row.values if not isinstance(v, list)}
    check(row, option.path)


def test_no_row_is_left_over() -> None:
    assert set(ROWS) == set(OPTIONS)
    assert set(EVENT_ROWS) | {"do"} == {option.name for option in options(ChurnEvent)}


@pytest.mark.parametrize("name", EVENT_ROWS)
def test_a_field_of_an_event_changes_the_trace_and_its_figure(name: str) -> None:
    row = EVENT_ROWS[name]
    lists = [value if isinstance(value, list) else [value] for value in row.values]
    check(Row(row.base, lists, row.figure, grows=row.grows), ("churn", "events"))


def test_each_deed_changes_the_trace_and_is_counted() -> None:
    deeds = next(get_args(option.type) for option in options(ChurnEvent) if option.name == "do")
    # Memory that can be corrupted is the spanning election's: corruption.toml.
    assert {*DEEDS, *LEADERS, "corrupt"} == set(deeds)
    before = [
        PARTED | {"at": "2s"},
        {"do": "clog", "who": ["n0"], "at": "2s"},
        {"do": "pause", "who": ["n1"], "at": "2s"},
    ]
    base = scenario_with("", ("churn", "events"), before)
    hashes = {simulate(base).trace_hash}
    for deed, more in DEEDS.items():
        who: Literal["n1", "n4"] = "n1" if deed == "resume" else "n4"
        event = {**EVENT, "who": [who], "do": deed, **more}
        result = simulate(scenario_with("", ("churn", "events"), [*before, event]))
        assert result.trace_hash not in hashes, deed
        hashes.add(result.trace_hash)
        assert result.faults[deed] == 1 + (deed in ("pause", "partition", "clog")), deed


@pytest.mark.parametrize("deed", LEADERS)
def test_what_befalls_a_leader_changes_the_trace_and_is_counted(deed: str) -> None:
    resigns = {"do": "resign", "who": ["leader"], "at": "4s", "lasting": "1s"}
    before = [resigns] if deed == "old-will" else []  # Only the will of a term that is over is old.
    plain, told = (
        simulate(scenario_with(LEADERS[deed] + "[run]\nlength = '20s'\nquiet = '0s'\n", ("churn", "events"), events))
        for events in (before, [*before, {"do": deed, "who": ["leader"], "at": "8s"}])
    )
    assert plain.trace_hash != told.trace_hash and (plain.faults.get(deed, 0), told.faults[deed]) == (0, 1)


CRASH = (
    "[[churn.events]]\ndo = 'crash'\nwho = ['leader']\nat = '20s'\nlasting = '10s'\n"
    "[run]\nlength = '90s'\nquiet = '45s'\n"
)
PARTED_BY_LINKS = (
    "[[churn.events]]\ndo = 'star'\nwho = ['others']\nat = '25s'\nlasting = '25s'\n"
    "[run]\nlength = '90s'\nquiet = '40s'\n[network.delay]\nmean = '1ms'\n"
)
STACKS = (
    "[group]\nrank = 'wake-up'\n",
    CRASH + "[node]\nelection = 'base'\nrank = 'hash'\npreset = 'local'\n[node.ctolerant]\nmissing_max = 3\n",
    CRASH.replace("crash", "leave").replace("lasting = '10s'\n", "")
    + "[node]\nelection = 'base'\nrank = 'hash'\npreset = 'local'\n[node.ctolerant]\nmissing_max = 2\n",
    CRASH + "[node]\nelection = 'hybrid'\npreset = 'local'\n",
    CRASH + "[node]\nelection = 'base'\nrank = 'hash'\npreset = 'local'\n"
    "[node.ctolerant]\nmissing_max = 1\n[network.delay]\nmean = '1ms'\n",
    CRASH + "[node]\nelection = 'pole'\npreset = 'local'\n",
    CRASH.replace("['leader']", "['leader', 'random', 'random']").replace("90s", "150s").replace("45s", "60s")
    + "[node]\nelection = 'pole'\npreset = 'local'\n[network.delay]\nmean = '1ms'\n",
    PARTED_BY_LINKS + "[node]\nelection = 'hybrid'\npreset = 'local'\n",
    PARTED_BY_LINKS + "[node]\nelection = 'le-s'\npreset = 'local'\n",
    CRASH + "[node]\nelection = 'by-key'\npreset = 'local'\n",
    CRASH + "[node]\nelection = 'le-s'\npreset = 'local'\n[network.delay]\nmean = '1ms'\n",
)


def test_every_check_looks_at_some_stack() -> None:
    files = (Path(__file__).parents[2] / "scenarios" / f"{name}.toml" for name in ("ring_storm", "corruption"))
    texts = (*STACKS, *(file.read_text() for file in files))
    results = [simulate(load(Scenario, tomllib.loads(text), "test")) for text in texts]
    assert results[-1].faults["corrupt"]
    looked = {name for result in results for name, count in result.looked.items() if count}
    assert looked == {*CHECKERS}
    assert not any(result.violations for result in results)


def test_on_the_wire_messages_are_decoded_anew_and_mean_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = 0

    class Counting:
        def __init__(self, messages: Any) -> None:
            self.decoder = Decoder(messages)

        def decode(self, data: bytes) -> Any:
            nonlocal decoded
            decoded += 1
            return self.decoder.decode(data)

    monkeypatch.setattr(engine, "Decoder", Counting)
    plain = simulate(scenario_with("", ("run", "wire"), False))
    assert decoded == 0
    wired = simulate(scenario_with("", ("run", "wire"), True))
    assert decoded == wired.messages > 0
    assert plain.trace_hash == wired.trace_hash
