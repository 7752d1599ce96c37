"""Members that find each other by one name whose records come late, as the pods of a headless service do.

The name server is a hosts file that each process sees in a mount namespace of its own; the orchestrator is a loop that
asks every pod's probe and writes the records.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.live, pytest.mark.root]
NAMES = ("ant", "bee", "cat")


class Pods:
    """Three agents on loopback addresses of their own, whose only seed is one name."""

    def __init__(self, place: Path) -> None:
        self.place = place
        with socket.socket() as one, socket.socket() as other:
            for probe in (one, other):
                probe.bind(("127.0.0.1", 0))
            self.port, self.http = one.getsockname()[1], other.getsockname()[1]
        self.addresses = {name: f"127.0.7.{number}" for number, name in enumerate(NAMES, start=1)}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for name in NAMES:
            self.publish([], to=name)

    def start(self, name: str, *flags: str, election: str = "hybrid") -> None:
        address = self.addresses[name]
        agent = [sys.executable, "-m", "doyen", "agent", "--group", "pods", "--name", name, "--preset", "local"]
        agent += [f"--bind={address}:{self.port}", f"--seed=pods.test:{self.port}"]
        agent += [f"--http={address}:{self.http}", "--http-open", "--election", election, *flags]
        see = 'mount --bind "$0" /etc/hosts && exec "$@"'
        line = ["unshare", "--mount", "sh", "-c", see, str(self.place / f"hosts-{name}"), *agent]
        environment = os.environ | {"DOYEN_RUNTIME_DIR": str(self.place / name)}  # On hosts of their own.
        quiet = subprocess.DEVNULL
        self.processes[name] = subprocess.Popen(line, stdout=quiet, stderr=quiet, env=environment)

    def publish(self, names: list[str], to: str) -> None:
        """Write the records that one pod gets; in place, as a file that is mounted must be."""
        lines = [f"{self.addresses[name]} pods.test\n" for name in names]
        (self.place / f"hosts-{to}").write_text("".join(["127.0.0.1 localhost\n", *lines]))

    def publish_to_all(self, names: list[str]) -> None:
        for name in NAMES:
            self.publish(names, to=name)

    def get(self, name: str, path: str) -> tuple[int, dict[str, Any]]:
        try:
            with urllib.request.urlopen(f"http://{self.addresses[name]}:{self.http}{path}", timeout=5) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())
        except OSError:
            return 0, {}

    def up(self) -> list[str]:
        return [name for name, process in self.processes.items() if process.poll() is None]

    def leader(self) -> str | None:
        """Return the leader, if all name it, it alone says that it may act, and all list the same members."""
        told = [self.get(name, "/leader") for name in self.up()]
        listed = [
            sorted(m["name"] for m in self.get(name, "/members")[1].get("members", ()) if m["status"] == "alive")
            for name in self.up()
        ]
        named = {body.get("leader") for _, body in told}
        agreed = len(named) == 1 and all(names == self.up() for names in listed)
        return named.pop() if agreed and [code for code, _ in told].count(200) == 1 else None


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    made = Pods(tmp_path)
    try:
        yield made
    finally:
        for process in made.processes.values():
            process.kill()
            process.wait()


def until(holds: Callable[[], Any], within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_pods_that_find_only_themselves_at_first_elect_one_leader_once_they_are_published(pods: Pods) -> None:
    """Records come late: at first each pod finds its own alone, and then those that are ready.

    Readiness at `/readyz` waits for nobody else, so even a service of ready pods alone lets them find each other.
    """
    for name in NAMES:
        pods.publish([name], to=name)
        pods.start(name)
    until(lambda: all(pods.get(name, "/readyz")[0] == 200 for name in NAMES))
    assert pods.leader() is None

    def seen() -> bool:
        pods.publish_to_all([name for name in pods.up() if pods.get(name, "/readyz")[0] == 200])
        return pods.leader() is not None

    until(seen)
    first = pods.leader()
    assert first is not None
    pods.processes[first].kill()
    pods.processes[first].wait()
    until(seen)
    assert pods.leader() != first


def test_a_quorum_that_is_published_only_when_it_leads_elects_nobody(pods: Pods) -> None:
    """What the pages warn of: readiness at `/leader`, and a service of ready pods; nobody is ever found."""
    for name in NAMES:
        pods.start(name, "--voters", ",".join(NAMES), "--volatile", election="pole")
    until(lambda: all(pods.get(name, "/livez")[0] == 200 for name in NAMES))
    for _ in range(20):
        ready = [name for name in NAMES if pods.get(name, "/leader")[0] == 200]
        pods.publish_to_all(ready)
        assert ready == []
        time.sleep(0.05)
    pods.publish_to_all([*NAMES])  # `publishNotReadyAddresses`.
    until(lambda: len([name for name in NAMES if pods.get(name, "/leader")[0] == 200]) == 1)
