"""What is done to a group, by name.  Each scenario breaks something, and waits for what the promise says must come."""

import asyncio
from collections.abc import Awaitable, Callable
from math import sqrt
from typing import Final

from msgspec import Struct

from doyen.core.clock import Duration, ms, seconds
from doyen.net.keys import key_text, new_key
from doyen.net.keywatch import LOOK_EVERY_S
from doyen_lab.proving.ground import Ground
from doyen_lab.proving.judge import CHECKS

Play = Callable[[Ground], Awaitable[None]]


class Scenario(Struct, frozen=True, kw_only=True):
    name: str
    text: str
    play: Play
    faults: tuple[str, ...]  # Each must have happened at least once, or the run proves nothing.
    hosts: int = 5
    delay: Duration = 0  # Of every link, one way.
    fails: bool = False  # A process is meant to stop with a failure, which its log shows.
    preset: str = ""  # Instead of the quick timers.
    combinations: tuple[str, ...] = ("pole", "hybrid", "announce")
    #: The judge must have had these to look at, or the run proves nothing.
    checks: tuple[str, ...] = ("acts", "namings", "quiet regions")

    def __post_init__(self) -> None:
        assert set(self.checks) <= set(CHECKS)


LOSS: Final = 0.3
SUCCEEDED: Final = ("acts", "namings", "quiet regions", "successions")
CUT_OFF: Final = (*SUCCEEDED, "leaders cut off")  # Of a quorum's.
ALL: Final = ("pole", "hybrid", "announce", "ring")
SCENARIOS: Final[dict[str, Scenario]] = {}


def scenario(name: str, text: str, faults: tuple[str, ...], **fields: object) -> Callable[[Play], Play]:
    def keep(play: Play) -> Play:
        SCENARIOS[name] = Scenario(name=name, text=text, play=play, faults=faults, **fields)  # type: ignore[arg-type]
        return play

    return keep


async def hold(seconds: float = 1.0) -> None:
    """So long nothing is done, and nothing should happen."""
    await asyncio.sleep(seconds)


@scenario("kill-leader", "the leader is killed twice, and comes back", ("killed",), combinations=ALL, checks=SUCCEEDED)
async def kill_leader(ground: Ground) -> None:
    await ground.start_all()
    for _ in range(2):
        leader = await ground.settled()
        at = await ground.kill(leader)
        await ground.succeeded(leader, at)
        await hold()
        await ground.start(leader)
        await ground.settled()
        await hold()


@scenario(
    "cut-leader",
    "the leader is cut off silently, and comes back",
    ("packets refused",),
    combinations=ALL,
    checks=CUT_OFF,
)
async def cut_leader(ground: Ground) -> None:
    await ground.start_all()
    leader = await ground.settled()
    at = ground.isolate(leader)
    await ground.succeeded(leader, at)
    await hold(2)
    ground.heal()
    await ground.settled()
    await hold()


@scenario(
    "one-way-cut",
    "the leader is not heard, then does not hear, then both heals",
    ("packets refused",),
    checks=CUT_OFF,
)
async def one_way_cut(ground: Ground) -> None:
    await ground.start_all()
    for hears in (True, False):
        leader = await ground.settled()
        before = ground.refused_of(leader)
        at = ground.mute(leader, hears=hears)
        if ground.combination.multicast and not hears:
            # All hear it, and it need hear nobody: in announce-listen it leads on, whoever comes and speaks to it.
            ground.quiet = False
            newcomer = next(label for label in ground.labels if label != leader)
            await ground.kill(newcomer)
            await ground.start(newcomer)
            ground.quiet = True
            await hold(2)
            ground.check(ground.sole_actor() == leader, f"{leader} was heard by all, and leads no more")
        else:
            await ground.succeeded(leader, at)
        await hold()
        from_it, to_it = (now - then for now, then in zip(ground.refused_of(leader), before, strict=True))
        refused = f"{from_it} packets from it, {to_it} to it"
        ground.check((from_it > 0, to_it > 0) == (hears, not hears), f"{leader} was not cut off one way: {refused}")
        ground.heal()
        await ground.settled()
        await hold()


@scenario(
    "pause-leader",
    "the leader is stopped for longer than its lease, and wakes up believing",
    ("paused",),
    combinations=ALL,
    checks=SUCCEEDED,
)
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
    before = ground.network.traffic()
    ground.lose(LOSS)
    await hold(10)
    ground.lose(0)
    after = ground.network.traffic()
    packets, lost = after.packets - before.packets, after.lost - before.lost
    likely = 4 * sqrt(LOSS * (1 - LOSS) * packets)  # Four standard deviations.
    ground.check(abs(lost - LOSS * packets) <= likely, f"{lost} of {packets} packets were lost, not {LOSS:.0%}")
    await ground.settled()
    await hold()


@scenario(
    "rtt-200",
    "round trips of 200 ms; the leader is killed",
    ("killed", "round trips of 200 ms"),
    delay=ms(100),
    preset="wan",
    combinations=ALL,
    checks=SUCCEEDED,
)
async def slow_links(ground: Ground) -> None:
    ground.faults["round trips of 200 ms"] += ground.round_trip(0, 1) >= ms(200)
    await ground.start_all()
    await ground.settled()
    await hold(3)  # Connections to the leader take some round trips.
    leader = await ground.settled()
    at = await ground.kill(leader)
    await ground.succeeded(leader, at)
    await hold(2)


@scenario(
    "partition",
    "the leader and one more on one side, three on the other; then it heals",
    ("packets refused",),
    checks=CUT_OFF,
)
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


@scenario(
    "rolling-restart",
    "one after the other leaves in order and comes back",
    ("stopped",),
    combinations=ALL,
    checks=SUCCEEDED,
)
async def rolling_restart(ground: Ground) -> None:
    await ground.start_all()
    leader = await ground.settled()
    for label in ground.labels:
        at = await ground.stop(label)
        leader = await ground.succeeded(label, at) if label == leader else await ground.settled()
        await ground.start(label)
        leader = await ground.settled()
    await hold()


@scenario("mass-restart", "all are killed at once, and started again", ("killed",), checks=SUCCEEDED)
async def mass_restart(ground: Ground) -> None:
    await ground.start_all()
    await ground.settled()
    await asyncio.gather(*(ground.kill(label) for label in ground.labels))
    await ground.start_all(first=False)
    await ground.settled()
    await hold()


@scenario(
    "duplicate-name",
    "a second process with the leader's name: on its state directory, then on another host",
    ("started twice",),
    hosts=6,
    fails=True,
)
async def duplicate_name(ground: Ground) -> None:
    spare = ground.labels.pop()
    ground.voters.remove(spare)
    await ground.start_all()
    leader = await ground.settled()
    ground.apart, ground.quiet = {spare}, False  # While two share a name, weak elections promise nothing.
    if ground.durable:
        state = ground.folder / "state" / leader
        await ground.start(spare, name=leader, host=5, state=state, joins=False)
        refusal = await ground.ended(spare)
        ground.check("another process runs as" in refusal, f"two processes used one state directory: {refusal}")
        ground.faults["started twice"] += 1
    elsewhere = ground.folder / "elsewhere" if ground.durable else None
    await ground.start(spare, name=leader, host=5, state=elsewhere)
    ground.faults["started twice"] += 1
    ground.quiet = True
    refusal = await ground.ended(spare)
    ground.check(f"is called '{leader}' too" in refusal, f"the second {leader} ended, but did not say why: {refusal}")
    await ground.settled()
    await hold()


@scenario(
    "stale-key",
    "one member has only a key that the others no longer take; then it gets theirs",
    ("packets of a stale key refused",),
)
async def stale_key(ground: Ground) -> None:
    old, new = key_text(new_key()), key_text(new_key())
    stale, *others = ground.labels
    for label in ground.labels:
        ground.write_keys(label, old if label == stale else new)
    ground.apart = {stale}
    await ground.start_all()
    await ground.settled()
    await hold(2)
    refused = sum(ground.running[label].life.refused.get("key", 0) for label in others)
    ground.faults["packets of a stale key refused"] += refused
    ground.apart = set()
    # A new file is seen at one look, and believed at the next, if it has stood still.
    ground.note("after the stale key was replaced", ground.merging + 2 * seconds(LOOK_EVERY_S))
    ground.write_keys(stale, new)
    await ground.settled()
    await hold()


@scenario(
    "clock-step",
    "clocks days apart; wall clocks set back an hour while they run; the leader restarts with another clock",
    ("clocks askew", "wall clocks set back", "killed"),
    combinations=ALL,
    checks=SUCCEEDED,
)
async def clock_step(ground: Ground) -> None:
    days = [0, 1, 30, 365, 3650]
    founder, *others = (
        ground.start(label, first=True, boot_offset_s=days[i] * 86_400) for i, label in enumerate(ground.labels)
    )
    await founder
    await asyncio.gather(*others)
    ground.faults["clocks askew"] += sum(ground.boot_offset_s(label) > 0 for label in ground.labels)
    leader = await ground.settled()
    for label in ground.labels:
        ground.set_wall_clock_back(label)
    await hold(2)
    ground.faults["wall clocks set back"] += sum(
        record.kind == "stepped" for life in ground.lives for record in life.records
    )
    await ground.settled()
    at = await ground.kill(leader)
    await ground.succeeded(leader, at)
    await ground.start(leader, boot_offset_s=7 * 86_400, wall_offset_s=-7200.0)
    await ground.settled()
    await hold()


@scenario(
    "full-disk",
    "the leader's disk is full when it must promise anew: it stops, and the others go on",
    ("disks filled", "promises refused by the disk"),
    fails=True,
    checks=SUCCEEDED,
)
async def full_disk(ground: Ground) -> None:
    ground.small_disks()
    await ground.start_all()
    leader = await ground.settled()
    ground.fill_disk(leader)
    ground.mute(leader, hears=True)  # The others elect another, and it hears of that: now it must promise.
    why = await ground.ended(leader)
    ground.faults["promises refused by the disk"] += "No space left" in why
    ground.heal()
    await ground.settled()
    ground.free_disk(leader)
    await ground.start(leader)
    await ground.settled()
    await hold()
