"""Whole agents, as processes: sealed packets and the hold on the leader as a user gets them, by flags."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace
from net_nodes import leave, until

from doyen.core.clock import ms, seconds
from doyen.core.leadership import LeaderLost
from doyen.election.announce.config import AnnounceConfig
from doyen.membership.swim.config import SwimConfig
from doyen.net.keys import key_id, write_keys
from doyen.node.agent import Agent
from doyen.node.config import NodeConfig
from doyen.testing.processes import LocalCluster, multicast_on_loopback

pytestmark = pytest.mark.live

PATIENT = AnnounceConfig(announce_interval=ms(200), listen_timeout=seconds(60), suppress_interval=ms(150), group_size=3)


@pytest.mark.parametrize("with_key", [False, True])
def test_a_killed_leader_is_replaced_long_before_its_silence_would_be_noticed(tmp_path: Path, with_key: bool) -> None:
    write_keys(tmp_path / "keys", [bytes(32)])
    flags = ["--key-file", str(tmp_path / "keys")] if with_key else []

    async def main() -> None:
        async with LocalCluster("link", PATIENT, flags=[*multicast_on_loopback(), *flags]) as cluster:
            for name in ("a", "b", "c"):
                await cluster.start(name)
            await cluster.until_started()
            await cluster.agreement(10, on="c", unchanged_s=1.0)
            at = cluster.kill("c")
            since = await cluster.agreement(10, on="b", unchanged_s=0.4)
            assert since - at < seconds(5)

    asyncio.run(main())


@pytest.mark.parametrize(("membership", "election"), [("swim", "hybrid"), ("medley", "spanning")])
def test_elections_over_a_membership_hear_of_the_broken_link_too(membership: str, election: str) -> None:
    """Every probe and suspicion here takes half a minute: what is known sooner is known by the link."""
    slow = ["--membership", membership, "--election", election, "--group-size", "3"]
    slow += [f"--{membership}-period", "10s", f"--{membership}-ack-timeout", "500ms"]
    slow += ["--medley-suspicion-timeout", "60s"] if membership == "medley" else ["--swim-suspicion-mult", "30"]
    slow += [f"--{membership}-join-interval", "200ms", "--spanning-pulse-interval", "60s"]

    async def main() -> None:
        async with LocalCluster("chain", None, flags=slow) as cluster:
            first = await cluster.start("a", "--score", "1")
            await cluster.until_started()
            assert first.address is not None
            for name in ("b", "c"):
                await cluster.start(name, "--seed", first.address, "--score", "0")
            await cluster.until_started()
            await cluster.agreement(20, unchanged_s=1.5)
            leader = cluster.agreed()
            assert leader is not None
            at = cluster.kill(leader)
            await cluster.members[leader].process.wait()
            since = await cluster.agreement(9, unchanged_s=0.4)
            assert 0 < since - at < seconds(5)

    asyncio.run(main())


def test_keys_are_changed_under_running_agents_and_nobody_loses_anybody(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    old, new = bytes(32), bytes(range(32))
    write_keys(path, [old])
    flags = multicast_on_loopback()

    async def main() -> None:
        config = NodeConfig(
            group="rotate",
            election="announce",
            bind="127.0.0.1:0",
            multicast=flags[flags.index("--multicast") + 1],
            key_file=str(path),
            tables={
                "announce": AnnounceConfig(announce_interval=ms(100), listen_timeout=ms(1500), suppress_interval=ms(50))
            },
        )
        agents = [Agent(replace(config, name=name)) for name in ("a", "b", "c")]
        lost: list[LeaderLost] = []
        for agent in agents:
            await agent.start()
        await until(lambda: {agent.reign.leader for agent in agents if agent.reign} == {"c"})
        for agent in agents:
            agent.driver.watch(lambda _, fact, now: lost.append(fact) if isinstance(fact, LeaderLost) else None)
        for keys in ([old, new], [new, old], [new]):
            write_keys(path, keys)
            seals = [agent.driver.seal for agent in agents]
            await until(lambda seals=seals, keys=keys: all(s and s.keyring.keys == tuple(keys) for s in seals))
            before = agents[0].driver.received_count
            await until(lambda before=before: agents[0].driver.received_count >= before + 3)
        assert lost == [] and all(agent.driver.refused["key"] == 0 for agent in agents)
        assert agents[0].driver.seal is not None and agents[0].driver.seal.keyring.primary == key_id(new)
        for agent in agents:
            await leave(agent)

    asyncio.run(main())


def test_members_find_each_other_by_name_and_by_a_file_that_comes_later(tmp_path: Path) -> None:
    seeds = tmp_path / "seeds"

    async def main() -> None:
        swim = SwimConfig(period=ms(100), ack_timeout=ms(40))
        first = Agent(NodeConfig(group="find", name="a", election="hybrid", tables={"swim": swim}, find_local=False))
        await first.start()
        port = first.driver.transport.address.port
        second = Agent(
            NodeConfig(
                group="find",
                name="b",
                election="hybrid",
                tables={"swim": swim},
                find_local=False,
                bind="127.0.0.1:0",
                seeds=(f"localhost:{port}",),
            )
        )
        third = Agent(
            NodeConfig(
                group="find",
                name="c",
                election="hybrid",
                tables={"swim": swim},
                find_local=False,
                bind="127.0.0.1:0",
                seeds_file=str(seeds),
            )
        )
        agents = [first, second, third]
        for agent in agents[1:]:
            await agent.start()
        await until(lambda: all(len(agent.stack.members()) == 2 for agent in agents[:2]), 20)
        assert len(third.stack.members()) == 1
        seeds.write_text(f"127.0.0.1:{port}\n")
        await until(lambda: all(len(agent.stack.members()) == 3 for agent in agents), 20)
        for agent in agents:
            await leave(agent)

    asyncio.run(main())
