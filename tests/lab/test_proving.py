"""The proving ground itself: sound nodes pass, broken ones are caught, and nothing is left behind."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from doyen.lab.iproute import existing_namespaces
from doyen.lab.proving.combination import COMBINATIONS
from doyen.lab.proving.runner import Result, pairs, prove
from doyen.lab.proving.scenarios import SCENARIOS

pytestmark = pytest.mark.live
MUTANTS = Path(__file__).with_name("mutants.py")


def proved(scenario: str, election: str, mutant: str = "") -> Result:
    command = [sys.executable, str(MUTANTS), mutant] if mutant else None
    result = asyncio.run(
        prove(SCENARIOS[scenario], COMBINATIONS[election], **({"command": command} if command else {}))  # type: ignore[arg-type]
    )
    if mutant and result.histories:
        shutil.rmtree(result.histories)
    return result


@pytest.mark.root
@pytest.mark.parametrize(("scenario", "election"), [("pause-leader", "pole"), ("cut-leader", "hybrid")])
def test_sound_nodes_pass(scenario: str, election: str) -> None:
    result = proved(scenario, election)
    assert result.violations == ()
    assert result.faults and result.takeovers_s and result.acts > 50
    assert not result.histories
    assert not [name for name in existing_namespaces() if name.startswith("doyen-lab")]


@pytest.mark.root
def test_a_leader_that_outlives_its_lease_is_caught() -> None:
    result = proved("cut-leader", "pole", "outlives_its_lease")
    assert any(text.startswith("two at once") for text in result.violations), result.violations
    assert any("after it had lost the majority" in text for text in result.violations)


@pytest.mark.root
@pytest.mark.soak
@pytest.mark.parametrize(("scenario", "election"), [("pause-leader", "pole"), ("cut-leader", "hybrid")])
def test_an_application_that_never_yields_is_caught(scenario: str, election: str) -> None:
    assert not proved(scenario, election, "never_yields").holds


@pytest.mark.root
@pytest.mark.soak
@pytest.mark.parametrize(("scenario", "election"), [(s.name, c.name) for s, c in pairs((), ())])
def test_every_scenario_holds(scenario: str, election: str) -> None:
    assert proved(scenario, election).violations == ()


def test_bad_names_are_one_line_and_exit_2() -> None:
    for arguments, said in (
        (["no-such"], "no scenario 'no-such'"),
        (["--election", "local"], "'local' is not proved"),
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
    }
