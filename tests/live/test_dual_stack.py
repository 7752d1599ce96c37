"""IPv6 beside IPv4: a member that speaks both is a group with one of IPv4 alone and one of IPv6 alone."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hosts import processes, until

pytestmark = [pytest.mark.live]
DOYEN = [sys.executable, "-m", "doyen"]


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 on loopback")
@pytest.mark.parametrize("sealed", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_members_of_either_ip_version_are_one_group_by_way_of_one_that_speaks_both(
    tmp_path: Path, sealed: bool
) -> None:
    """The two that share no version never hear each other directly, and hold each other alive."""
    port = 22_000 + os.getpid() % 20_000
    key = ["--key-file", str(tmp_path / "key")] if sealed else []
    if sealed:
        subprocess.run([*DOYEN, "keys", "new", "--file", str(tmp_path / "key")], check=True, capture_output=True)
    places = {"both": f"[::]:{port}", "four": f"127.0.0.1:{port + 1}", "six": f"[::1]:{port + 2}"}
    seeds = {"both": [], "four": ["--seed", f"127.0.0.1:{port}"], "six": ["--seed", f"[::1]:{port}"]}

    def told(name: str) -> tuple[dict[str, str], str]:
        environment = os.environ | {"DOYEN_RUNTIME_DIR": str(tmp_path / name)}
        line = [*DOYEN, "members", "--json"]
        done = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=30)
        if done.returncode:
            return {}, ""
        said = json.loads(done.stdout)
        return {member["name"]: member["state"] for member in said["members"]}, str(said.get("leader"))

    with processes(tmp_path) as running:
        for name, place in places.items():
            flags = ["--group", "stacks", "--name", name, "--bind", place, *seeds[name], *key, "--preset", "local"]
            (tmp_path / name).mkdir()
            line = [*DOYEN, "agent", *flags, "--no-find-local", "--json"]
            running.start(name, line, {"DOYEN_RUNTIME_DIR": str(tmp_path / name)})
        until(lambda: len(running.saying('"started"')) == 3, "all have started", 60)

        def agree() -> bool:
            views = [told(name) for name in places]
            states, leaders = [states for states, _ in views], {leader for _, leader in views}
            return states == [dict.fromkeys(places, "alive")] * 3 and len(leaders) == 1 and leaders <= {*places}

        until(agree, "three members, one leader", 60)
        for _ in range(3):
            assert agree(), [told(name) for name in places]
