"""A group that runs without a key gets its first, as the how-to says, and loses no member on the way."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import doyen
from doyen.net.keys import CLEAR, new_key, write_keys
from doyen.net.keywatch import watch_key_file

pytestmark = pytest.mark.live
NAMES = ("ant", "bee", "cat")


async def until_all(nodes: dict[str, doyen.Node], wanted: set[str]) -> None:
    async with asyncio.timeout(30):
        while any({m.name for m in node.members() if m.state == "alive"} != wanted for node in nodes.values()):
            await asyncio.sleep(0.02)


def test_the_first_key_of_a_running_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setitem(watch_key_file.__kwdefaults__ or {}, "every_s", 0.05)
    key, lost = new_key(), []

    async def watch(node: doyen.Node) -> None:
        async for event in node.events():
            if event.kind in ("failed", "left", "forgotten"):
                lost.append((node.name, event))

    async def main() -> None:
        async with AsyncExitStack() as stack:
            nodes: dict[str, doyen.Node] = {}

            async def enter(name: str, file: Path | None) -> doyen.Node:
                seeds = [node.address for node in nodes.values()]
                made = doyen.join("first", name=name, bind="127.0.0.1:0", seeds=seeds, key=file)
                nodes[name] = await stack.enter_async_context(made)
                return nodes[name]

            for name in NAMES:
                await enter(name, None)
            await until_all(nodes, set(NAMES))
            for name in NAMES:  # One by one: a restart with a file in which "clear" comes first.
                await nodes.pop(name).leave()
                write_keys(tmp_path / name, [CLEAR, key])
                await enter(name, tmp_path / name)
                await until_all(nodes, set(NAMES))
            watching = [asyncio.create_task(watch(node)) for node in nodes.values()]
            for keys in ([key, CLEAR], [key]):
                for name in NAMES:
                    write_keys(tmp_path / name, keys)
                    seal = nodes[name].agent.driver.seal
                    assert seal is not None
                    async with asyncio.timeout(10):
                        while list(seal.keyring.keys) != keys:
                            await asyncio.sleep(0.01)
                    heard = {name: node.agent.driver.received_count for name, node in nodes.items()}
                    async with asyncio.timeout(30):  # Everybody goes on hearing, whichever half has changed.
                        while any(nodes[name].agent.driver.received_count < heard[name] + 3 for name in NAMES):
                            await asyncio.sleep(0.02)
            await until_all(nodes, set(NAMES))
            stranger = await enter("dog", None)
            async with asyncio.timeout(30):
                while not all(nodes[name].agent.driver.refused["clear"] for name in NAMES):
                    await asyncio.sleep(0.02)
            assert [member.name for member in stranger.members()] == ["dog"]
            assert {m.name for m in nodes["ant"].members() if m.state == "alive"} == set(NAMES)
            for task in watching:
                task.cancel()

    asyncio.run(main())
    assert lost == []
