"""Nodes whose machines change their addresses: real processes in namespaces; the address that others see counts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hosts import needs_root, processes, until

from doyen_lab.iproute import ip
from doyen_lab.netns import Namespace, Namespaces

pytestmark = [pytest.mark.live, pytest.mark.root, needs_root]
NAMES = ("ant", "bee", "cat")
DOYEN = [sys.executable, "-m", "doyen"]


def move(host: Namespace, before: str, after: str) -> None:
    ip("-n", host.name, "address", "del", f"{before}/16", "dev", host.interface)
    ip("-n", host.name, "address", "add", f"{after}/16", "dev", host.interface)


def seen_by(folder: Path, name: str) -> dict[str, tuple[str, str]]:
    """Return the address and the state of each member, as that node says."""
    environment = os.environ | {"DOYEN_RUNTIME_DIR": str(folder / name)}
    done = subprocess.run([*DOYEN, "members", "--json"], capture_output=True, text=True, env=environment, timeout=30)
    told: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {"members": []}
    return {
        member["name"]: ((member["address"] or "").partition(":")[0], member["state"]) for member in told["members"]
    }


@pytest.mark.parametrize(
    "membership",
    ["swim", *(pytest.param(name, marks=pytest.mark.soak) for name in ("heartbeat", "ring"))],
)
def test_members_that_move_one_after_another_are_held_alive_where_they_are(tmp_path: Path, membership: str) -> None:
    """The seed moves, too; the one that starts last has no way to anybody at first."""
    with Namespaces(3) as network, processes(tmp_path) as running:
        hosts = dict(zip(NAMES, network.nodes, strict=True))
        where = {name: host.ipv4 for name, host in hosts.items()}
        late = hosts["cat"]
        ip("-n", late.name, "address", "del", f"{where['cat']}/16", "dev", late.interface)
        for name, host in hosts.items():
            flags = ["--group", "moved", "--name", name, "--membership", membership, "--bind", "0.0.0.0:7600"]
            if (name, membership) != ("ant", "ring"):  # Who has no seed founds the ring.
                flags += ["--seed", where["ant"]]
            (tmp_path / name).mkdir()
            line = [*host.wrap, *DOYEN, "agent", *flags, "--json"]
            running.start(name, line, {"DOYEN_RUNTIME_DIR": str(tmp_path / name)})
        until(lambda: len(running.saying('"started"')) == 3, "all have started, also without a route")
        ip("-n", late.name, "address", "add", f"{where['cat']}/16", "dev", late.interface)

        def all_see_all() -> bool:
            wanted = {name: (address, "alive") for name, address in where.items()}
            return all(seen_by(tmp_path, name) == wanted for name in NAMES)

        until(all_see_all, f"everybody is alive at {where}", 60)
        for name, address in (("bee", "198.18.77.2"), ("ant", "198.18.77.1"), ("bee", "198.18.78.2")):
            move(hosts[name], where[name], address)
            where[name] = address
            until(all_see_all, f"everybody is alive at {where}, after {name} moved", 60)
