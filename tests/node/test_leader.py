"""Find the leader: who it is, where it is, what it says, since when; wait for it, and for members; see every change."""

import asyncio
import json
import time
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any

import pytest

import doyen
from doyen.errors import LocalProtocolError
from doyen.node.shown import differ


def node(name: str, *seeds: str, **fields: Any) -> doyen.Node:
    given = {
        "preset": "local",
        "leave_on_sigterm": False,
        "find_local": False,
        "meta": {"url": f"http://{name}/"},
    } | fields
    return doyen.join("find", name=name, seeds=seeds, **given)


async def all_show(nodes: list[doyen.Node], election: str = "") -> doyen.LeaderInfo:
    """Wait until all show the same of one leader, and return it."""
    async with asyncio.timeout(20):
        while True:
            found = [one.leader if not election else one.election(election).leader for one in nodes]
            first = found[0]
            if first is not None and first.meta and all(info == first for info in found):
                return first
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "fields",
    [
        {"election": "hybrid"},
        {"election": "announce", "membership": "none"},
        {"election": "announce", "membership": "swim"},
        {"election": "spanning"},
        {"election": "pole", "voters": ["a", "b", "c"], "volatile": True, "newcomer": True},
        {"election": "pole", "voters": ["a", "b", "c"], "volatile": True, "newcomer": True, "membership": "none"},
        {"election": "by-key", "membership": "ring"},
    ],
    ids=lambda fields: f"{fields['election']}+{fields.get('membership', 'auto')}",
)
def test_all_know_the_leader_and_the_next_one(fields: dict[str, Any]) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(node("a", elections={"mail": "announce"}, **fields))
            nodes = [first]
            for name in ("b", "c"):
                seeds = [one.address for one in nodes]
                nodes.append(
                    await stack.enter_async_context(node(name, *seeds, elections={"mail": "announce"}, **fields))
                )
            by_name = {one.name: one for one in nodes}
            before = time.time()
            for election in ("", "mail"):
                info = await all_show(nodes, election)
                assert (info.address, info.meta) == (by_name[info.name].address, {"url": f"http://{info.name}/"})
                assert before - 20 < info.since < time.time()
            leader = by_name[(await all_show(nodes)).name]
            await leader.tell({"url": "elsewhere"})
            async with asyncio.timeout(10):
                while not all(one.leader and one.leader.meta == {"url": "elsewhere"} for one in nodes):
                    await asyncio.sleep(0.01)
            await leader.leave()
            rest = [one for one in nodes if one is not leader]
            async with asyncio.timeout(20):
                while (info := await all_show(rest)).name == leader.name:
                    await asyncio.sleep(0.01)
            assert (info.address, info.meta["url"]) == (by_name[info.name].address, f"http://{info.name}/")

    asyncio.run(main())


def test_waiting_for_a_leader_gives_one_that_has_said_what_it_is() -> None:
    async def main() -> None:
        async with node("a", election="announce", membership="none") as first:
            with pytest.raises(TimeoutError, match=r"nobody leads after 0\.001 s"):
                await first.wait_for_leader(0.001)
            await first.wait_for_leader("10s")
            async with node("b", first.address, election="announce", membership="none") as second:
                info = await second.wait_for_leader(timeout=10)
                assert info.meta == {"url": f"http://{info.name}/"}
                with pytest.raises(LocalProtocolError, match="membership='swim'"):
                    await second.wait_for_members(2)

    asyncio.run(main())


def test_waiting_for_members_counts_the_present_and_says_who_came() -> None:
    async def main() -> None:
        async with node("a") as first:
            assert [member.name for member in await first.wait_for_members(1)] == ["a"]
            with pytest.raises(TimeoutError, match=r"1 of 2 members present after 0\.05 s: a"):
                await first.wait_for_members(2, timeout="50ms")
            waiting = asyncio.create_task(first.wait_for_members(2, timeout="10s"))
            async with node("b", first.address):
                assert [member.name for member in await waiting] == ["a", "b"]
            lost = asyncio.create_task(first.wait_for_members(5))
            await asyncio.sleep(0)
            await first.leave()
            with pytest.raises(LocalProtocolError, match="has left"):
                await lost

    asyncio.run(main())


def test_views_begin_with_now_and_end_with_the_node() -> None:
    async def main() -> None:
        seen: list[doyen.View] = []

        async def read(one: doyen.Node) -> None:
            async for view in one.views():
                seen.append(view)

        async with node("a") as first:
            reading = asyncio.create_task(read(first))
            await asyncio.sleep(0)
            assert [member.name for member in seen[0].members] == ["a"]
            await first.wait_for_leader("10s")
            async with node("b", first.address) as second:
                await first.wait_for_members(2, "10s")
                info = await all_show([first, second])
            async with asyncio.timeout(10):
                while any(member.state == "alive" for member in seen[-1].members if member.name == "b"):
                    await asyncio.sleep(0.01)
            assert any(view.leader == info and len(view.members) == 2 for view in seen)
            assert all(differ(before, after) for before, after in pairwise(seen))
        async with asyncio.timeout(5):
            await reading

    asyncio.run(main())


def test_events_begin_with_what_holds() -> None:
    async def main() -> None:
        async with node("a", elections=["mail"]) as first, node("b", first.address, elections=["mail"]) as second:
            await all_show([first, second])
            await all_show([first, second], "mail")
            await first.wait_for_members(2, "10s")
            begun = []
            async with asyncio.timeout(10):
                async for event in first.events():
                    if not event.already:
                        break
                    if event.kind != "waiting":  # The first act may still wait for calm.
                        begun.append(event)
                    if len(begun) == 4:
                        await second.leave()
            assert [(event.kind, event.member, event.state) for event in begun[:2]] == [
                ("joined", "a", "alive"),
                ("joined", "b", "alive"),
            ]
            assert [(event.kind, event.election) for event in begun[2:]] == [("elected", ""), ("elected", "mail")]
            leaders = {one.name: one.address for one in (first, second)}
            assert all(event.address == leaders[event.leader or ""] and event.term for event in begun[2:])
            assert all(time.time() - 60 < event.at <= time.time() for event in begun)

    asyncio.run(main())


def test_threads_wait_and_see_the_same() -> None:
    with doyen.sync.join("find", name="a", preset="local", find_local=False, meta={"url": "u"}) as first:
        leader = first.wait_for_leader("10s")
        assert (leader.name, leader.meta, leader.address) == ("a", {"url": "u"}, first.address)
        assert [member.name for member in first.wait_for_members(1, timeout=1)] == ["a"]
        view = next(first.views())
        assert view.leader == leader and [member.name for member in view.members] == ["a"]
        events = first.events()
        assert [next(events).kind for _ in range(2)] == ["joined", "elected"]
        with pytest.raises(TimeoutError):
            first.wait_for_members(2, timeout=0.05)


def test_http_and_control_say_what_python_says() -> None:
    async def get(url: str, path: str) -> Any:
        host, port = url.removeprefix("http://").rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        return json.loads(answer.partition(b"\r\n\r\n")[2])

    async def main() -> None:
        async with node("a", http="127.0.0.1:0") as first, node("b", first.address) as second:
            await first.wait_for_members(2, "10s")
            info = await all_show([first, second])
            url = first.agent.attached.http.url
            told = await get(url, "/leader")
            assert (told["leader"], told["address"], told["meta"]) == (info.name, info.address, info.meta)
            assert (told["term"], told["since"]) == (info.term, info.since)
            page = {member["name"]: member for member in (await get(url, "/members"))["members"]}
            for member in first.members():
                shown = page[member.name]
                assert set(member.__struct_fields__) < set(shown)
                for field in ("address", "state", "score", "meta", "software", "eligible", "health", "me", "leads"):
                    assert shown[field] == getattr(member, field), field
                assert shown["status"] == member.state and shown["suspicion_count"] == 0

    asyncio.run(main())
