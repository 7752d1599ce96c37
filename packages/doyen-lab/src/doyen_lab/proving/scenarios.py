"""The scenarios, by name: each breaks something in a group, and waits for what the promise says must come.

Those that a scenario file of `doyen sim run` can say are such files (`doyen_lab/scenarios`), and run in made-up time
too.  The others are functions here:

    one-way-cut      it also asks that packets were refused one way only, and that who needs no answers leads on
    rtt-200          by the timers of `wan` fixed instants would take minutes; this one goes on as soon as it can
    rolling-restart  in a file, whoever leaves in order stays away
    duplicate-name, stale-key, full-disk, clock-step, replace-voter    there are no such faults in made-up time
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from doyen.core.clock import ms, seconds
from doyen.net.keys import key_text, new_key
from doyen.net.keywatch import LOOK_EVERY_S
from doyen.sim import scenario as files
from doyen_lab.graph import Edge
from doyen_lab.proving import player
from doyen_lab.proving.combination import Combination
from doyen_lab.proving.ground import Ground
from doyen_lab.proving.judge import CHECKS
from doyen_lab.switch import Link

Play = Callable[[Ground], Awaitable[None]]
FOLDER: Final = Path(__file__).parent.parent / "scenarios"
PLAIN: Final = Link()


class Scenario(Struct, frozen=True, kw_only=True):
    name: str
    text: str
    play: Play
    faults: tuple[str, ...]  # Each must have happened at least once, or the run proves nothing.
    hosts: int = 5
    edges: list[Edge] | None = None  # Of the network; None: everybody is everybody's neighbour.
    link: Link = PLAIN  # Every one of them.
    seed: int = 1
    fails: bool = False  # A process is meant to stop with a failure, which its log shows.
    preset: str = ""  # Instead of the quick timers.
    combinations: tuple[str, ...] = ("pole", "hybrid", "announce")
    #: The judge must have had these to look at, or the run proves nothing.
    checks: tuple[str, ...] = ("acts", "namings", "quiet regions")

    def __post_init__(self) -> None:
        assert set(self.checks) <= set(CHECKS)


SUCCEEDED: Final = ("acts", "namings", "quiet regions", "successions")
CUT_OFF: Final = (*SUCCEEDED, "leaders cut off")  # Of a quorum's.
ALL: Final = ("pole", "hybrid", "announce", "ring")
SCENARIOS: Final[dict[str, Scenario]] = {}


def scenario(name: str, text: str, faults: tuple[str, ...], **fields: object) -> Callable[[Play], Play]:
    def keep(play: Play) -> Play:
        SCENARIOS[name] = Scenario(name=name, text=text, play=play, faults=faults, **fields)  # type: ignore[arg-type]
        return play

    return keep


def from_file(path: Path, combination: Combination | None = None) -> tuple[Scenario, Combination]:
    """Return a file as a scenario, and what its nodes are; `combination` says how to elect where the file does not."""
    node = None
    if combination is not None:
        node = {"election": combination.election, "preset": combination.preset, **combination.tables}
    read = files.read_file(path, node)
    player.check_real(read, f"scenario {path}")
    first_line = path.read_text().partition("\n")[0]
    made = Scenario(
        name=path.stem,
        text=first_line.removeprefix("#").strip() if first_line.startswith("#") else str(path),
        play=lambda ground: player.Stage(ground, read, ground.seed).play(),
        faults=player.certain_faults(read),
        hosts=player.host_count(read),
        edges=player.edges_of(read),
        seed=read.run.seed,
        link=player.link_of(read.network),
    )
    return made, combination or player.combination_of(read)


def file(name: str, faults: tuple[str, ...], **fields: object) -> None:
    """Keep one of the lab's own files."""
    path = FOLDER / f"{name}.toml"
    text = path.read_text().partition("\n")[0].removeprefix("# ").rstrip(".")

    async def play(ground: Ground) -> None:
        made, _ = from_file(path, ground.combination)
        await made.play(ground)

    scenario(name, text[0].lower() + text[1:], faults, **fields)(play)


async def hold(seconds: float = 1.0) -> None:
    """Do nothing for this time, in which nothing should happen."""
    await asyncio.sleep(seconds)


file("kill-leader", ("killed",), combinations=ALL, checks=SUCCEEDED)
file("cut-leader", ("packets refused",), combinations=ALL, checks=CUT_OFF)
file("pause-leader", ("paused",), combinations=ALL, checks=SUCCEEDED)
file("loss-30", ("packets lost",))
file("partition", ("packets refused",), checks=CUT_OFF)
file("mass-restart", ("killed",), checks=SUCCEEDED)
file("partial-star", ("packets refused",))
file("partial-chain", ("packets refused",))
file("one-way-star", ("packets refused",))


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
            # All hear it, and it need hear nobody: in announce-listen it leads on.  One that joins now does not believe
            # it, as it cannot echo, and may act; the others follow their leader all the same (decision 86).
            await hold(2)
            ground.check(ground.sole_actor() == leader, f"{leader} was heard by all, and no longer leads")
            ground.quiet = False
            newcomer = next(label for label in ground.labels if label != leader)
            await ground.kill(newcomer)
            await ground.start(newcomer)
            ground.quiet = True
            await hold(2)
            knew = [str(running.life) for label, running in ground.running.items() if label != newcomer]
            found = ground.leader_of(knew)
            ground.check(
                found is not None and found.label == leader,
                f"{leader} was heard by those who knew it, and is not named",
            )
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
    "rtt-200",
    "round trips of 200 ms; the leader is killed",
    ("killed", "round trips of 200 ms"),
    link=Link(delay=ms(100)),
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
        await ground.launch(spare, name=leader, host=5, state=state)
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
    ground.disks.free(leader)
    await ground.start(leader)
    await ground.settled()
    await hold()


@scenario(
    "replace-voter",
    "a voter is killed for good, another votes in its place, the leader is killed: the new one makes the majority",
    ("killed", "voters replaced"),
    hosts=4,
    combinations=("pole",),
    checks=SUCCEEDED,
)
async def replace_voter(ground: Ground) -> None:
    spare = ground.labels[-1]
    ground.voters.remove(spare)
    ground.fields["control"] = True
    await ground.start_all()
    leader = await ground.settled()
    gone = next(label for label in ground.voters if label != leader)
    await ground.kill(gone)
    await ground.settled()
    said = await ground.command_on(leader, "voters", "replace", gone, spare)
    ground.check("1 more may fail" in said or "0 more may fail" in said, f"doyen voters replace: {said}")
    ground.voters = [spare if label == gone else label for label in ground.voters]
    ground.faults["voters replaced"] += spare in said
    at = await ground.kill(leader)
    await ground.succeeded(leader, at)
    await hold()
