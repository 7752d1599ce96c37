"""Three processes, one group for each kind of election: all know where the leader is, and the next one after a kill."""

import asyncio
import json
import os
import signal
import sys
import time
from typing import Any

import pytest

import doyen
from doyen.core.clock import to_seconds

pytestmark = [pytest.mark.alone]

VOTERS = {"voters": ["a", "b", "c"], "volatile": True, "newcomer": True}
GROUPS: dict[str, dict[str, Any]] = {
    "hybrid": {"election": "hybrid"},
    "announce": {"election": "announce", "membership": "none"},
    "multicast": {"election": "announce", "membership": "none", "multicast": "239.192.13.7:7913"},
    "heartbeat": {"election": "optimistic", "membership": "heartbeat"},
    "medley": {"election": "base", "membership": "medley"},
    "spanning": {"election": "spanning"},
    "quorum": {"election": "pole", "membership": "swim", **VOTERS},
    "quorum without a list": {"election": "pole", "membership": "none", **VOTERS},
    "ring": {"election": "by-key", "membership": "ring"},
}
MEMBER = """
import asyncio, json, sys, time
from contextlib import AsyncExitStack
import doyen

name, groups, seeds = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])

def say(**what):
    print(json.dumps(what), flush=True)

async def follow(group, node):
    async for view in node.views():
        if view.leader is not None:
            info = view.leader
            say(group=group, at=time.monotonic(), leader=[info.name, info.address, dict(info.meta), info.since])

async def greet(reader, writer):
    writer.write(name.encode())
    writer.close()

async def main():
    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    url = f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with AsyncExitStack() as stack:
        nodes = {}
        for group, fields in groups.items():
            where = {} if "multicast" in fields else {"seeds": seeds.get(group, [])}
            nodes[group] = await stack.enter_async_context(doyen.join(
                group, name=name, preset="local", bind="127.0.0.1:0", meta={"url": url}, control=False,
                find_local=False, score=None if group == "ring" else float(name == "a"), **fields, **where))
        say(url=url, addresses={group: node.address for group, node in nodes.items()})
        await asyncio.gather(*(follow(group, node) for group, node in nodes.items()))

asyncio.run(main())
"""


class Members:
    """The processes, and what each shows of the leader of each group."""

    def __init__(self) -> None:
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self.said: dict[str, dict[str, Any]] = {}  # By name: where it listens.
        self.shown: dict[tuple[str, str], tuple[float, list[Any]]] = {}  # By name and group: since when, and what.
        self._reading: set[asyncio.Task[None]] = set()

    async def start(self, name: str, seeds: dict[str, list[str]]) -> None:
        arguments = ["-c", MEMBER, name, json.dumps(GROUPS), json.dumps(seeds)]
        self.processes[name] = process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        first = await asyncio.wait_for(process.stdout.readline(), 20)
        self.said[name] = json.loads(first)
        self._reading.add(asyncio.create_task(self._read(name, process.stdout)))

    async def _read(self, name: str, lines: asyncio.StreamReader) -> None:
        while line := await lines.readline():
            told = json.loads(line)
            self.shown[name, told["group"]] = (told["at"], told["leader"])

    def agreed(self, group: str, names: list[str]) -> str | None:
        """Return the leader of a group, once all of those show the same of it, and that is right."""
        found = [self.shown.get((name, group), (0.0, [None]))[1] for name in names]
        leader = found[0][0]
        if leader not in names or any(other != found[0] for other in found):
            return None
        right = [self.said[leader]["addresses"][group], {"url": self.said[leader]["url"]}]
        return leader if found[0][1:3] == right else None

    async def until_agreed(self, names: list[str], within_s: float) -> dict[str, str]:
        try:
            async with asyncio.timeout(within_s):
                while True:
                    leaders = {group: self.agreed(group, names) for group in GROUPS}
                    if all(leaders.values()):
                        return {group: leader for group, leader in leaders.items() if leader is not None}
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(f"{leaders}; {self.shown}") from None

    async def stop(self) -> None:
        for process in self.processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()
        await asyncio.gather(*self._reading)


def bound_s(fields: dict[str, Any]) -> float:
    """Return how long the others may take to name the next leader after a kill, by the election's own account."""
    config = doyen.join("bound", preset="local", score=1.0, **fields).config
    kind = config.election_kind()
    assert kind is not None
    return to_seconds(config.worst_case(kind).failover)


def test_all_know_where_the_leader_is_and_the_next_one_after_a_kill() -> None:
    async def main() -> None:
        members = Members()
        try:
            for name in ("a", "b", "c"):  # Each knows those before it: without a membership it must.
                known = [said["addresses"] for said in members.said.values()]
                await members.start(name, {group: [addresses[group] for addresses in known] for group in GROUPS})
            leaders = await members.until_agreed(["a", "b", "c"], 25)
            victim = "a"  # The one that the others had as their seed.
            affected = [group for group, leader in leaders.items() if leader == victim]
            assert len(affected) >= 4, leaders  # The ring goes by keys, and a first election may have taken another.
            killed_at = time.monotonic()
            os.kill(members.processes[victim].pid, signal.SIGKILL)
            rest = [name for name in ("a", "b", "c") if name != victim]
            after = await members.until_agreed(rest, 25)
            for group in affected:
                took = max(members.shown[name, group][0] for name in rest) - killed_at
                # Nine elections at once on one machine: each may have to begin once more.
                assert took < 2 * bound_s(GROUPS[group]), f"{group}: all knew the next leader after {took:.3f} s"
            for group, leader in after.items():
                _, (_, address, meta, since) = members.shown[rest[0], group]
                host, port = meta["url"].removeprefix("tcp://").rsplit(":", 1)
                reader, writer = await asyncio.open_connection(host, int(port))
                assert await reader.read() == leader.encode(), group
                writer.close()
                assert address == members.said[leader]["addresses"][group]
                assert abs(time.time() - since) < 60
        finally:
            await members.stop()

    asyncio.run(main())
