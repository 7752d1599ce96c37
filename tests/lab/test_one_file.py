"""One scenario file in two worlds: made-up time and real processes give one verdict, on sound and on broken nodes."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doyen.core.clock import Duration, ms
from doyen.sim.scenario import read_file
from doyen_lab.proving.judge import STEPS
from doyen_lab.proving.player import combination_of
from doyen_lab.proving.runner import prove
from doyen_lab.proving.scenarios import from_file

pytestmark = [pytest.mark.alone, pytest.mark.root]
HERE = Path(__file__).parent
DOYEN = (sys.executable, "-m", "doyen")
BROKEN = (sys.executable, str(HERE / "mutants.py"), "needs_no_majority")
FAULTS = """
[group]
nodes = 5
[network.delay]
mean = "1ms"
[[churn.events]]
do = "crash"
who = ["leader"]
at = "1s"
lasting = "4s"
[[churn.events]]
do = "partition"
who = ["leader"]
at = "7s"
lasting = "4s"
[run]
quiet = "10s"
length = "22s"
[node]
preset = "local"
"""
NODES = {
    "pole": 'election = "pole"\n[node.pole]\nlease = "1s"\nheartbeat_interval = "200ms"\nelection_timeout = "100ms"\n'
    'retry_max = "1s"\nscore_timeout = "500ms"\n',
    "hybrid": 'election = "hybrid"\n[node.swim]\nsync_interval = "1s"\nsuspicion_max_mult = 2.0\n'
    '[node.ctolerant]\nask_interval = "1s"\n',
}


def said(*command: str) -> dict[str, Any]:
    """Return what the command says as JSON, whether the promise holds or not."""
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=180)
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("election", ["pole", pytest.param("hybrid", marks=pytest.mark.soak)])
def test_sound_nodes_are_safe_and_live_in_both_worlds(
    election: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    path = tmp_path / f"{election}.toml"
    path.write_text(FAULTS + NODES[election])
    made_up, real = said(*DOYEN, "sim", "run", str(path)), said(*DOYEN, "lab", "run", str(path))["results"][0]
    assert (made_up["violations"], real["violations"], real["holds"]) == ([], [], True)
    for found in (made_up, real):
        assert (found["election"], found["faults"]["crash"], found["faults"]["partition"]) == (election, 1, 1)
    # Liveness: within the bound that the kind states, in quiet time here and from each fault to the next act there.
    scenario = read_file(path)
    assert made_up["agreement"] == 1.0 and made_up["converged_at"] * 1e9 < scenario.run.quiet_at + scenario.settling
    bound: Duration = combination_of(scenario).failover([f"n{i}" for i in range(5)])
    assert len(real["takeovers_s"]) == 2 and real["checked"]["quiet regions"]
    assert max(real["takeovers_s"]) * 1e9 < bound + STEPS * ms(real["lateness_ms"])
    # They were processes of their own, in namespaces of their own.
    pids = [pid for host in real["hosts"] for pid in host["pids"]]
    inodes = {host["inode"] for host in real["hosts"]}
    tell(f"{election}: " + ", ".join(f"{host['namespace']} {host['pids']}" for host in real["hosts"]))
    assert len(set(pids)) == len(pids) == 6 and os.getpid() not in pids  # The one that crashed came back as another.
    assert len(inodes) == len({host["namespace"] for host in real["hosts"]}) == 5
    assert os.stat("/proc/self/ns/net").st_ino not in inodes


def test_broken_nodes_are_caught_in_both_worlds(tmp_path: Path) -> None:
    path = tmp_path / "pole.toml"
    path.write_text(FAULTS + NODES["pole"])
    made_up = said(*BROKEN, "sim", "run", str(path))
    (violation,) = made_up["violations"]
    # Two act at once, or one does whose majority is gone.
    assert violation["check"] in ("alone", "told", "held")
    scenario, combination = from_file(path)
    real = asyncio.run(prove(scenario, combination, command=BROKEN))
    shutil.rmtree(real.histories)
    assert any(text.startswith("two at once") for text in real.violations), real.violations
