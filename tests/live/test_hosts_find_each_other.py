"""Three hosts find each other by a name, a file or a multicast address, and two outlive the one that was named."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from doyen.node.control import ask
from doyen.testing.processes import LocalCluster
from doyen_lab.netns import Namespace, Namespaces

pytestmark = [pytest.mark.root, pytest.mark.alone]
NAMES = ("ant", "bee", "cat")


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[Namespace]]:
    with Namespaces(3) as network:
        yield network.nodes


@pytest.fixture(autouse=True)
def _sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path / "run"))


def with_hosts_file(host: Namespace, path: Path) -> list[str]:
    """Return what runs a command on that host with a hosts file of its own; `ip netns exec` has a mount namespace."""
    return [*host.wrap, "sh", "-c", f'mount --bind {path} /etc/hosts && exec "$@"', "sh"]


def asked(group: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = ask(Path(os.environ["DOYEN_RUNTIME_DIR"]) / group / f"{name}.sock", "members")
    return found


def addresses(group: str, name: str) -> dict[str, str | None]:
    return {member["name"]: member["address"] for member in asked(group, name)["members"]}


async def all_are_in(group: str, names: tuple[str, ...]) -> None:
    async with asyncio.timeout(20):
        while not all(set(addresses(group, name)) == set(names) for name in names):
            await asyncio.sleep(0.05)


def test_when_the_only_seed_dies_the_others_have_one_leader_and_know_every_address(
    hosts: list[Namespace], tmp_path: Path
) -> None:
    named = tmp_path / "hosts"
    named.write_text(f"127.0.0.1 localhost\n{hosts[0].ipv4} first.example\n")
    listed = tmp_path / "seeds"
    listed.write_text(f"{hosts[0].ipv4}:7601  # The first.\n")
    groups = {
        "by-name": ["--seed", "first.example"],
        "by-file": ["--seeds-file", str(listed), "--bind", "0.0.0.0:7601"],
    }
    ports = {"by-name": 7600, "by-file": 7601}

    async def main() -> None:
        async with AsyncExitStack() as stack:
            clusters = []
            for group, flags in groups.items():
                flags = ["--election", "hybrid", "--preset", "local", *flags]
                cluster = await stack.enter_async_context(LocalCluster(group, None, flags=flags))
                for name, host in zip(NAMES, hosts, strict=True):
                    await cluster.start(name, wrap=with_hosts_file(host, named))
                clusters.append(cluster)
            for cluster in clusters:
                await cluster.until_started()
                await all_are_in(cluster.group, NAMES)
                await cluster.agreement(10)
                where = {name: f"{host.ipv4}:{ports[cluster.group]}" for name, host in zip(NAMES, hosts, strict=True)}
                for name in NAMES:
                    assert addresses(cluster.group, name) == where
            for cluster in clusters:
                cluster.kill("ant")
            for cluster in clusters:
                await cluster.members["ant"].process.wait()
            for cluster in clusters:
                await cluster.agreement(10, unchanged_s=0.5)
                for name in NAMES[1:]:
                    said = asked(cluster.group, name)
                    states = {member["name"]: member["state"] for member in said["members"]}
                    assert (states["bee"], states["cat"]) == ("alive", "alive")
                    assert "no address" not in said["refused"]

    asyncio.run(main())


def test_multicast_reaches_the_other_hosts_without_an_address_to_bind_and_with_the_wildcard(
    hosts: list[Namespace],
) -> None:
    groups = {
        "four": ["--election", "hybrid", "--multicast", "239.192.7.1:7701"],
        "four-any": ["--election", "announce", "--multicast", "239.192.7.2:7702", "--bind", "0.0.0.0:0"],
        "six": ["--election", "announce", "--multicast", "[ff12::7:3]:7703"],
        "six-any": ["--election", "hybrid", "--multicast", "[ff12::7:4]:7704", "--bind", "[::]:7704"],
    }

    async def main(group: str, flags: list[str]) -> None:
        async with LocalCluster(group, None, flags=["--preset", "local", *flags]) as cluster:
            for name, host in zip(NAMES, hosts, strict=True):
                await cluster.start(name, wrap=host.wrap)
            await cluster.until_started()
            if "hybrid" in flags:
                await all_are_in(group, NAMES)
                for i, name in enumerate(NAMES):
                    at = addresses(group, NAMES[0])[name] or "unknown"
                    assert at.startswith(f"{hosts[i].ipv4 if group == 'four' else f'[{hosts[i].ipv6}]'}:")
            await cluster.agreement(10, unchanged_s=0.3)

    async def all_at_once() -> None:
        await asyncio.gather(*(main(group, flags) for group, flags in groups.items()))

    asyncio.run(all_at_once())
