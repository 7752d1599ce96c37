"""A large group for long, with losses, kills, restarts, changes of addresses and of keys: nothing may grow or fail."""

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

from msgspec import Struct

from doyen.errors import DoyenError
from doyen_lab.proving.combination import Combination
from doyen_lab.proving.evidence import trouble
from doyen_lab.proving.ground import Ground, NotSettled
from doyen_lab.proving.history import Life, Record
from doyen_lab.proving.judge import Expectation, clipped, judge, together
from doyen_lab.proving.runner import kept
from doyen_lab.proving.upheavals import FAULTS, Upheavals
from doyen_lab.switch import Link, Switch

BATCH: Final = 8  # Started at once: more would only wait for each other.
RSS_GROWTH_MAX: Final = 0.05
COUNT_GROWTH_MAX: Final = 2  # Descriptors and tasks, by their least count in a window: a leak raises that.
WARM: Final = 0.3  # Of the run: what a process needs it has by then.
END: Final = 0.15  # Of the run: what it needs in the end.


class Soak(Struct, frozen=True, kw_only=True):
    """The outcome of a long run."""

    agents: int
    minutes: float
    loss: float
    holds: bool
    violations: tuple[str, ...]
    faults: dict[str, int]
    leader_kills: int
    leaders: int  # Reigns, since all had joined and agreed for the first time.
    takeovers_s: tuple[float, ...]
    together_s: float  # Two acting at once since then, all in all.
    rss_mb: float  # Median of the agents that lived through all of it, at the end.
    rss_growth_max: float  # Of any of them, from the end of its warming up: a part.
    rss_lives: int  # The number of agents that lived through all of it.
    descriptors: int  # Of these agents, at the end: the most that one has at least.
    descriptors_growth: int  # The most that one of them has more than after its warming up.
    tasks: int
    tasks_growth: int
    decisions: int  # Told by agents,
    unexplained: int  # of these without a reason.
    lateness_ms: float
    seed: int
    histories: str = ""


async def soak(
    agents: int,
    minutes: float,
    *,
    loss: float = 0.05,
    fault_every_s: float = 10.0,
    seed: int = 1,
    keep: bool = False,
    on_step: Callable[[str], None] = lambda _: None,
) -> Soak:
    folder = Path(tempfile.mkdtemp(prefix="doyen-lab-soak-"))
    combination = Combination(name="hybrid", election="hybrid", preset="lan")
    failure, settled_at, rng = "", 0, Random(seed)
    with Switch(agents, link=Link(loss=loss), seed=seed) as network:
        async with Ground(network, combination, folder) as ground:
            ground.status_every_s = min(5.0, max(0.5, minutes / 4))
            upheavals = Upheavals(ground, rng)
            for i in range(0, agents, BATCH):
                await asyncio.gather(*(ground.start(label) for label in ground.labels[i : i + BATCH]))
                on_step(f"{min(i + BATCH, agents)} of {agents} have joined")
            began_at = time.monotonic_ns()
            end_at = began_at + int(minutes * 60e9)
            try:
                upheavals.leader = await ground.settled()
                settled_at = time.monotonic_ns()
                on_step(f"{upheavals.leader} leads")
                while time.monotonic_ns() < end_at:
                    await asyncio.sleep(min(rng.expovariate(1 / fault_every_s), 3 * fault_every_s))
                    happened = await upheavals.next()
                    on_step(f"{(time.monotonic_ns() - began_at) / 1e9:.0f} s: {happened}; {upheavals.leader} leads")
            except (NotSettled, DoyenError, TimeoutError) as error:
                failure = str(error) or type(error).__name__
            ended_at = time.monotonic_ns()
            ground.faults["packets lost"] = network.traffic().lost
    verdict = judge(
        ground.lives,
        ground.truths,
        Expectation(strong=False, voter_count=agents),
        ended_at=ended_at,
        faults=ground.faults,
        wanted=FAULTS,
    )
    reigns = [stretch for life in ground.lives for stretch in life.stretches()]
    told, silent = decisions(ground.lives)
    growths, sizes = growth(ground.lives, began_at, ended_at)
    violations = [failure] if failure else []
    violations += [*ground.violations, *verdict.violations, *trouble(folder)]
    violations += [f"{silent} decisions were told without a reason"] if silent else []
    worst = max(growths.items(), key=lambda item: item[1], default=("nobody", 0.0))
    if worst[1] > RSS_GROWTH_MAX:
        violations.append(f"{worst[0]} grew by {worst[1]:.1%}")
    counts = {what: count_growth(ground.lives, what, began_at, ended_at) for what in ("descriptors", "tasks")}
    for what, found in counts.items():
        grown = [
            f"{life} has {now - before} {what} more, {now}"
            for life, (before, now) in found.items()
            if now - before > COUNT_GROWTH_MAX
        ]
        violations += grown
    if not growths or not all(counts.values()):
        violations.append("no agent lived through all of it: nothing was measured")
    return Soak(
        agents=agents,
        minutes=minutes,
        loss=loss,
        holds=not violations,
        violations=tuple(violations),
        faults={name: count for name, count in ground.faults.items() if count},
        leader_kills=upheavals.leader_kills,
        leaders=sum(stretch.last > settled_at for stretch in reigns),
        takeovers_s=tuple(round(takeover, 3) for takeover in ground.takeovers_s),
        together_s=round(together(clipped(reigns, settled_at, ended_at)) / 1e9, 3),
        rss_mb=round(median(sizes) / 1e6, 1) if sizes else 0.0,
        rss_growth_max=round(worst[1], 4),
        rss_lives=len(growths),
        descriptors=max((now for _, now in counts["descriptors"].values()), default=0),
        descriptors_growth=max((now - before for before, now in counts["descriptors"].values()), default=0),
        tasks=max((now for _, now in counts["tasks"].values()), default=0),
        tasks_growth=max((now - before for before, now in counts["tasks"].values()), default=0),
        decisions=told,
        unexplained=silent,
        lateness_ms=round(ground.lateness / 1e6, 1),
        seed=seed,
        histories=kept(folder, keep or bool(violations)),
    )


def decisions(lives: Sequence[Life]) -> tuple[int, int]:
    """Return how many elections, losses and stops the agents reported, and how many of them without a reason."""
    told = [record for life in lives for record in life.records if record.kind in ("elected", "lost", "stop")]
    return len(told), sum(not record.reason for record in told)


def growth(lives: Sequence[Life], began_at: int, ended_at: int) -> tuple[dict[str, float], list[int]]:
    """Return by how much each life that lasted throughout grew, by medians of two windows, and its size at the end."""
    found: dict[str, float] = {}
    sizes: list[int] = []
    for life, early, late in windows(lives, began_at, ended_at):
        end = median(record.rss for record in late)
        found[str(life)] = end / median(record.rss for record in early) - 1
        sizes.append(int(end))
    return found, sizes


def count_growth(lives: Sequence[Life], what: str, began_at: int, ended_at: int) -> dict[str, tuple[int, int]]:
    """Return the least count of each life that lasted throughout, after its warming up and at the end, unless it led.

    A leader has connections that others do not have, and some are on their way: so the least of a window counts.
    """
    found: dict[str, tuple[int, int]] = {}
    for life, *both in windows(lives, began_at, ended_at):
        early, late = ([getattr(record, what) for record in window if not record.leads] for window in both)
        if early and late:
            found[str(life)] = min(early), min(late)
    return found


def windows(lives: Sequence[Life], began_at: int, ended_at: int) -> Iterator[tuple[Life, list[Record], list[Record]]]:
    """Yield each life that lasted throughout, with what it said of itself after its warming up, and at the end."""
    length = ended_at - began_at
    warm_until, end_from = began_at + int(WARM * length), ended_at - int(END * length)
    for life in lives:
        told = [record for record in life.records if record.kind == "status"]
        early = [record for record in told if warm_until <= record.at < warm_until + int(END * length)]
        late = [record for record in told if end_from <= record.at]
        if early and late and told[0].at < began_at + length // 20:
            yield life, early, late
