"""`doyen.join` on real sockets: lead, lose, resign, leave; and the same names in threads."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

import doyen
from doyen.core.commands import Stand
from doyen.errors import ConfigError, LeadershipLost, LocalProtocolError

pytestmark = pytest.mark.live
WITHIN_S = 15


@asynccontextmanager
async def group(count: int, **fields: Any) -> AsyncIterator[list[doyen.Node]]:
    """So many nodes of one group in this process; all know the first."""
    nodes: list[doyen.Node] = []
    async with AsyncExitStack() as stack:
        for i in range(count):
            seeds = [nodes[0].address] if nodes else []
            own = {key: value(i) if key in ("score", "eligible", "meta") else value for key, value in fields.items()}
            node = doyen.join("api", name=f"n{i}", seeds=seeds, preset="local", leave_on_sigterm=False, **own)
            nodes.append(await stack.enter_async_context(node))
        yield nodes


async def until(holds: Any, within_s: float = WITHIN_S) -> None:
    async with asyncio.timeout(within_s):
        while not holds():
            await asyncio.sleep(0.02)


def named(election: doyen.Node | doyen.Campaign | doyen.sync.Node) -> str | None:
    return None if election.leader is None else election.leader.name


def agreed(nodes: list[doyen.Node], size: int | None = None) -> str | None:
    """Return the leader that all name, once it acts and everybody is present."""
    names = {named(node) for node in nodes}
    acts = any(node.is_leader for node in nodes) or len(nodes) < (size or 0)
    present = all(sum(m.state == "alive" for m in node.members()) == (size or len(nodes)) for node in nodes)
    return names.pop() if len(names) == 1 and present and acts else None


def test_one_of_three_leads_and_the_next_takes_over_when_it_leaves() -> None:
    async def main() -> None:
        async with group(3) as nodes:
            await until(lambda: agreed(nodes))
            first = next(node for node in nodes if node.is_leader)
            assert sum(node.is_leader for node in nodes) == 1
            async with asyncio.timeout(WITHIN_S):
                async with first.lead() as term:
                    assert (term.leader, term.lost) == (first.name, False)
                    term.check()
            rest = [node for node in nodes if node is not first]
            await first.leave()
            assert not first.is_leader
            with pytest.raises(LeadershipLost, match="term"):
                term.check()
            await until(lambda: agreed(rest))
            assert sum(node.is_leader for node in rest) == 1
            assert {m.name: m.state for m in rest[0].members()}[first.name] == "left"

    asyncio.run(main())


def test_the_body_is_cancelled_when_leadership_is_lost_and_lead_says_so() -> None:
    stopped: list[str] = []

    async def main() -> None:
        async with group(3) as nodes:
            await until(lambda: agreed(nodes))
            leader = next(node for node in nodes if node.is_leader)

            entered = asyncio.Event()

            async def work() -> None:
                async with leader.lead():
                    entered.set()
                    try:
                        await asyncio.sleep(60)
                    finally:
                        stopped.append("body")

            task = asyncio.create_task(work())
            await entered.wait()
            await leader.resign(cooldown="10s")
            with pytest.raises(LeadershipLost, match="resigned"):
                await task
            assert stopped == ["body"]
            assert not leader.is_leader
            await until(lambda: agreed(nodes) not in (None, leader.name))

    asyncio.run(main())


def test_resigning_hands_over_to_whom_it_names() -> None:
    async def main() -> None:
        async with group(3) as nodes:
            await until(lambda: agreed(nodes))
            leader = next(node for node in nodes if node.is_leader)
            heir = next(node for node in nodes if not node.is_leader)
            with pytest.raises(LocalProtocolError, match="nobody"):
                await leader.resign(to="nobody")
            assert leader.is_leader
            await leader.resign(to=heir.name)
            await until(lambda: agreed(nodes) == heir.name)

    asyncio.run(main())


def test_terms_come_one_after_another_and_each_body_ends_with_its_reign() -> None:
    async def main() -> None:
        async with group(2) as nodes:
            await until(lambda: agreed(nodes))
            leader = next(node for node in nodes if node.is_leader)
            other = next(node for node in nodes if node is not leader)
            numbers: list[int] = []

            async def campaign() -> None:
                async for term in leader.terms():
                    async with term:
                        numbers.append(term.number)
                        await asyncio.sleep(60)

            task = asyncio.create_task(campaign())
            await until(lambda: len(numbers) == 1)
            await leader.resign(cooldown="100ms")
            await until(lambda: other.is_leader)
            await other.resign(cooldown="10s")
            await until(lambda: len(numbers) == 2)
            assert numbers[1] > numbers[0]
            await leader.leave()
            await task  # Ends when the node leaves.

    asyncio.run(main())


def test_a_body_may_leave_and_is_stopped_by_it() -> None:
    async def work(node: doyen.Node) -> None:
        async with node.lead(timeout="10s"):
            await node.leave()
            await asyncio.sleep(60)

    async def main() -> None:
        async with doyen.join("leaves", name="a", preset="local") as node:
            with pytest.raises(LeadershipLost, match="left"):
                await work(node)
            assert not node.running
            await node.leave()  # Again: nothing happens.

    asyncio.run(main())


def test_a_cancellation_from_outside_is_not_swallowed() -> None:
    async def main() -> None:
        async with group(1) as (node,):
            await until(lambda: node.is_leader)

            async def work() -> None:
                async with node.lead():
                    await asyncio.sleep(60)

            task = asyncio.create_task(work())
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())


def test_who_is_not_elected_in_time_is_told_who_leads() -> None:
    async def main() -> None:
        async with group(2) as nodes:
            await until(lambda: agreed(nodes))
            follower = next(node for node in nodes if not node.is_leader)
            with pytest.raises(TimeoutError, match=f"{agreed(nodes)} leads"):
                async with follower.lead(timeout="200ms"):
                    pass

    asyncio.run(main())


def test_the_best_score_leads_and_scores_and_words_are_gossiped() -> None:
    async def main() -> None:
        fields: dict[str, Any] = {"score": lambda i: lambda: 10.0 * i, "meta": lambda i: {"zone": f"z{i}"}}
        async with group(3, election=doyen.Hybrid(bootstrap_after="2s"), **fields) as nodes:
            await until(lambda: agreed(nodes))
            await until(lambda: all(m.score is not None for node in nodes for m in node.members()))
            leader = next(node for node in nodes if node.is_leader)
            await leader.resign(cooldown="1ms")  # Whoever bootstrapped early knew nobody's score.
            await until(lambda: agreed(nodes) not in (None, leader.name))
            best = "n2" if leader.name != "n2" else "n1"
            assert agreed(nodes) == best
            await until(lambda: {m.name: dict(m.meta) for m in nodes[0].members()}["n2"] == {"zone": "z2"})
            await nodes[2].tell({"zone": "elsewhere"})
            await until(lambda: {m.name: m.meta for m in nodes[0].members()}["n2"].get("zone") == "elsewhere")
            assert {m.name: m.score for m in nodes[0].members()} == {"n0": 0.0, "n1": 10.0, "n2": 20.0}
            with pytest.raises(ConfigError, match="at most 512"):
                await nodes[0].tell({"novel": "x" * 600})

    asyncio.run(main())


@pytest.mark.parametrize("election", ["hybrid", "announce", "spanning", "pole"])
def test_who_is_not_eligible_does_not_lead_whatever_its_score(election: str) -> None:
    async def main() -> None:
        fields: dict[str, Any] = {"election": election, "membership": "swim", "score": lambda i: float(i)}
        if election == "pole":
            fields |= {"voters": ["n0", "n1", "n2"], "volatile": True}
        async with group(3, eligible=lambda i: i == 1, **fields) as nodes:
            await until(lambda: agreed(nodes) == "n1")

    asyncio.run(main())


def test_a_cooldown_is_as_long_as_it_was_said_and_makes_nobody_eligible() -> None:
    async def main() -> None:
        election = doyen.Hybrid(resign_cool_down="50ms")
        async with group(2, election=election, eligible=lambda i: i == 0) as nodes:
            await until(lambda: agreed(nodes) == "n0")
            points = [node.agent.stack.machines["election"].point for node in nodes]
            assert [point.declined for point in points] == [False, True]
            await nodes[0].resign(cooldown="10s")
            await asyncio.sleep(0.1)
            assert points[0].declined
            for node in nodes:
                node.agent.driver.tell(Stand(), channel="election")
            assert [point.declined for point in points] == [False, True]

    asyncio.run(main())


def test_several_elections_of_one_node_have_a_leader_each() -> None:
    async def main() -> None:
        async with group(3, elections={"mail": "hybrid", "clock": doyen.Announce()}) as nodes:
            for name in ("mail", "clock"):
                await until(lambda name=name: len({named(node.election(name)) for node in nodes}) == 1)
            await until(lambda: agreed(nodes))
            assert named(nodes[0].election("clock")) == "n2"  # The greatest name.
            late = [node.election("late") for node in nodes]
            await until(lambda: len({named(c) for c in late}) == 1 and late[0].leader)
            await until(lambda: sum(c.is_leader for c in late) == 1)

    asyncio.run(main())


def test_events_tell_of_members_and_leaders() -> None:
    async def main() -> None:
        async with group(2) as nodes:
            seen: list[doyen.Event] = []

            async def read() -> None:
                async for event in nodes[0].events():
                    seen.append(event)

            task = asyncio.create_task(read())
            await until(lambda: agreed(nodes))
            await nodes[1].leave()
            await until(lambda: nodes[0].is_leader and any(event.kind == "left" for event in seen))
            await nodes[0].leave()
            await task
            kinds = [(event.kind, event.member or event.leader) for event in seen]
            assert ("left", "n1") in kinds
            assert any(kind == "elected" for kind, _ in kinds)
            assert kinds[-1][0] == "stopped"

    asyncio.run(main())


def test_a_quorum_leader_that_hears_nobody_stops_by_the_clock_alone() -> None:
    async def main() -> None:
        voters = ["n0", "n1", "n2"]
        async with group(3, election="pole", voters=voters, volatile=True, membership="swim") as nodes:
            await until(lambda: agreed(nodes))
            leader = next(node for node in nodes if node.is_leader)
            for node in nodes:
                if node is not leader:
                    node.agent.driver.close()
            stopped_at: list[float] = []

            async def work() -> None:
                async with leader.lead():
                    try:
                        await asyncio.sleep(60)
                    finally:
                        stopped_at.append(asyncio.get_running_loop().time())

            task = asyncio.create_task(work())
            with pytest.raises(LeadershipLost, match="lease"):
                await task
            assert not leader.is_leader

    asyncio.run(main())


def test_is_leader_needs_no_message_and_no_timer_to_become_false() -> None:
    async def main() -> None:
        async with group(1, election="pole", voters=["n0"], volatile=True) as (node,):
            await until(lambda: node.is_leader)
            driver = node.agent.driver
            now = driver.clock()
            driver.clock = lambda: now + 3_600_000_000_000  # An hour passes while nothing runs.
            assert not node.is_leader

    asyncio.run(main())


def test_threads_have_the_same_names() -> None:
    with doyen.sync.join("threads", name="a", preset="local") as node:
        with node.lead(timeout="10s") as term:
            assert (term.number, term.lost, node.is_leader, named(node)) == (1, False, True, "a")
            term.check()
            assert [m.name for m in node.members()] == ["a"]
        with pytest.raises(LeadershipLost), node.lead() as term:
            _hand_over(node, term)  # The body comes to its end after leadership was lost, and is told.


def _hand_over(node: doyen.sync.Node, term: doyen.sync.Term) -> None:
    with doyen.sync.join("threads", name="b", preset="local", seeds=[node.address]) as other:
        events = other.events()
        while named(other) != "a":
            next(events)
        threading.Timer(0.1, node.resign, kwargs={"to": "b"}).start()
        assert term.wait_lost(10)
        with pytest.raises(LeadershipLost):
            term.check()
        with other.lead(timeout="10s") as second:
            assert second.number > term.number


@pytest.mark.parametrize("how", ["asyncio", "threads"])
def test_sigterm_makes_it_leave_in_order_and_ends_the_process(how: str) -> None:
    code = {
        "asyncio": "import asyncio, doyen\nasync def main():\n async with doyen.join('t', name='x', preset='local', "
        "seeds=['{}']) as n:\n  print('in', flush=True)\n  await asyncio.sleep(60)\nasyncio.run(main())",
        "threads": "import time, doyen\nwith doyen.sync.join('t', name='x', preset='local', seeds=['{}']) as n:\n "
        "print('in', flush=True)\n time.sleep(60)",
    }[how]
    with doyen.sync.join("t", name="watcher", preset="local") as node:
        program = [sys.executable, "-c", code.format(node.address)]
        with subprocess.Popen(program, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"in\n"
            events = node.events()
            while not any(m.name == "x" and m.state == "alive" for m in node.members()):
                next(events)
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait(10) == -signal.SIGTERM
        while not any(m.name == "x" and m.state == "left" for m in node.members()):
            next(events)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"election": "democracy"}, "election 'democracy' is not installed: one of"),
        ({"election": "pole"}, "voters must name all members"),
        ({"election": "pole", "voters": ["a"]}, "state must name a directory"),
        ({"membership": "none"}, "membership none cannot carry the election gossip (hybrid)"),
        ({"colour": "blue"}, "there is no field 'colour'"),
        ({"election": doyen.Hybrid(response_timeout="soon")}, "'soon' is not a duration"),
        ({"meta": {"k": "v" * 600}}, "meta has"),
        (
            {"eligible": False, "election": "by-key"},
            "eligible cannot be false: the election by-key goes by names alone",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        doyen.join("g", **fields)
    assert said in str(raised.value)
