"""The commands of deploy/ are started as they are written there: one of three acts; it is killed, the next acts."""

import ctypes
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from api_server import TOKEN
from hosts import BIN, named, needs_root, processes, until
from manifests import DEPLOY, Pod, containers, documents, of_kind, started
from plain import Installs, bare

from doyen_lab.netns import Namespace, Namespaces

DNS_LATE_S = 4.0  # A headless service has no records before its first pods are known.
HTTP_TOKEN = "0123456789abcdef-token"
UNTIL, LATER = re.compile(r"\d{4}-\d\d-\d\d"), "9999-12-31"


def fetched(host: Namespace, url: str, *headers: str) -> str:
    """Return what is served at a URL, asked on that host, and the status after it."""
    given = [word for header in headers for word in ("-H", header)]
    command = [*host.wrap, "curl", "-s", "-m", "2", "-w", "%{http_code}", *given, url]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@needs_root
@pytest.mark.live
@pytest.mark.root
@pytest.mark.parametrize("manifest", ["gossip.yaml", "quorum.yaml"])
def test_pods_elect_one_and_the_service_follows_it(manifest: str, tmp_path: Path) -> None:
    play(manifest, tmp_path, BIN, None)


@needs_root
@pytest.mark.soak
@pytest.mark.root
@pytest.mark.parametrize("manifest", ["gossip.yaml", "quorum.yaml"])
def test_pods_with_a_plain_install_elect_one_and_the_service_follows_it(
    manifest: str, tmp_path: Path, installs: Installs
) -> None:
    """What the Dockerfile installs, and nothing else."""
    bin_folder = installs.environment(("doyen[secure]",))
    play(manifest, tmp_path, bin_folder, bare(bin_folder))


def play(manifest: str, tmp_path: Path, bin_folder: Path, base: dict[str, str] | None) -> None:
    """Start the pods of a manifest before their names resolve; kill the leader, and look for the next one."""
    path = DEPLOY / "kubernetes" / manifest
    (container,) = containers(path)
    service = of_kind(path, "Service")["metadata"]["name"]
    held = of_kind(DEPLOY / "kubernetes" / "leader.yaml", "EndpointSlice")
    held["metadata"]["resourceVersion"] = "1"
    written, account = tmp_path / "slice.json", tmp_path / "account"
    written.write_text(json.dumps(held))
    account.mkdir()
    (account / "token").write_text(TOKEN)
    (account / "namespace").write_text("prod")
    making = [bin_folder / "doyen", "keys", "new", "--file", tmp_path / "keys"]
    subprocess.run(making, check=True, capture_output=True)

    def endpoint() -> str:
        endpoints = json.loads(written.read_text())["endpoints"]
        return endpoints[0]["addresses"][0] if endpoints else ""

    with Namespaces(4) as network, processes(tmp_path, base) as running:
        *nodes, server = network.nodes
        pods = {f"reports-{i}": node for i, node in enumerate(nodes)}
        hosts = tmp_path / "hosts"
        hosts.write_text("")
        running.start(
            "api",
            [*server.wrap, sys.executable, f"{Path(__file__).parent}/api_server.py", server.ipv4, str(written)],
            {},
        )
        kubelet = {"KUBERNETES_SERVICE_HOST": server.ipv4, "KUBERNETES_SERVICE_PORT": "6443"}
        here = {"KUBERNETES_API": f"http://{server.ipv4}:6443", "SERVICE_ACCOUNT_DIR": str(account)}
        for name, node in pods.items():
            folder = tmp_path / name
            (folder / "tmp").mkdir(parents=True)
            (folder / "etc").mkdir()
            shutil.copy(tmp_path / "keys", folder / "etc" / "keys")
            moved = {
                "/tmp": folder / "tmp",
                "/etc/doyen": folder / "etc",
                "/var/lib/doyen": folder / "state",
                "/opt/doyen/libexec": DEPLOY / "kubernetes",
            }
            pod = Pod(name, node.ipv4, {"http-token": HTTP_TOKEN}, moved)
            for first in containers(path, "initContainers"):
                words, environment = started(first, pod)
                today = [LATER if UNTIL.fullmatch(word) else word for word in words]  # As its comment asks.
                subprocess.run(today, env=running.base | environment, check=True, capture_output=True)
            words, environment = started(container, pod)
            running.start(name, named(node, hosts, words), environment | kubelet | here)
        time.sleep(DNS_LATE_S)
        assert not endpoint(), "it acts before the service has a name"
        hosts.write_text(
            "".join(f"{node.ipv4} {service}\n{node.ipv4} {name}.{service}\n" for name, node in pods.items())
        )
        address = {node.ipv4: name for name, node in pods.items()}
        first = until(endpoint, "no pod pointed the service at itself")
        for node in nodes:
            probed = f"http://{node.ipv4}:7680"
            until(lambda at=probed: fetched(server, f"{at}/readyz").endswith("200"), f"{probed} is not ready")
            assert fetched(server, f"{probed}/livez").endswith("200")
            assert fetched(server, f"{probed}/leader").endswith("401")
        until(lambda: fetched(server, f"http://{first}:8080/").endswith("200"), "the leader does not serve")
        serving = [node.ipv4 for node in nodes if fetched(server, f"http://{node.ipv4}:8080/").endswith("200")]
        assert serving == [first]
        running.kill(address[first])
        second = until(lambda: (now := endpoint()) != first and now, "nobody took over")
        until(lambda: fetched(server, f"http://{second}:8080/").endswith("200"), "the next leader does not serve")


@pytest.mark.live
def test_the_leader_keeps_its_endpoint_and_never_replaces_a_later_one(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "namespace").write_text("prod")
    written = tmp_path / "slice.json"
    held = of_kind(DEPLOY / "kubernetes" / "leader.yaml", "EndpointSlice")

    def write(address: str, term: int) -> None:
        held["metadata"] |= {"resourceVersion": "7", "annotations": {"doyen/term": str(term)}}
        held["endpoints"] = [{"addresses": [address]}]
        beside = tmp_path / "beside"
        beside.write_text(json.dumps(held))
        beside.rename(written)

    def endpoint() -> str:
        return str(json.loads(written.read_text())["endpoints"][0]["addresses"][0])

    write("10.0.0.1", 9)
    helper, server = DEPLOY / "kubernetes" / "leader_endpoint.py", Path(__file__).parent / "api_server.py"
    with processes(tmp_path) as running:
        running.start(
            "api",
            [sys.executable, str(server), "127.0.0.1", str(written)],
            {"PORT": "0", "TOLD": str(tmp_path / "port")},
        )
        port = until(lambda: (tmp_path / "port").exists() and (tmp_path / "port").read_text(), "no server")
        environment = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": port,
            "KUBERNETES_API": f"http://127.0.0.1:{port}",
            "SERVICE_ACCOUNT_DIR": str(tmp_path),
            "LEADER_ENDPOINT_EVERY_S": "0.1",
            "POD_IP": "10.0.0.2",
            "DOYEN_TERM": "3",
        }
        command = [sys.executable, str(helper), "reports-leader", "8080", "--", "sleep", "60"]
        running.start("fenced", [*command[:2], "--fenced", *command[2:]], environment)
        assert running.all["fenced"].wait(10) == 1
        assert "later term than 3: not started" in running.told() and endpoint() == "10.0.0.1"
        running.start("gossip", command, environment)
        until(lambda: endpoint() == "10.0.0.2", "it was not written")
        assert json.loads(written.read_text())["ports"] == [{"name": "web", "port": 8080, "protocol": "TCP"}]
        write("10.0.0.3", 12)  # The other side of a partition, which has healed since.
        until(lambda: endpoint() == "10.0.0.2", "it was not written again")
        running.kill("gossip")
        time.sleep(0.3)  # Its second process has ended, or it would write again.
        write("10.0.0.3", 12)
        time.sleep(0.3)
        assert endpoint() == "10.0.0.3"
        running.start("refused", command, environment | {"SERVICE_ACCOUNT_DIR": str(tmp_path / "none")})
        assert running.all["refused"].wait(10) == 1


@pytest.mark.live
def test_the_unit_starts_without_privileges_and_without_writable_code(tmp_path: Path) -> None:
    """ExecStart as it is written, with this machine's paths, confined as the unit says, as far as a process can."""
    unit = (DEPLOY / "systemd" / "reports.service").read_text()
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    subprocess.run([BIN / "doyen", "keys", "new", "--file", tmp_path / "keys"], check=True, capture_output=True)
    text = (DEPLOY / "systemd" / "reports.toml").read_text()
    for written, here in (
        ("/etc/doyen/reports.keys", tmp_path / "keys"),
        ("0.0.0.0:7600", "127.0.0.1:0"),
        (":7680", ":0"),
    ):
        assert written in text
        text = text.replace(written, str(here))
    (tmp_path / "reports.toml").write_text("\n".join(line for line in text.splitlines() if line[:5] != "seeds"))
    serve = tmp_path / "serve"
    serve.write_text("#!/bin/sh\ngrep -e CapEff -e NoNewPrivs /proc/self/status\nexec sleep 60\n")
    serve.chmod(0o755)
    moved = {"/opt/doyen/bin/doyen": BIN / "doyen", "/etc/doyen/reports.toml": tmp_path / "reports.toml", "%H": "ant"}
    moved["/opt/reports/serve"] = serve
    words = shlex.split(line.removeprefix("ExecStart="))
    assert moved.keys() <= {*words}
    environment = {"DOYEN_RUNTIME_DIR": str(tmp_path / "run"), "DOYEN_STATE": str(tmp_path / "state")}
    assert all(f"Environment={name}=" in unit for name in environment)

    def confined() -> None:
        control = ctypes.CDLL(None).prctl
        for capability in range(64):
            control(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP: CapabilityBoundingSet=
        control(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS: NoNewPrivileges=yes
        control(65, 1, 0, 0, 0)  # PR_SET_MDWE, from Linux 6.3 on: MemoryDenyWriteExecute=yes
        os.umask(0o077)

    with processes(tmp_path) as running:
        running.start("unit", [str(moved.get(word, word)) for word in words], environment, preexec_fn=confined)
        until(lambda: "NoNewPrivs:\t1" in running.told(), "the program was not started")
        assert "CapEff:\t0000000000000000" in running.told()
        running.all["unit"].send_signal(signal.SIGTERM)
        assert running.all["unit"].wait(10) == 0


@needs_root
@pytest.mark.live
@pytest.mark.root
def test_containers_of_the_compose_file_elect_one(tmp_path: Path) -> None:
    (compose,) = documents(DEPLOY / "compose.yaml")
    ((service, wanted),) = compose["services"].items()
    words = ["doyen", *(word.replace("$$", "$") for word in wanted["command"])]

    def working() -> set[str]:
        return {name for name in running.all if "working, term" in (tmp_path / f"{name}.log").read_text()}

    with ExitStack() as stack:
        network = stack.enter_context(Namespaces(wanted["deploy"]["replicas"]))
        running = stack.enter_context(processes(tmp_path))
        hosts = tmp_path / "hosts"
        hosts.write_text("".join(f"{node.ipv4} {service}\n" for node in network.nodes))
        for i, node in enumerate(network.nodes):
            (tmp_path / f"run{i}").mkdir()
            environment = wanted["environment"] | {"DOYEN_RUNTIME_DIR": str(tmp_path / f"run{i}" / "doyen")}
            running.start(f"c{i}", named(node, hosts, words), environment)
        (first,) = until(working, "nobody works")
        kind, *check = wanted["healthcheck"]["test"]
        assert kind == "CMD"
        asked = subprocess.run(
            [*network.nodes[0].wrap, *check], env={"PATH": f"{BIN}:{os.environ['PATH']}"}, check=False
        )
        assert asked.returncode == 0
        running.kill(first)
        (tmp_path / f"{first}.log").unlink()
        assert len(until(working, "nobody took over")) == 1
