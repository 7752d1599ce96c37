"""What is done to a group, by name.  Each scenario breaks something, and waits for what the promise says must come."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from doyen.core.clock import Duration, ms
from doyen.lab.proving.ground import Ground

Play = Callable[[Ground], Awaitable[None]]


class Scenario(Struct, frozen=True, kw_only=True):
    name: str
    text: str
    play: Play
    faults: tuple[str, ...]  # Each must have happened at least once, or the run proves nothing.
    hosts: int = 5
    delay: Duration = 0  # Of every link, one way.
    preset: str = ""  # Instead of the quick timers.
    combinations: tuple[str, ...] = ("pole", "hybrid", "announce")
    needs: str = ""  # What it makes of the group before it starts: keys, disk.


SCENARIOS: Final[dict[str, Scenario]] = {}


def scenario(name: str, text: str, faults: tuple[str, ...], **fields: object) -> Callable[[Play], Play]:
    def keep(play: Play) -> Play:
        SCENARIOS[name] = Scenario(name=name, text=text, play=play, faults=faults, **fields)  # type: ignore[arg-type]
        return play

    return keep


async def hold(seconds: float = 1.0) -> None:
    """So long nothing is done, and nothing should happen."""
    await asyncio.sleep(seconds)


@scenario("kill-leader", "the leader is killed twice, and comes back", ("killed",))
async def kill_leader(ground: Ground) -> None:
    await ground.start_all()
    for _ in range(2):
        leader = await ground.settled()
        at = ground.kill(leader)
        await ground.succeeded(leader, at)
        await hold()
        await ground.start(leader)
        await ground.settled()
        await hold()


@scenario("cut-leader", "the leader is cut off silently, and comes back", ("packets refused",))
async def cut_leader(ground: Ground) -> None:
    await ground.start_all()
    leader = await ground.settled()
    at = ground.isolate(leader)
    await ground.succeeded(leader, at)
    await hold(2)
    ground.heal()
    await ground.settled()
    await hold()


@scenario("one-way-cut", "the leader is not heard, then does not hear, then both heals", ("packets refused",))
async def one_way_cut(ground: Ground) -> None:
    await ground.start_all()
    for hears in (True, False):
        leader = await ground.settled()
        at = ground.mute(leader, hears=hears)
        await ground.succeeded(leader, at)
        await hold()
        ground.heal()
        await ground.settled()
        await hold()


@scenario("pause-leader", "the leader is stopped for longer than its lease, and wakes up believing", ("paused",))
async def pause_leader(ground: Ground) -> None:
    await ground.start_all()
    for _ in range(2):
        leader = await ground.settled()
        at = ground.pause(leader)
        await ground.succeeded(leader, at)
        await hold(0.5)
        ground.resume(leader)
        await hold(0.5)
        await ground.settled()
        await hold(0.5)


@scenario("loss-30", "three packets of ten are lost for ten seconds", ("packets lost",))
async def loss(ground: Ground) -> None:
    await ground.start_all()
    await ground.settled()
    ground.lose(0.3)
    await hold(10)
    ground.lose(0)
    await ground.settled()
    await hold()


@scenario(
    "rtt-200",
    "round trips of 200 ms; the leader is killed",
    ("killed", "round trips of 200 ms"),
    delay=ms(100),
    preset="wan",
)
async def slow_links(ground: Ground) -> None:
    ground.faults["round trips of 200 ms"] += ground.round_trip(0, 1) >= ms(200)
    await ground.start_all()
    leader = await ground.settled()
    at = ground.kill(leader)
    await ground.succeeded(leader, at)
    await hold(2)


@scenario("partition", "the leader and one more on one side, three on the other; then it heals", ("packets refused",))
async def partition(ground: Ground) -> None:
    await ground.start_all()
    leader = await ground.settled()
    companion = next(label for label in ground.labels if label != leader)
    other = next(label for label in ground.labels if label not in (leader, companion))
    at = ground.isolate(leader, companion)
    await ground.succeeded(leader, at, among=other)
    if not ground.combination.strong:
        await ground.settled(among=companion)
    await hold(2)
    ground.heal()
    await ground.settled()
    await hold()


@scenario("rolling-restart", "one after the other leaves in order and comes back", ("stopped",))
async def rolling_restart(ground: Ground) -> None:
    await ground.start_all()
    leader = await ground.settled()
    for label in ground.labels:
        at = await ground.stop(label)
        leader = await ground.succeeded(label, at) if label == leader else await ground.settled()
        await ground.start(label)
        leader = await ground.settled()
    await hold()


@scenario("mass-restart", "all are killed at once, and started again", ("killed",))
async def mass_restart(ground: Ground) -> None:
    await ground.start_all()
    await ground.settled()
    for label in ground.labels:
        ground.kill(label)
    await ground.start_all(first=False)
    await ground.settled()
    await hold()
