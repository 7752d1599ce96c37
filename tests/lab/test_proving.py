"""The proving ground itself: sound nodes pass, broken ones are caught, and nothing is left behind."""

import asyncio
import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from doyen.core.clock import ms
from doyen_lab.iproute import existing_namespaces
from doyen_lab.proving.combination import COMBINATIONS, Combination
from doyen_lab.proving.ground import Ground
from doyen_lab.proving.judge import CHECKS
from doyen_lab.proving.runner import Result, pairs, prove
from doyen_lab.proving.scenarios import CUT_OFF, SCENARIOS, Scenario
from doyen_lab.proving.witness import WITNESS
from doyen_lab.switch import Link

pytestmark = pytest.mark.alone
MUTANTS = Path(__file__).with_name("mutants.py")


def proved(scenario: str | Scenario, election: str | Combination, mutant: str = "") -> Result:
    scenario = SCENARIOS[scenario] if isinstance(scenario, str) else scenario
    combination = COMBINATIONS[election] if isinstance(election, str) else election
    command = (sys.executable, str(MUTANTS), mutant) if mutant else WITNESS
    result = asyncio.run(prove(scenario, combination, command=command))
    if mutant and result.histories:
        shutil.rmtree(result.histories)
    return result


@pytest.mark.root
@pytest.mark.parametrize(
    ("scenario", "election"), [pytest.param("pause-leader", "pole", marks=pytest.mark.soak), ("cut-leader", "hybrid")]
)
def test_sound_nodes_pass(scenario: str, election: str) -> None:
    result = proved(scenario, election)
    assert result.violations == ()
    assert result.faults and result.takeovers_s and result.acts > 50
    assert all(result.checked[check] for check in SCENARIOS[scenario].checks if check in result.checked)
    assert len({host.inode for host in result.hosts}) == len({pid for host in result.hosts for pid in host.pids}) == 5
    assert not result.histories
    assert not [name for name in existing_namespaces() if name.startswith(f"doyen{os.getpid()}-")]


async def cut_and_cut(ground: Ground) -> None:
    await ground.start_all()
    for _ in range(3):
        leader = await ground.settled()
        here = ground.running[leader].index
        at = ground.cut([edge for edge in ground.network.directions() if here in edge], "after it was cut off")
        await ground.succeeded(leader, at)
        ground.heal()


FAR_APART = Scenario(
    name="far-apart", text="", play=cut_and_cut, faults=("packets refused",), link=Link(delay=ms(100)), checks=CUT_OFF
)
QUICK_BEATS = {"lease": "1s", "heartbeat_interval": "50ms", "election_timeout": "400ms", "retry_max": "1s"}
OFTEN = Combination(name="pole", election="pole", tables={"pole": QUICK_BEATS})
TWO_AT_ONCE, TOO_LONG = "two at once", "after it had lost the majority"
CAUGHT_BY = {  # Where each mutant is brought to light, and what is said of it.
    "outlives_its_lease": [("cut-leader", "pole", TOO_LONG)],
    "counts_its_lease_from_the_answer": [(FAR_APART, OFTEN, TOO_LONG)],
    "needs_no_majority": [("partition", "pole", TWO_AT_ONCE)],
    "forgets_its_promise": [("mass-restart", "pole", "had two")],
    "never_yields": [
        ("pause-leader", "pole", TWO_AT_ONCE),
        ("cut-leader", "hybrid", " and acts"),  # Two do, where one leader was to be named by all.
        ("cut-leader", "announce", " and acts"),
    ],
}


@pytest.mark.root
@pytest.mark.soak
@pytest.mark.parametrize("mutant", runpy.run_path(str(MUTANTS))["NODES"])
def test_every_broken_node_is_caught(mutant: str) -> None:
    for scenario, election, said in CAUGHT_BY[mutant]:
        assert any(said in text for text in proved(scenario, election, mutant).violations)


@pytest.mark.root
def test_a_leader_that_outlives_its_lease_is_caught() -> None:
    result = proved("cut-leader", "pole", "outlives_its_lease")
    assert any(text.startswith(TWO_AT_ONCE) for text in result.violations), result.violations
    assert any(TOO_LONG in text for text in result.violations)


@pytest.mark.root
@pytest.mark.soak
def test_sound_nodes_far_apart_pass() -> None:
    assert proved(FAR_APART, OFTEN).violations == ()


@pytest.mark.root
@pytest.mark.soak
@pytest.mark.parametrize(("scenario", "election"), [(s.name, c.name) for s, c in pairs((), ())])
def test_every_scenario_holds(scenario: str, election: str) -> None:
    assert proved(scenario, election).violations == ()


def test_every_scenario_says_what_must_have_happened_and_every_check_is_wanted_by_one() -> None:
    assert all(scenario.faults and scenario.checks for scenario in SCENARIOS.values())
    assert {check for scenario in SCENARIOS.values() for check in scenario.checks} == set(CHECKS)


def test_bad_names_are_one_line_and_exit_2() -> None:
    for arguments, said in (
        (["no-such"], "no scenario 'no-such'"),
        (["--election", "lokal"], "'lokal' is not installed"),
        (["singleton", "--election", "hybrid"], "is not run with singleton"),
    ):
        done = subprocess.run([sys.executable, "-m", "doyen", "lab", "run", *arguments], capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert said in done.stderr


def test_the_list_names_every_scenario_of_the_issue() -> None:
    done = subprocess.run([sys.executable, "-m", "doyen", "lab", "list", "--json"], capture_output=True, text=True)
    names = {found["name"] for found in json.loads(done.stdout)["scenarios"]}
    assert names == {
        "kill-leader",
        "cut-leader",
        "one-way-cut",
        "pause-leader",
        "loss-30",
        "rtt-200",
        "partition",
        "rolling-restart",
        "mass-restart",
        "duplicate-name",
        "stale-key",
        "clock-step",
        "full-disk",
        "singleton",
        "will",
        "partial-star",
        "partial-chain",
        "replace-voter",
        "one-way-star",
    }
