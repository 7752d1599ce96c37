"""Recordings for tests: groups of recorded agents, and files that were changed afterwards."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from net_nodes import leave, until

from doyen.core.clock import ms
from doyen.core.leadership import LeaderElected
from doyen.core.link import LinkBroken
from doyen.core.rank import ScoreGiven
from doyen.election.announce.config import AnnounceConfig
from doyen.membership.swim.config import SwimConfig
from doyen.net.recording.format import FRAME_BYTES, MAGIC, Header, Input, encode, frame
from doyen.net.recording.reader import Reader, segments
from doyen.net.recording.replay import Replayed
from doyen.net.recording.replay import replay as replay_with
from doyen.node.agent import Agent
from doyen.node.config import NodeConfig
from doyen.node.rebuilt import Rebuilt
from doyen.node.registry import find_election

QUICK: Any = {
    "announce": AnnounceConfig(announce_interval=ms(30), listen_timeout=ms(120), suppress_interval=ms(20)),
    "swim": SwimConfig(period=ms(50), ack_timeout=ms(20)),
}
VOTERS: dict[str, Any] = {"election": "pole", "voters": ("ant",), "volatile": True}


def replay(path: Path) -> Replayed:
    """Run a segment on the machines that its configuration makes."""
    return replay_with(path, Rebuilt)


def read(path: Path) -> tuple[Header, list[Input]]:
    """Return the header and the inputs of a segment."""
    with Reader(path) as reader:
        for _ in reader.state():
            pass
        return reader.header, list(reader.inputs())


def bodies_of(path: Path) -> list[bytes]:
    """Return the frames of a segment."""
    data, found = path.read_bytes()[len(MAGIC) :], []
    while data:
        end = FRAME_BYTES + int.from_bytes(data[:4], "big")
        found.append(data[FRAME_BYTES:end])
        data = data[end:]
    return found


def write(path: Path, bodies: list[bytes]) -> Path:
    """Write a segment of these frames, with checksums that are right."""
    path.write_bytes(MAGIC + b"".join(map(frame, bodies)))
    return path


def rewritten(path: Path, change: Callable[[list[Input]], None]) -> Path:
    """Return a copy of a segment, with its inputs changed."""
    header, items = read(path)
    assert header.state is None
    change(items)
    return write(path.with_name("bent"), [encode(part) for part in (header, *items)])


def config(folder: Path, name: str = "ant", **given: Any) -> NodeConfig:
    """Return the configuration of a recorded node."""
    return NodeConfig(
        group="recorded", name=name, record=str(folder / name), **{"election": "announce", "tables": QUICK} | given
    )


def solo(folder: Path, *, lasting_s: float = 0.4, **given: Any) -> Path:
    """Record one node that leads alone, and is told things by its observer while facts are carried."""

    async def main() -> None:
        agent = Agent(config(folder, **given))
        elected: list[Any] = []

        def observe(channel: str, fact: Any, now: int) -> None:
            if isinstance(fact, LeaderElected):
                elected.append(fact)
                agent.driver.tell(ScoreGiven(0, 7))
                agent.driver.tell(LinkBroken(fact.term.leader, agent.driver.incarnation))

        agent.driver.watch(observe)
        await agent.start()
        await until(lambda: bool(elected))
        await asyncio.sleep(lasting_s)
        await leave(agent)

    asyncio.run(main())
    return folder / "ant"


def group(folder: Path, *, count: int = 3, late: str = "", **given: Any) -> list[Path]:
    """Record a group that elects and loses its leader; `late` is an election that begins later on its first node."""

    async def main() -> None:
        made: list[Agent] = []
        for i in range(count):
            seeds = tuple(str(agent.driver.transport.address) for agent in made)
            made.append(Agent(config(folder, f"n{i}", seeds=seeds, standing=i, **given)))
            await made[-1].start()
        leaders = lambda: {agent.reign.leader for agent in made if agent.reign is not None}  # noqa: E731
        await until(lambda: len(leaders()) == 1 and None not in leaders(), 20)
        if late:
            made[0].add_election("late", find_election(late))
        await asyncio.sleep(0.3)
        gone = next((agent for agent in made[1:] if agent.name in leaders()), made[-1])
        made.remove(gone)
        await leave(gone)
        await asyncio.sleep(0.5)
        for agent in made:
            agent.driver.tell(ScoreGiven(0, 5))
            await leave(agent)

    asyncio.run(main())
    return [segment for i in range(count) for segment in segments(folder / f"n{i}")]
