"""Every leader that is named is named for a reason: in the log, with the term, and with what was compared."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from doyen.node.events import Event
from doyen.node.layers import by_path, configure
from doyen.node.node import Node

pytestmark = pytest.mark.live
NAMES = ("ant", "bee", "cat")


def told_by_a_group(runtime: Path, **fields: Any) -> dict[str, list[Event]]:
    """What each of three told until all name one leader, that one left, and the others name the next."""
    lines: dict[str, list[Event]] = {name: [] for name in NAMES}

    async def agree(nodes: dict[str, Node]) -> str:
        async with asyncio.timeout(30):
            while True:
                named = {node.leader and node.leader.name for node in nodes.values()}
                terms = {None if node.term is None else node.term.leader for node in nodes.values()}
                here = [sum(m.state == "alive" for m in n.members()) for n in nodes.values() if n.agent.stack.view]
                if (
                    len(named) == 1
                    and set(here) <= {len(nodes)}
                    and None not in named
                    and named == terms
                    and named <= set(nodes)
                ):
                    return str(named.pop())
                await asyncio.sleep(0.02)

    async def main() -> None:
        async with AsyncExitStack() as stack:
            nodes: dict[str, Node] = {}
            for rank, name in enumerate(NAMES):
                seeds = tuple(node.address for node in nodes.values())
                given = {"group": "why", "name": name, "preset": "local", "seeds": seeds, "standing": float(rank)}
                config = configure(by_path(given | fields), environment={})
                node = Node(config, leave_on_sigterm=False)
                node.listeners.append(lines[name].append)
                nodes[name] = await stack.enter_async_context(node)
            first = await agree(nodes)
            await nodes.pop(first).leave()
            await agree(nodes)

    asyncio.run(main())
    return lines


@pytest.mark.parametrize("election", ["announce", "hybrid", "local", "spanning", "by-key", "pole"])
def test_whoever_decided_says_what_was_compared(election: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path))
    more = {"voters": NAMES, "volatile": True} if election == "pole" else {}
    lines = told_by_a_group(tmp_path, election=election, **more)
    elected = [line for told in lines.values() for line in told if line.kind == "elected"]
    lost = [line for told in lines.values() for line in told if line.kind == "lost"]
    assert elected and lost
    for line in elected + lost:
        assert line.reason and line.term, line
    reigns = {(line.term, line.leader) for line in elected}
    assert len(reigns) >= 2
    for reign in reigns:
        decided = [line for line in elected if (line.term, line.leader) == reign and line.leader in line.compared]
        if election == "by-key":
            assert "left" in {line.state for told in lines.values() for line in told}, "it said farewell"
            mine = [line for name, told in lines.items() for line in told if line.leader == name]
            assert any("closest to the key" in line.reason for line in mine)
        else:
            assert decided, (reign, elected)
    if election in ("announce", "spanning"):
        for line in elected:
            known = {name: float(value) for name, value in line.compared.items()}
            assert known[str(line.leader)] == max(known.values())


def test_explain_says_whose_word_it_is_and_what_was_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path))

    async def main() -> None:
        config = configure(
            by_path({"group": "why", "name": "ant", "preset": "local", "election": "announce", "standing": 3.5}),
            environment={},
        )
        async with Node(config, leave_on_sigterm=False) as node:
            async with asyncio.timeout(20):
                while node.leader is None or node.leader.name != "ant":
                    await asyncio.sleep(0.02)
            told = node.explain()
            words = dict(told.lines)
            assert told.compared == {"ant": "3.5"}
            assert words["decided"] == "greatest standing of those heard (ant 3.5)"
            assert words["seen"].startswith("by ant alone, since it started")
            assert told.history[-1].text == "ant leads, term 1: greatest standing of those heard (ant 3.5)"
            account = node.agent.stack.reigns[""].account
            account.candidates, account.initiator = ("ant", "bee"), "ant"
            assert dict(node.explain().lines)["candidates"] == "ant · bee"
            account.initiator = "bee"  # Answers that came late to an election of this node, which bee's overtook.
            assert "candidates" not in dict(node.explain().lines)

    asyncio.run(main())
