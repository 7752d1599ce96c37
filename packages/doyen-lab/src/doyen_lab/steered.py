"""A real etcd of five servers at the round trips of [POLE]'s Deployment 1: what clients wait before and after a move.

Each server is in a namespace of its own on the user-space switch, with clients beside it: writes of 1 kB, each data
centre's at the same rate, evenly over its servers.  p5 leads first, as in the paper; then `doyen steer etcd` looks.

Deviation [POLE §4]: etcd in the place of ZooKeeper, fewer requests per second, data in memory where there is room.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from msgspec import Struct

from doyen.engines.etcd import bits
from doyen.errors import TransportError
from doyen_lab.contest.asking import need_commands
from doyen_lab.contest.etcd import CLIENT, asked, gateway_here, server_command
from doyen_lab.iproute import enter, within
from doyen_lab.netns import Namespace
from doyen_lab.switch import Switch
from doyen_papers.studies.pole_places import Deployment, deployment

SERVE_S: Final = 60.0
PROBED_S: Final = 40.0  # etcd notes a round trip every 30 s.
VALUE: Final = bits(bytes(1024))
#: [POLE §4.2] ZooKeeper's mean latencies in Deployment 1: p4, of p5's data centre, leads; then the best leader.
PUBLISHED: Final = {"before": {"D1": 12.0, "D2": 22.0, "D3": 92.0, "mean": 42.0}, "after": {"mean": 33.0}}

Step = Callable[[str], None]


class Waited(Struct, frozen=True):
    """The clients' wait for a write, in ms: the mean of each data centre, and of all three."""

    leader: str
    centres: dict[str, float]
    mean: float
    requests: int
    failed: int


class Steered(Struct, frozen=True, kw_only=True):
    before: Waited
    after: Waited
    model: dict[str, float]  # θ_l of the paper's equation, by server, in ms.
    said: dict[str, Any]  # By `doyen steer`.
    published: dict[str, dict[str, float]]
    overdue_max_s: float  # How late the switch itself was at the worst.

    @property
    def holds(self) -> bool:
        """Return whether the leader is where the model wants it, and clients wait less."""
        return self.model[self.after.leader] == min(self.model.values()) and self.after.mean < self.before.mean


def measure(*, load_s: float, rate: float, oracle: str = "latency", on_step: Step = lambda text: None) -> Steered:
    """Measure for `load_s` under each leader, with `rate` writes per second of each data centre."""
    need_commands("etcd", {"etcd": "etcd-server"})
    place = deployment("1")
    with Switch(len(place.servers), multicast=False) as network, _folder() as folder:
        hosts: dict[str, Namespace] = dict(zip(map(str, place.servers), network.nodes, strict=True))
        for (i, a), (j, b) in combinations(enumerate(place.servers), 2):
            network.set(i, j, delay=round(place.between(a, b) / 2 * 1e6))
        with _servers(hosts, folder):
            on_step("five etcd servers at Deployment 1's round trips")
            leader = _until_led(hosts)
            if leader != place.leader:
                _move(hosts, leader, place.leader)
            with _clients(place, hosts, rate) as waits:
                on_step(f"etcd measures its round trips for {PROBED_S:.0f} s")
                time.sleep(PROBED_S)
                on_step(f"{place.leader} leads")
                before = waits.during(load_s, _until_led(hosts))
                on_step("doyen steer etcd")
                said = _steer(hosts, oracle)
                leader = _until_led(hosts, said.get("move_to"))
                time.sleep(2.0)
                on_step(f"{leader} leads")
                after = waits.during(load_s, leader)
        return Steered(
            before=before,
            after=after,
            model=_model(place),
            said=said,
            published=PUBLISHED,
            overdue_max_s=network.traffic().overdue_max_s,
        )


def _model(place: Deployment) -> dict[str, float]:
    """Return what a client waits on average, by leader: to the leader and back, then to the quorum's last."""
    rates, size = place.rates(), len(place.servers)
    return {
        leader: sorted(place.between(leader, other) for other in place.servers)[size // 2]
        + sum(rate * place.between(leader, server) for server, rate in rates.items()) / sum(rates.values())
        for leader in place.servers
    }


# Servers.


@contextmanager
def _folder() -> Iterator[Path]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="doyen-etcd-", dir=memory if os.access(memory, os.W_OK) else None) as made:
        yield Path(made)


@contextmanager
def _servers(hosts: dict[str, Namespace], folder: Path) -> Iterator[None]:
    addresses = {name: host.ipv4 for name, host in hosts.items()}
    running = []
    try:
        for name, host in hosts.items():
            patient = ["--election-timeout=3000", "--heartbeat-interval=300"]  # The machine may be busy.
            command = [*host.wrap, *server_command(name, addresses, folder / name), *patient]
            with (folder / f"{name}.log").open("wb") as log:
                running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        yield
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait()


def _ask(host: Namespace, call: str, body: dict[str, Any], timeout_s: float) -> Any | None:
    return within(host.name, lambda: asked(f"/v3/maintenance/{call}", body, timeout_s))


def _status(host: Namespace) -> dict[str, Any] | None:
    found: dict[str, Any] | None = _ask(host, "status", {}, 5)
    return found


def _until_led(hosts: dict[str, Namespace], wanted: str | None = None) -> str:
    """Wait until all servers name one leader, the one that is wanted if any; return its name."""
    deadline = time.monotonic() + SERVE_S
    while time.monotonic() < deadline:
        found = {name: _status(host) for name, host in hosts.items()}
        ids = {said["header"]["member_id"]: name for name, said in found.items() if said}
        named = {said.get("leader") for said in found.values() if said}
        if len(ids) == len(hosts) and len(named) == 1 and (leader := ids.get(str(named.pop()))) is not None:
            if wanted in (None, leader):
                return leader
        time.sleep(0.3)
    raise TransportError("etcd names no leader" if wanted is None else f"etcd does not name {wanted} its leader")


def _move(hosts: dict[str, Namespace], leader: str, to: str) -> None:
    target = _status(hosts[to])
    assert target is not None
    _ask(hosts[leader], "transfer-leadership", {"targetID": target["header"]["member_id"]}, 30)
    _until_led(hosts, to)


def _steer(hosts: dict[str, Namespace], oracle: str) -> dict[str, Any]:
    """Run the command, on the first server's host."""
    url = "etcd://" + ",".join(f"{host.ipv4}:{CLIENT}" for host in hosts.values())
    command = [
        *next(iter(hosts.values())).wrap,
        sys.executable,
        "-m",
        "doyen",
        "steer",
        "etcd",
        url,
        "--once",
        "--json",
    ]
    done = subprocess.run([*command, "--oracle", oracle], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise TransportError(f"doyen steer failed: {done.stderr[-500:].strip()}")
    said: dict[str, Any] = json.loads(done.stdout)
    return said


# Clients.


class _Waits:
    """The waits of the clients of each data centre."""

    def __init__(self, place: Deployment) -> None:
        self._place = place
        self.took: dict[str, list[float]] = {name: [] for name, _ in place.centres}
        self.failed = 0

    def during(self, load_s: float, leader: str) -> Waited:
        """Return what clients wait from now on, for that time."""
        for took in self.took.values():
            took.clear()
        failed = self.failed
        time.sleep(load_s)
        found = {centre: [*took] for centre, took in self.took.items()}
        if not all(found.values()):
            raise TransportError("clients of a data centre got no answer")
        means = {centre: 1000 * fmean(took) for centre, took in found.items()}
        return Waited(leader, means, fmean(means.values()), sum(map(len, found.values())), self.failed - failed)


@contextmanager
def _clients(place: Deployment, hosts: dict[str, Namespace], rate: float) -> Iterator[_Waits]:
    waits, over = _Waits(place), threading.Event()

    def write(name: str, centre: str, every_s: float) -> None:
        enter(hosts[name].name)
        gateway, next_at = gateway_here(timeout_s=20), time.monotonic()
        while not over.wait(max(next_at - time.monotonic(), 0)):
            next_at = max(next_at + every_s, time.monotonic())
            began_at = time.monotonic()
            try:
                gateway.ask("/v3/kv/put", {"key": bits(name), "value": VALUE})
                waits.took[centre].append(time.monotonic() - began_at)
            except TransportError:
                waits.failed += 1
        gateway.close()

    threads = [
        threading.Thread(target=write, args=(name, centre, len(servers) / rate))
        for centre, servers in place.centres
        for name in servers
    ]
    for thread in threads:
        thread.start()
    try:
        yield waits
    finally:
        over.set()
        for thread in threads:
            thread.join()
