"""`pip install ./examples/bully`: somebody else's election, without a line changed in ours."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BULLY = ROOT / "examples" / "bully"
LINES_MAX = 250
FAILOVER_S = 3.152  # What `doyen presets` states for these timers: detection, three patiences, two delays.

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a function that runs Python with the package installed."""
    place = tmp_path_factory.mktemp("bully")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(place), str(BULLY)]
    subprocess.run(install, check=True, capture_output=True, timeout=300)
    paths = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(place))))
    env = os.environ | {"PYTHONPATH": paths, "DOYEN_RUNTIME_DIR": str(tmp_path_factory.mktemp("run"))}

    def run(*arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, *arguments]
        return subprocess.run(line, env=env, capture_output=True, text=True, timeout=timeout, cwd=place)

    return run


def test_it_is_small() -> None:
    lines = sum(len(path.read_text().splitlines()) for path in BULLY.rglob("*.py"))
    assert lines <= LINES_MAX


def test_its_own_tests_pass(run: Run) -> None:
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(BULLY / "tests"))
    assert done.returncode == 0, done.stdout


def test_join_and_explain(run: Run) -> None:
    program = """
import asyncio, bully, doyen
async def main():
    async with doyen.join("g", name="ant", election="bully", preset="local") as node:
        async with node.lead(timeout=10) as term:
            found = node.explain()
            print(found.kind, found.leader, found.sort, "greatest name" in found.sentence)
    async with doyen.join("g", name="ant", election=bully.Bully(answer_timeout="20ms"), preset="local") as node:
        print(node.config.tables["bully"].answer_timeout)
asyncio.run(main())
"""
    done = run("-c", program)
    assert done.stdout.splitlines() == ["bully ant weak True", "20000000"], done.stderr


@pytest.mark.live
def test_agent_and_its_flags(run: Run) -> None:
    flags = [
        "--group",
        "g",
        "--name",
        "ant",
        "--election",
        "bully",
        "--bully-answer-timeout",
        "20ms",
        "--preset",
        "local",
    ]
    done = run("-c", "import sys; from doyen.cli import main; main()", "run", *flags, "--", "echo", "only here")
    assert (done.returncode, done.stdout) == (0, "only here\n"), done.stderr
    done = run("-m", "doyen", "run", *flags[:6], "--bully-answer-timeout", "soon", "--", "true")
    assert done.returncode == 2 and "--bully-answer-timeout" in done.stderr


def test_presets(run: Run) -> None:
    done = run("-m", "doyen", "presets", "--election", "bully", "--json")
    rows = json.loads(done.stdout)["presets"]
    every = json.loads(run("-m", "doyen", "presets", "--json").stdout)["presets"]
    assert [row for row in every if row["election"] == "bully"] == rows
    assert [row["preset"] for row in rows] == ["local", "lan", "wan", "iot"]
    assert all(row["election"] == "bully" and row["membership"] == "swim" for row in rows)


def test_where_it_is_not_installed_it_is_said() -> None:
    line = [sys.executable, "-m", "doyen", "presets", "--election", "bully"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "--election 'bully': One of" in done.stderr


def test_scenarios_with_checkers(run: Run) -> None:
    line = ["-m", "doyen", "sim", "run", "--election", "bully", "--nodes", "5", "--json"]
    done = run(*line)
    found = json.loads(done.stdout)
    assert done.returncode == 0 and found["election"] == "bully" and found["violations"] == []
    assert found["agreement"] == 1.0 and found["faults"]["crash"] and found["faults"]["partition"]
    assert found["looked"] and all(found["looked"].values())  # Its checkers looked.
    assert run(*line).stdout == done.stdout


def test_every_order_of_events_in_a_small_group(run: Run) -> None:
    """Its bound is made of its own worst case; one that keeps a leader that is gone is found, and plays again."""
    sound = json.loads(run("-m", "doyen", "check", "bully", "--losses", "0", "--holds", "0", "--json").stdout)
    assert (sound["violations"], sound["exhausted"], sound["promise"]) == ([], True, "weak")
    assert sound["states"] > 1000 and sound["bound"]["settling_s"] > 1
    program = """
import sys, bully.machine
from doyen.cli import main
sound = bully.machine.Bully.on_view_changed
bully.machine.Bully.HEARS[bully.machine.ViewChanged] = lambda self, fact, now: (
    sound(self, fact, now) if self.term is None else None
)
main(sys.argv[1:])
"""
    done = run("-c", program, "check", "bully", "--crashes", "1", "--to", "found", "--json")
    (violation,) = json.loads(done.stdout)["violations"]
    assert done.returncode == 1 and violation["rule"] == "agreed"
    again = run("-c", program, "sim", "run", violation["scenario"])
    assert again.returncode == 1 and violation["text"] in again.stdout
    assert run("-m", "doyen", "sim", "run", violation["scenario"]).returncode == 0


SCENARIO = """# The leader is killed, and comes back.
[group]
nodes = 3
[node]
election = "bully"
preset = "local"
[node.swim]
sync_interval = "1s"
suspicion_max_mult = 2.0
[network.delay]
mean = "1ms"
[[churn.events]]
do = "crash"
who = ["leader"]
at = "1s"
lasting = "5s"
[run]
quiet = "10s"
length = "17s"
"""


@pytest.mark.alone
@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="network namespaces need root and iproute2")
def test_the_proving_ground(run: Run, tmp_path: Path, tell: Callable[[str], None]) -> None:
    path = tmp_path / "killed.toml"
    path.write_text(SCENARIO)
    made_up = json.loads(run("-m", "doyen", "sim", "run", str(path), "--json").stdout)
    assert (made_up["violations"], made_up["agreement"], made_up["final_leaders"]) == ([], 1.0, ["n2"])
    done = run("-m", "doyen", "lab", "run", str(path), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    (real,) = json.loads(done.stdout)["results"]
    assert (real["election"], real["promise"], real["violations"]) == ("bully", "weak", [])
    assert real["faults"]["crash"] == real["faults"]["killed"] == 1
    assert real["checked"]["successions"] and real["checked"]["quiet regions"]  # The judge had something to look at,
    assert (
        0 < min(real["takeovers_s"]) and max(real["takeovers_s"]) < FAILOVER_S + real["lateness_ms"] / 100
    )  # in time.
    pids = [pid for host in real["hosts"] for pid in host["pids"]]
    inodes = {host["inode"] for host in real["hosts"]}
    tell("bully: " + ", ".join(f"{host['namespace']} {host['pids']}" for host in real["hosts"]))
    assert len(pids) == len(set(pids)) == 4 and len(inodes) == 3
    assert os.stat("/proc/self/ns/net").st_ino not in inodes


def test_the_proving_ground_takes_it_by_name(run: Run) -> None:
    program = """
from doyen_lab.proving.runner import pairs
print(*(scenario.name for scenario, combination in pairs((), ("bully",)) if combination.election == "bully"))
"""
    names = run("-c", program).stdout.split()
    assert "kill-leader" in names and len(names) == 16
