"""The bench beside ZooKeeper: real servers with the wanted settings, and processes, namespaces and counters apart."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from doyen.errors import TransportError
from doyen_lab.contest import asking, zookeeper
from doyen_lab.contest.figures import Ratio, block_ratio
from doyen_lab.iproute import existing_namespaces
from doyen_lab.netns import Namespace
from doyen_lab.switch import Loopback
from doyen_lab.usage import Mean, Sample, Usage

pytestmark = [pytest.mark.alone]
HERE = Path("/usr/share/java/zookeeper.jar").exists() and shutil.which("java") and shutil.which("iptables")


def sample(bytes_per_s: float) -> Sample:
    return Sample(t_s=0, bytes_per_s=bytes_per_s, packets_per_s=0, cpu_percent=0, rss_each=0, pss_each=0)


def test_a_ratio_is_of_the_means_and_its_spread_of_parts_of_the_time() -> None:
    ours = [sample(value) for value in (1, 1, 1, 1, 3, 3, 1, 1, 1, 1)]
    theirs = [sample(2) for _ in range(10)]
    assert block_ratio(ours, theirs, "bytes_per_s") == Ratio(0.7, 0.5, 1.5)


def test_a_mean_of_one_sample_has_no_spread() -> None:
    assert Mean.of([3.0]) == Mean(3.0, None)
    assert Mean.of([1.0, 3.0]) == Mean(2.0, pytest.approx(1.4142, abs=1e-4))


def test_usage_is_of_the_process_asked_for() -> None:
    before = Usage.of(os.getpid(), "lo")
    sum(range(3_000_000))
    block = bytearray(os.urandom(1)) * 30_000_000
    after = Usage.of(os.getpid(), "lo")
    assert after.cpu_s > before.cpu_s
    assert 25e6 < after.rss - before.rss < 60e6 and len(block) == 30_000_000
    assert 0 < after.pss <= after.rss
    with pytest.raises(TransportError, match="has ended"):
        Usage.of(2**22 + 1, "lo")
    with pytest.raises(TransportError, match="no interface nowhere0"):
        Usage.of(os.getpid(), "nowhere0")


def test_servers_get_the_wanted_settings_and_folders_of_their_own(tmp_path: Path) -> None:
    hosts = [Namespace(f"somewhere{i}", "eth0", f"198.18.0.{i + 1}") for i in range(3)]
    folders = [tmp_path / f"zk{i + 1}" for i in range(3)]
    zookeeper.configure(hosts, folders, clients=False)
    texts = [(folder / "zoo.cfg").read_text().splitlines() for folder in folders]
    assert {"tickTime=2000", "initLimit=5", "syncLimit=2", "clientPortAddress=127.0.0.1"} <= set(texts[0])
    assert [line for line in texts[0] if line.startswith("server.")] == [
        f"server.{i + 1}={host.ipv4}:2888:3888" for i, host in enumerate(hosts)
    ]
    assert len({line for text in texts for line in text if line.startswith("dataDir=")}) == 3
    assert [(folder / "data" / "myid").read_text() for folder in folders] == ["1\n", "2\n", "3\n"]


def test_servers_agree_once_all_serve_under_one_leader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper, "PACKAGES", {})
    group = zookeeper.Ensemble("zookeeper", Loopback(3), tmp_path)
    modes = dict.fromkeys(group.names, "follower")
    for given, known in (
        (modes, None),
        (modes | {"zk2": "leader"}, ("zk2", 5)),
        (modes | {"zk2": "leader", "zk1": "none"}, None),
        (modes | {"zk2": "leader", "zk3": "leader"}, None),
    ):
        group.note(given, 5)
        assert group.ledger.known(group.names) == known, given


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking.shutil, "which", lambda name: None)
    with pytest.raises(TransportError, match="apt-get install default-jre-headless other"):
        asking.need_commands("ZooKeeper", {"java": "default-jre-headless", "/nowhere/z.jar": "other"})
    assert set(zookeeper.PACKAGES.values()) == {"default-jre-headless", "zookeeper"}


@pytest.mark.parametrize(
    ("flags", "named"),
    [(["--minutes", "0"], "--minutes"), (["--drop", "1"], "--drop"), (["--rows", "1", "--columns", "2"], "--rows")],
)
def test_bad_input_is_refused_by_its_flag(flags: list[str], named: str) -> None:
    done = bench(*flags)
    assert done.returncode == 2 and named in done.stderr and not done.stdout


@pytest.mark.root
@pytest.mark.skipif(not HERE, reason="ZooKeeper is not installed")
def test_the_bench_runs_real_processes_each_in_a_namespace_of_its_own_and_leaves_nothing() -> None:
    done = bench("--minutes", "0.1", "--rows", "2", "--columns", "2", "--takeovers", "0", "--json")
    assert done.returncode in (0, 1), done.stderr[-2000:]  # Six seconds of four nodes decide nothing.
    found = json.loads(done.stdout)
    processes = found["processes"]
    assert sorted(p["system"] for p in processes) == ["doyen"] * 4 + ["sealed"] * 4 + ["zookeeper"] * 4
    for distinct in ("pid", "namespace", "namespace_inode", "address"):
        assert len({p[distinct] for p in processes}) == 12, distinct
    assert os.stat("/proc/self/ns/net").st_ino not in {p["namespace_inode"] for p in processes}
    assert len({tuple(p["counters"].values()) for p in processes}) > 9  # Each its own; equal only by chance.
    assert all(p["counters"]["tx_bytes"] > 0 and p["counters"]["rx_bytes"] > 0 for p in processes)
    for figures in found["systems"].values():
        assert figures["nodes"] == 4 and figures["steady"]["bytes_per_s"]["mean"] > 0
        assert figures["early"]["seconds"] == pytest.approx(2) and len(figures["samples"]) >= 6
    assert found["ratios"]["doyen"].keys() >= {"bytes_per_s", "cpu_percent", "rss_each", "pss_each", "hop_bytes_per_s"}
    assert found["ratios"]["doyen"]["pss_each"]["ratio"] < 1
    for p in processes:
        assert not Path(f"/proc/{p['pid']}").exists() or p["namespace"] not in existing_namespaces()
    assert not {p["namespace"] for p in processes} & set(existing_namespaces())


def bench(*flags: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "doyen", "bench", "zookeeper", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
