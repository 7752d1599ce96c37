"""Real processes elect on real sockets: multicast, fan-out to seeds, IPv6 between two namespaces."""

import asyncio
import os
import subprocess
import sys
import time

import pytest

from doyen.election.announce.config import AnnounceConfig
from doyen.errors import TransportError
from doyen.testing.processes import LocalCluster, multicast_on_loopback
from doyen_lab.netns import Namespaces

pytestmark = pytest.mark.live


def test_three_agents_elect_over_ipv4_multicast_and_again_after_a_kill(quick: AnnounceConfig) -> None:
    async def main() -> None:
        async with LocalCluster("three", quick, flags=multicast_on_loopback()) as cluster:
            for name in ("a", "b", "c"):
                await cluster.start(name)
            await cluster.until_started()
            await cluster.agreement(10, on="c", unchanged_s=0.4)
            pids = {member.pid for member in cluster.alive()} | {os.getpid()}
            assert len(pids) == 4
            cluster.kill("c")
            await cluster.members["c"].process.wait()
            await cluster.agreement(10, on="b", unchanged_s=0.4)
        assert [member.process.returncode for member in cluster.members.values()] == [0, 0, -9]

    asyncio.run(main())


def test_three_agents_elect_by_telling_their_seeds(quick: AnnounceConfig) -> None:
    async def main() -> None:
        async with LocalCluster("seeds", quick) as cluster:
            seeds: list[str] = []
            for name in ("a", "b", "c"):  # Each knows those before it, and hears of those after it.
                member = await cluster.start(name, *seeds)
                await cluster.until_started()
                assert member.address is not None
                seeds += ["--seed", member.address]
            await cluster.agreement(10, on="c", unchanged_s=0.4)
            assert len({member.pid for member in cluster.alive()}) == 3
            cluster.kill("c")
            await cluster.members["c"].process.wait()
            await cluster.agreement(10, on="b", unchanged_s=0.4)

    asyncio.run(main())


def test_a_group_that_cannot_hear_each_other_says_who_names_whom(quick: AnnounceConfig) -> None:
    async def main() -> None:
        async with LocalCluster("deaf", quick, flags=["--no-find-local"]) as cluster:
            for name in ("a", "b"):
                await cluster.start(name)
            await cluster.until_started()
            await cluster.until(lambda: all(member.leader for member in cluster.alive()), 10)
            with pytest.raises(TransportError, match=r"did not agree within 0\.2 s: a names a, b names b"):
                await cluster.agreement(0.2)

    asyncio.run(main())


def test_a_member_that_ends_at_its_start_is_named(quick: AnnounceConfig, capfd: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        async with LocalCluster("stillborn", quick) as cluster:
            member = await cluster.start("a", "--bind", "192.0.2.250:0")
            with pytest.raises(TransportError, match=rf"a \(pid {member.pid}\) ended with 1 at its start"):
                await cluster.until_started()

    asyncio.run(main())
    assert "this machine has no such address" in capfd.readouterr().err


def test_a_leader_that_leaves_in_order_says_so_and_is_followed_at_once(quick: AnnounceConfig) -> None:
    async def main() -> None:
        async with LocalCluster("leaves", quick, flags=multicast_on_loopback()) as cluster:
            for name in ("a", "b"):
                await cluster.start(name)
            await cluster.until_started()
            await cluster.agreement(10, on="b", unchanged_s=0.4)
            cluster.members["b"].process.terminate()
            assert await cluster.members["b"].process.wait() == 0
            await cluster.agreement(10, on="a")

    asyncio.run(main())


@pytest.mark.root
@pytest.mark.parametrize("scope", ["ipv6", "link_local"])
@pytest.mark.parametrize("named", [True, False], ids=["interface named", "interface found"])
def test_two_agents_elect_each_other_over_ipv6_multicast_on_a_veth_pair(
    quick: AnnounceConfig, scope: str, named: bool
) -> None:
    async def main(network: Namespaces) -> None:
        async with LocalCluster("six", quick, flags=["--multicast", "[ff12::d0:1e]:7600"]) as cluster:
            for name, host in zip(("a", "b"), network.nodes, strict=True):
                interface = ["--interface", host.interface] if named else []
                await cluster.start(name, "--bind", f"[{getattr(host, scope)}]:0", *interface, wrap=host.wrap)
            await cluster.until_started()
            await cluster.agreement(10, on="b", unchanged_s=0.4)
            addresses = [member.address or "" for member in cluster.alive()]
            assert all(address.startswith("[f") for address in addresses)
            inodes = [os.stat(f"/proc/{member.pid}/ns/net").st_ino for member in cluster.alive()]
            assert inodes == [host.inode for host in network.nodes]
            assert len({*inodes, os.stat("/proc/self/ns/net").st_ino}) == 3
            cluster.kill("b")
            await cluster.members["b"].process.wait()
            await cluster.agreement(10, on="a")

    with Namespaces(2) as network:
        asyncio.run(main(network))


def test_a_second_signal_changes_nothing_about_an_orderly_end() -> None:
    line = [sys.executable, "-m", "doyen", "agent", "--group", "twice", "--name", "ant"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while '"started"' not in process.stdout.readline():
            pass
        while process.poll() is None:  # To the last moment of an interpreter that closes down.
            process.terminate()
            time.sleep(0.001)
        assert process.returncode == 0
