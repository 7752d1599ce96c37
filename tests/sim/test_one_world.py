"""The one world: any election over any membership, in runs, checks, replays and smaller scenarios alike."""

import json
import os
import shlex
import subprocess
import sys
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import pytest
from broken import as_mutant
from msgspec.structs import replace

from doyen.cli import main
from doyen.core.clock import Instant
from doyen.core.config import load
from doyen.core.ids import NodeId
from doyen.core.machine import Hears, hears
from doyen.election.announce.machine import Announce
from doyen.election.by_key.machine import LeaderByKey
from doyen.election.churn.machine import CTolerant
from doyen.election.churn.messages import Record
from doyen.election.pole.machine import Pole
from doyen.election.spanning.machine import Spanning
from doyen.election.spanning.messages import State
from doyen.errors import ConfigError
from doyen.membership.ring.messages import LeftRing, NeighboursChanged
from doyen.node import registry
from doyen.node.registry import ELECTIONS, MEMBERSHIPS
from doyen.sim.runs import run_many
from doyen.sim.scenario import Scenario, from_line, read_file, simulate, to_line
from doyen.sim.scenario.defaults import completed
from doyen.sim.scenario.run import configured_faults
from doyen.sim.scenario.shrink import shrink

ROOT = Path(__file__).parents[2]
FIELDS = {
    *("election", "nodes", "seed", "runs", "violations", "faults", "final_leaders", "agreement", "trace_hash"),
    *("agreed", "looked", "never_fired", "never_looked", "messages", "events", "leader_changes", "converged_at"),
}


def usual(
    nodes: int = 4, *, group_rank: str = "address", tables: dict[str, Any] | None = None, **node: Any
) -> Scenario:
    """What `doyen sim run --election KIND --nodes N` runs."""
    steady = {"pole": {"resign_interval": "inf"}} if node["election"] == "pole" else {}  # Nobody hands over by itself.
    said = {
        "group": {"nodes": nodes, "rank": group_rank},
        "node": {"preset": "local", **steady, **node},
        **(tables or {}),
    }
    return load(Scenario, completed(said, "", usual_faults=True), "")


@cache
def stacks() -> list[tuple[str, str, str]]:
    """Every election over every membership that can carry it, by hash and, where members have scores, by score."""
    found = []
    for election in ELECTIONS:
        for membership in ("none", *MEMBERSHIPS):
            for rank in ("hash", "score"):
                try:
                    usual(election=election, membership=membership, rank=rank)
                except ConfigError:
                    continue
                found.append((election, membership, rank))
    return found


@cache
def repeated() -> set[tuple[str, str, str]]:
    """One stack of each election and of each membership, and all that tests/holds does not run in another process."""
    by_part = {part: stack for stack in reversed(stacks()) for part in stack[:2]}
    return {*by_part.values(), *(stack for stack in stacks() if stack[0] in ("directory", "engine"))}


@pytest.mark.parametrize(("election", "membership", "rank"), stacks())
def test_every_stack_survives_the_usual_faults_and_the_same_seed_is_the_same_run(
    election: str, membership: str, rank: str
) -> None:
    worth = "load" if rank == "score" else "address"
    scenario = usual(election=election, membership=membership, rank=rank, group_rank=worth)
    first = simulate(scenario, 2)
    if (election, membership, rank) in repeated():
        assert first == simulate(scenario, 2)
    assert first.violations == [] and first.agreed and len(first.final_leaders) == 1, first
    assert all(first.looked.values()), first.looked
    assert first.faults["crash"] == first.faults["partition"] == 1


def test_the_stacks_are_all_that_there_are() -> None:
    assert {election for election, _, _ in stacks()} == set(ELECTIONS)
    assert {membership for _, membership, _ in stacks()} == {"none", *MEMBERSHIPS}
    assert len(stacks()) > 80


# ── Broken machines: caught, replayed, made smaller ─────────────────────────────────────────────────────────


class NeverGivesUp(Pole):
    """Acts on grants, however old."""

    def leads(self, now: Instant) -> bool:
        return self.is_leader


class KeepsItsFirstLeader(CTolerant):
    def accepts(self, record: Record) -> bool:
        return self.held is None and super().accepts(record)


class DeafToPulses(Spanning):
    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
        if not isinstance(message, State):
            super().on_message(sender, message, now)


class NeverYields(Announce):
    __slots__ = ()

    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
        if not self.is_leader:
            super().on_message(sender, message, now)


class NeverStops(LeaderByKey):
    def on_neighbours_changed(self, fact: NeighboursChanged, now: Instant) -> None:
        if not self.is_leader:
            super().on_neighbours_changed(fact, now)

    def on_left_ring(self, fact: LeftRing, now: Instant) -> None:
        if not self.is_leader:
            super().on_left_ring(fact, now)

    HEARS: ClassVar[Hears] = (
        LeaderByKey.HEARS | hears(NeighboursChanged, on_neighbours_changed) | hears(LeftRing, on_left_ring)
    )


BROKEN: dict[str, tuple[type[Any], set[str]]] = {
    "pole": (NeverGivesUp, {"alone", "held", "told"}),
    "hybrid": (KeepsItsFirstLeader, {"agreement", "record", "steady"}),
    "spanning": (DeafToPulses, {"agreement"}),
    "le-s": (NeverYields, {"agreement", "behind"}),
    "by-key": (NeverStops, {"alone", "told"}),
}


@pytest.mark.parametrize(
    "election",
    [pytest.param(kind, marks=[pytest.mark.soak] * (kind in ("spanning", "by-key", "hybrid"))) for kind in BROKEN],
)
def test_a_broken_machine_is_caught_replayed_and_shrunk(election: str) -> None:
    mutant, checks = BROKEN[election]

    def fails(scenario: Scenario) -> str | None:
        violations = simulate(scenario, tamper=as_mutant(mutant)).violations
        return violations[0].check if violations else None

    start = usual(5, election=election)
    seeds = (replace(start, run=replace(start.run, seed=seed)) for seed in range(30))
    scenario = next(found for found in seeds if fails(found))
    assert fails(scenario) in checks and simulate(scenario).violations == []  # It is the machine's fault.
    assert fails(from_line(to_line(scenario))) == fails(scenario)
    shrunk = shrink(scenario, fails, tries_max=40)
    assert shrunk is not None and fails(from_line(to_line(shrunk.scenario))) == shrunk.check == fails(scenario)
    small = shrunk.scenario
    assert small.run.length < scenario.run.length or small.group.nodes < 5 or len(small.churn.events) < 2


# ── The command ─────────────────────────────────────────────────────────────────────────────────────────────


def doyen(*arguments: Any) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["sim", *map(str, arguments)])
    code: Any = ended.value.code
    return int(code or 0), ""


@pytest.mark.parametrize("election", ELECTIONS)
def test_doyen_sim_run_takes_every_kind(election: str, capsys: pytest.CaptureFixture[str]) -> None:
    doyen("run", "--election", election, "--nodes", 3, "--node", "preset=local", "--json")
    found = json.loads(capsys.readouterr().out)
    assert FIELDS <= set(found)
    assert (found["election"], found["nodes"], found["runs"], found["seed"]) == (election, 3, 1, 1)
    assert found["violations"] == found["never_fired"] == found["never_looked"] == [] and found["agreement"] == 1.0
    assert found["final_leaders"] == found["leaders"] and len(found["final_leaders"]) == 1
    fired = {fault for fault, count in found["faults"].items() if count}
    assert {"crash", "partition", "hang" if election == "directory" else "loss"} <= fired
    program, _, *replay = shlex.split(found["replay"])
    doyen(*replay, "--json")
    assert program == "doyen" and json.loads(capsys.readouterr().out) == found


def test_many_runs_say_the_same_things_with_any_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    outs = []
    for jobs in (1, 2):
        doyen(
            "run", "--election", "hybrid", "--nodes", 3, "--node", "preset=local", "--runs", 4, "--jobs", jobs, "--json"
        )
        outs.append(json.loads(capsys.readouterr().out))
    assert outs[0] == outs[1] and FIELDS <= set(outs[0])
    assert (outs[0]["runs"], outs[0]["agreement"], len(outs[0]["final_leaders"])) == (4, 1.0, 4)


def test_the_same_arguments_give_the_same_output_in_any_process_and_without_numpy() -> None:
    hidden = "import sys; sys.modules['numpy'] = sys.modules['numba'] = None\nfrom doyen.cli import main\n"
    outs = set()
    for kind in ("spanning", "hybrid"):
        line = f"main(['sim', 'run', '--election', '{kind}', '--nodes', '4', '--node', 'preset=local', '--json'])"
        for seed in ("1", "77"):
            environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "src")}
            command = [sys.executable, "-c", hidden + line]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            outs.add(done.stdout)
    assert len(outs) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--election", "hybird"], ["--election", "hybird", "hybrid"]),
        (
            ["--election", "hybrid", "--membership", "none"],
            ["--membership", "none cannot carry the election gossip (hybrid)"],
        ),
        (["--election", "by-key", "--membership", "swim"], ["--membership", "swim cannot carry the election by-key"]),
        (["--election", "none"], ["election", "none leaves nothing"]),
        (["--election", "none", "--membership", "swim"], ["election", "none leaves nothing to look at"]),
        (["--election", "pole", "--node", "voters="], ["--node voters", "must name all members that vote"]),
        (["--election", "pole", "--nodes", "0"], ["doyen: --nodes 0 is out of range: give 1 to"]),
        (["--election", "pole", "--seed", "-1"], ["doyen: --seed -1"]),
        (["--election", "pole", "--node", "swim.perod=1s"], ["--node", "swim.period"]),
        (["--election", "pole", "--node", "swim.period=often"], ["--node swim.period"]),
        (["--election", "local", "--group-observer-count", "1"], ["eligible", "local goes by names alone"]),
        (["--node", "election"], ["--node", "FIELD=VALUE"]),
        (["--election", "hybrid", "--group-durable-terms"], ["--group-durable-terms", "[node]"]),
        (["--election", "hybrid", "--run-checks", "foo"], ["--run-checks", "foo", "is no check: one of terms"]),
        (["--election", "hybrid", "--run-quiet", "1s"], ["--run-quiet", "too short to agree in"]),
    ],
)
def test_what_cannot_be_is_refused_in_the_nodes_own_words(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = doyen("run", *arguments)
    said = capsys.readouterr().err
    assert code == 2 and said.count("\n") == 1, said
    for word in words:
        assert word in said, said


@pytest.mark.parametrize("name", ["lan", "partition", "storm"])
@pytest.mark.parametrize("election", ["hybrid", "pole", "le-m"])
def test_a_file_takes_another_election(name: str, election: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = doyen("run", ROOT / f"scenarios/{name}.toml", "--election", election, "--json")
    found = json.loads(capsys.readouterr().out)
    assert (code, found["election"], found["violations"], found["agreed"]) == (0, election, [], True)


def test_a_file_has_what_a_nodes_own_file_has(tmp_path: Path) -> None:
    node = 'election = "hybrid"\npreset = "local"\nmembership = "medley"\n\n[medley]\nperiod = "300ms"\n'
    (tmp_path / "node.toml").write_text('group = "g"\n' + node)
    (tmp_path / "run.toml").write_text("[node]\n" + node.replace("[medley]", "[node.medley]"))
    from doyen.node.layers import configure

    real = configure({}, file=tmp_path / "node.toml", environment={})
    made_up = read_file(tmp_path / "run.toml").config()
    assert made_up.tables["medley"].period == real.tables["medley"].period == 300_000_000
    assert made_up.tables["ctolerant"] == real.tables["ctolerant"] and made_up.membership_name() == "medley"


def test_somebody_elses_election_runs_like_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples/bully/src")
    registry.further.cache_clear()
    monkeypatch.setattr(
        "importlib.metadata.entry_points",
        lambda group: [EntryPoint("bully", "bully.kind:BULLY", group)] if group == "doyen.elections" else [],
    )
    try:
        scenario = usual(5, election="bully")
        results = run_many(lambda seed: simulate(scenario, seed), 5, 1, jobs=1)
    finally:
        monkeypatch.undo()
        registry.further.cache_clear()
    assert all(result.agreed and not result.violations for result in results), results
    assert {leader for result in results for leader in result.final_leaders} == {"n4"}
    assert all(result.faults[fault] for result in results for fault in configured_faults(scenario))
