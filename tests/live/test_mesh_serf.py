"""The bench beside serf: real agents, and what they say is read from their logs."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from doyen.errors import TransportError
from doyen.node.told import Told
from doyen_lab.detection import Watch
from doyen_lab.iproute import existing_namespaces
from doyen_lab.netns import Namespace
from doyen_lab.peers.serf import Serf

pytestmark = [pytest.mark.alone]
HERE = shutil.which("serf") and shutil.which("iptables")


def line(event: str, name: str) -> str:
    return f"    2026/11/16 02:00:00 [INFO] serf: {event}: {name} 198.18.1.4\n"


@pytest.mark.skipif(shutil.which("serf") is None, reason="serf is not installed")
def test_a_death_is_known_once_all_others_have_said_so_after_the_mark(tmp_path: Path) -> None:
    serf = Serf([Namespace(f"nowhere{i}", "eth0", f"198.18.1.{i + 1}") for i in range(3)], tmp_path)
    for agent in serf.agents:
        agent.log.write_text(line("EventMemberFailed", "s02"))  # Of an earlier death.
    marks = serf.marks()

    def say(i: int) -> None:
        with serf.agents[i].log.open("a") as log:
            log.write(line("EventMemberFailed", "s02"))

    say(0)
    with pytest.raises(TransportError, match="s02 by s01"):
        asyncio.run(serf.failed("s02", 0.1, marks))
    say(1)
    first, last = asyncio.run(serf.failed("s02", 1.0, marks))
    assert first <= last


def test_a_member_that_returned_is_not_counted_as_known_dead() -> None:
    watch = Watch()
    for status in ("failed", "failed", "alive"):
        watch(Told("member", "a", 0.0, 5, member="b", member_status=status))
    watch(Told("member", "c", 0.0, 7, member="b", member_status="failed"))
    assert watch.failed == {"b": {"c": 7}}


@pytest.mark.parametrize(
    ("flags", "named"),
    [(["--minutes", "nan"], "--minutes"), (["--drop", "-1"], "--drop"), (["--warm-up", "-1"], "--warm-up")],
)
def test_bad_input_is_refused_by_its_flag(flags: list[str], named: str) -> None:
    done = bench(*flags)
    assert done.returncode == 2 and named in done.stderr and not done.stdout


@pytest.mark.soak  # Its like of a smaller group is in test_peers.py.
@pytest.mark.root
@pytest.mark.skipif(not HERE, reason="serf is not installed")
def test_the_bench_runs_real_agents_each_in_a_namespace_of_its_own_and_leaves_nothing() -> None:
    flags = ["--minutes", "0.05", "--warm-up", "0", "--rows", "2", "--columns", "2", "--faults", "0", "--json"]
    done = bench(*flags)
    assert done.returncode in (0, 1), done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert sorted(p["system"] for p in found["processes"]) == ["doyen"] * 4 + ["serf"] * 4
    for distinct in ("pid", "namespace_inode", "address"):
        assert len({p[distinct] for p in found["processes"]}) == 8, distinct
    assert found["serf"]["steady"]["bytes_per_s"]["mean"] > 0 < found["doyen"]["steady"]["bytes_per_s"]["mean"]
    assert not {p["namespace"] for p in found["processes"]} & set(existing_namespaces())


def bench(*flags: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "doyen", "bench", "serf", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
