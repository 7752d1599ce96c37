"""The bench beside peers: real processes, namespaces and counters apart, and one leader lost of each kind."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from doyen_lab.iproute import existing_namespaces

pytestmark = [pytest.mark.alone]


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--nodes", "5,x"], "--nodes"),
        (["--nodes", "2"], "--nodes"),
        (["--peers", "raft"], "--peers"),
        (["--ours", "broadcast"], "--ours"),
        (["--idle-seconds", "nan"], "--idle-seconds"),
        (["--warm-up", "-1"], "--warm-up"),
        (["--more-seconds", "inf"], "--more-seconds"),
    ],
)
def test_bad_input_is_refused_by_its_flag(flags: list[str], named: str) -> None:
    done = bench(*flags)
    assert done.returncode == 2 and named in done.stderr and not done.stdout


@pytest.mark.root
@pytest.mark.skipif(shutil.which("serf") is None, reason="serf is not installed")
def test_the_bench_runs_real_processes_apart_and_leaves_nothing() -> None:
    flags = ["--nodes", "3", "--peers", "serf", "--ours", "unicast+key", "--kills", "1", "--cuts", "0"]
    done = bench(*flags, "--more-seconds", "0", "--warm-up", "0", "--idle-seconds", "1", "--json")
    assert done.returncode in (0, 1), done.stderr[-2000:]  # A second of three nodes decides nothing.
    found = json.loads(done.stdout)
    systems = {figures["system"]: figures for figures in found["systems"]}
    assert systems.keys() == {"serf", "doyen unicast+key"} and found["absent"] == []
    processes = [process for figures in systems.values() for process in figures["processes"]]
    for distinct in ("pid", "namespace", "namespace_inode"):
        assert len({process[distinct] for process in processes}) == 6, distinct
    assert os.stat("/proc/self/ns/net").st_ino not in {process["namespace_inode"] for process in processes}
    assert len({tuple(process["counters"].values()) for process in processes}) > 3  # Equal only by chance.
    assert all(process["counters"]["tx_bytes"] > 0 and process["counters"]["rx_bytes"] > 0 for process in processes)
    for figures in systems.values():
        assert figures["kill"]["never"] == 0 and figures["kill"]["median_s"] > 0 < figures["join_s"]
        assert figures["idle"].keys() >= {"bytes_per_s", "cpu_percent", "rss_each", "pss_each"}
        assert [loss["pid"] in {p["pid"] for p in figures["processes"]} for loss in figures["losses"]] == [True]
    assert {check["what"] for check in found["checks"]} == {"kill × traffic", "cut × traffic", "CPU", "RSS"}
    for process in processes:
        assert not Path(f"/proc/{process['pid']}").exists()
    assert not {process["namespace"] for process in processes} & set(existing_namespaces())


def bench(*flags: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "doyen", "bench", "peers", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
