"""The bench beside serf: real agents, and what they say is read from their standard output."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from doyen_lab.contest.entrant import Roster
from doyen_lab.contest.entrants import entrant
from doyen_lab.iproute import existing_namespaces

pytestmark = [pytest.mark.alone]
HERE = shutil.which("serf") and shutil.which("iptables")


def test_a_death_is_known_once_all_others_have_said_so_since_it_was_last_there(tmp_path: Path) -> None:
    group = entrant("serf", 3, tmp_path)

    def say(event: str) -> None:
        group.hear("s00", f"    2026/11/16 02:00:00 [INFO] serf: {event}: s02 198.18.1.4", len(group.ledger.log) + 7)

    say("EventMemberJoin")
    assert group.roster.held_by("s00") == {"s00", "s02"}
    say("EventMemberFailed")
    assert group.roster.failed_at("s02").keys() == {"s00"}
    say("EventMemberJoin")
    assert not group.roster.failed_at("s02")


def test_a_member_that_returned_is_not_counted_as_known_dead() -> None:
    roster = Roster()
    for at, present in ((5, False), (6, False), (7, True)):
        roster.say("a", "b", at, present=present)
    roster.say("c", "b", 7, present=False)
    roster.say("c", "b", 9, present=False)
    assert roster.failed_at("b") == {"c": 7}
    roster.begin("c")  # A new process knows of nothing yet.
    assert roster.failed_at("b") == {} and roster.held_by("c") == {"c"}


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
