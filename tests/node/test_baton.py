"""What a leader hands to the next, who would be next, and who votes: `doyen.join` on real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import doyen
from doyen.errors import LeadershipLost, LocalProtocolError

pytestmark = pytest.mark.live
WITHIN_S = 30
TIMERS = {"election_timeout": "50ms", "resign_interval": "200ms"}  # The lease of 2 s outlives a stall.
VOTERS = ("ant", "bee", "cat")


def voter(name: str, folder: Path, seeds: list[str], **fields: Any) -> doyen.Node:
    return doyen.join(
        "money",
        name=name,
        election=doyen.Pole(**TIMERS, cool_down="1h"),
        voters=VOTERS,
        newcomer=True,
        state=folder,
        seeds=seeds,
        leave_on_sigterm=False,
        **fields,
    )


@asynccontextmanager
async def group(folder: Path, *names: str) -> AsyncIterator[dict[str, doyen.Node]]:
    """Yield voters, and further nodes, in this process; all know the first."""
    nodes: dict[str, doyen.Node] = {}
    async with AsyncExitStack() as stack:
        for name in names:
            seeds = [node.address for node in nodes.values()]
            nodes[name] = await stack.enter_async_context(voter(name, folder, seeds))
        yield nodes


async def led(nodes: dict[str, doyen.Node]) -> tuple[str, doyen.Term]:
    """Return who leads, and its term, once all agree."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            names = {None if node.leader is None else node.leader.name for node in nodes.values()}
            name = next(iter(names))
            if len(names) == 1 and name in nodes and nodes[name].is_leader:
                return name, await nodes[name].own_election.won()
            await asyncio.sleep(0.02)


def test_the_next_leader_finds_what_the_last_one_handed_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with group(tmp_path, *VOTERS) as nodes:
            name, term = await led(nodes)
            assert term.baton == b""
            await term.pass_on(b"batch 17")
            await asyncio.gather(*(term.pass_on(b"%d" % number) for number in range(30)), term.pass_on(b"batch 18"))
            assert term.baton == b"batch 18"
            await nodes.pop(name).leave()
            with pytest.raises(LeadershipLost):
                await term.pass_on(b"too late")
            _, term = await led(nodes)
            assert term.baton == b"batch 18"

    asyncio.run(main())


def test_what_cannot_be_handed_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with group(tmp_path, *VOTERS) as nodes:
            _, term = await led(nodes)
            with pytest.raises(LocalProtocolError, match="at most 512 bytes, not 513"):
                await term.pass_on(bytes(513))
            with pytest.raises(TypeError, match="a baton is bytes, not str"):
                await term.pass_on("x")  # type: ignore[arg-type]
            await term.pass_on(bytes(512))
        async with doyen.join("weak", election="fast", preset="local", leave_on_sigterm=False) as node:
            term = await node.own_election.won()
            with pytest.raises(LocalProtocolError, match="only a quorum's does"):
                print(term.baton)
            with pytest.raises(LocalProtocolError, match="only a quorum's does"):
                await term.pass_on(b"x")
            assert node.heir is None

    asyncio.run(main())


def test_a_leader_cut_off_while_it_hands_on_says_that_nobody_knows(tmp_path: Path) -> None:
    async def main() -> None:
        async with group(tmp_path, *VOTERS) as nodes:
            name, term = await led(nodes)
            for other in VOTERS:
                if other != name:
                    nodes[other].agent.driver.close()
            with pytest.raises(LeadershipLost, match="may or may not reach the next leader"):
                await term.pass_on(b"x")

    asyncio.run(main())


def test_the_heir_prepares_and_is_told_when_it_leads(tmp_path: Path) -> None:
    async def main() -> None:
        ended: list[tuple[str, bool]] = []

        async def stand_by(node: doyen.Node) -> None:
            async with node.prepare() as standby:
                await asyncio.sleep(3600)
            ended.append((node.name, standby.promoted))

        async with group(tmp_path, *VOTERS) as nodes:
            name, _ = await led(nodes)
            async with asyncio.timeout(WITHIN_S):
                while len({node.heir for node in nodes.values()}) != 1 or nodes[name].heir is None:
                    await asyncio.sleep(0.02)
            heir = nodes[name].heir
            assert heir in nodes and heir != name
            tasks = [asyncio.create_task(stand_by(node)) for node in nodes.values()]
            await asyncio.sleep(0.3)
            assert not ended
            await nodes[name].resign(to=heir)
            async with asyncio.timeout(WITHIN_S):
                while not ended:
                    await asyncio.sleep(0.02)
            assert ended[0] == (heir, True)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())


def test_voters_are_replaced_while_the_group_runs(tmp_path: Path) -> None:
    async def main() -> None:
        async with group(tmp_path, *VOTERS, "dog") as nodes:
            await nodes["dog"].wait_for_leader(WITHIN_S)
            name, term = await led(nodes)
            await term.pass_on(b"kept")
            election = nodes[name].own_election
            for change, why in (
                ({"add": "elk"}, "elk does not answer"),
                ({"add": "ant"}, "ant votes already"),
                ({"remove": "dog"}, "dog does not vote"),
                ({}, "one at a time"),
            ):
                with pytest.raises(LocalProtocolError, match=why):
                    await election.change_voters(**change)
            other = next(voter for voter in VOTERS if voter != name)
            with pytest.raises(LocalProtocolError, match=f"only the leader .*{name} leads"):
                await nodes[other].own_election.change_voters(add="dog")
            assert (await election.change_voters(add="dog", remove=other)).voters == tuple(
                sorted({*VOTERS, "dog"} - {other})
            )
            await nodes.pop(other).leave()
            assert (await election.change_voters(remove=name)).voters == tuple(sorted({*VOTERS, "dog"} - {other, name}))
            after, term = await led(nodes)  # It has removed itself, and follows.
            assert after != name and term.baton == b"kept"
            found = nodes[after].own_election.electors()
            assert found is not None and found.number == 4 and found.may_fail == 0

    asyncio.run(main())


def test_the_same_for_threads(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"election": "quorum", "voters": ["ant"], "newcomer": True, "state": tmp_path}
    with doyen.sync.join("alone", name="ant", **fields) as node, node.lead(timeout=WITHIN_S) as term:
        assert term.baton == b"" and node.heir is None
        term.pass_on(b"x")
        assert term.baton == b"x"
