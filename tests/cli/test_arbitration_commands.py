"""`doyen sim arbitration` and `doyen analyze arbitration`, as kept stable."""

import json
import subprocess
import sys

import pytest


def doyen(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "doyen", *line.split()], capture_output=True, text=True, check=False)


def test_the_kept_fields() -> None:
    done = doyen(
        "sim arbitration --mode paper --arbiters central --nodes 32 --neighbours 3 --arbiter-count 5 --lease 1s "
        "--arbitration 500ms --events 2 --crash 1 --crash-arbiters 1 --runs 2 --seed 1 --jobs 1 --json"
    )
    found = json.loads(done.stdout)
    assert found["survivors"] == {"mean": 30, "min": 30, "max": 30}
    assert found["forced_departures"] == {"mean": 0, "min": 0, "max": 0}
    assert found["survivors_by_event"] == [31, 30]
    assert set(found["detection"]) == {"per_monitor", "all_monitors"}
    assert set(found["requests"]) == {"total", "per_failure", "per_node_mean", "per_node_max", "share_below_10"}
    assert found["requests"]["per_failure"] == 30  # Six monitors ask five arbitrators.
    assert set(found["recovery_start"]) == set(found["join_latency"]) == {"mean", "max"}
    assert found["mutual_deaths"] == 0 and not any(found["violations"].values())


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("--nodes 0", "--nodes"),
        ("--partition 3/4 --nodes 32", "--partition"),
        ("--delay 300ms", "--arbitration"),
        ("--crash-arbiters 1", "--crash-arbiters"),
        ("--loss 1.5", "--loss"),
        ("--drift 0.7", "--drift"),
        ("--runs 0", "--runs"),
        ("--lease 0s", "--lease"),
        ("--adjacent", "--adjacent"),
        ("--arcs", "--arcs"),
        ("--events 0", "--events"),
        ("--leave 40", "--leave"),
    ],
)
def test_bad_input_names_its_flag(arguments: str, named: str) -> None:
    done = doyen(f"sim arbitration {arguments} --json")
    assert done.returncode == 2 and done.stdout == ""
    assert named in done.stderr and len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        ("upgrade", {"value": 2}),
        ("detection", {"low": 1, "high": 2}),
        ("symmetric", {"low": 1, "high": 2}),
        ("mutual", {"low": 1, "high": 2}),
        ("lifespan", {"value": 2.5}),
        ("recent", {"value": 2.5}),
        ("recovery", {"value": 2.5}),
        ("consistency", {"value": 4.5}),
        ("overhead", {"value": 12}),
        ("group-size", {"low": 8, "high": 10}),
        ("arbitrator-sets", {"value": 72, "exact": 27}),
        ("central-load", {"value": 6}),
    ],
)
def test_quantities(quantity: str, expected: dict[str, float]) -> None:
    from click.testing import CliRunner

    from doyen_papers.cli.analyze.arbitration import command

    done = CliRunner().invoke(command, ["--quantity", quantity, "--json"])
    found = json.loads(done.stdout)
    assert {name: found[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [("--lease inf", "--lease"), ("--delay inf", "--delay"), ("--drift 1", "--drift"), ("--nodes 1", "--nodes")],
)
def test_a_quantity_of_what_cannot_be_names_its_flag(arguments: str, named: str) -> None:
    done = doyen(f"analyze arbitration --quantity detection {arguments} --json")
    assert done.returncode == 2 and done.stdout == "" and named in done.stderr


def test_a_scenario_by_name() -> None:
    done = doyen("sim arbitration --scenario link-cut --runs 2 --json")
    assert json.loads(done.stdout) == {"scenario": "link-cut", "runs": 2, "seed": 1, "passed": True, "failed": {}}
