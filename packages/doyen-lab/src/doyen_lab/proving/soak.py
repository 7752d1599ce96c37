"""A large group for a long time, with losses and random kills: nothing may grow, fail unseen or lead falsely."""

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

from msgspec import Struct

from doyen.errors import DoyenError
from doyen.net.keys import key_text, new_key
from doyen_lab.proving.combination import Combination
from doyen_lab.proving.evidence import trouble
from doyen_lab.proving.ground import Ground, NotSettled
from doyen_lab.proving.history import Life
from doyen_lab.proving.judge import Expectation, clipped, judge, together
from doyen_lab.proving.runner import kept
from doyen_lab.switch import Link, Switch

BATCH: Final = 8  # Started at once: more would only wait for each other.
RSS_GROWTH_MAX: Final = 0.05
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
    kill_every_s: float = 15.0,
    seed: int = 1,
    keep: bool = False,
    on_step: Callable[[str], None] = lambda _: None,
) -> Soak:
    folder = Path(tempfile.mkdtemp(prefix="doyen-lab-soak-"))
    combination = Combination(name="hybrid", election="hybrid", preset="lan")
    failure, leader_kills, settled_at, rng = "", 0, 0, Random(seed)
    with Switch(agents, link=Link(loss=loss), seed=seed) as network:
        async with Ground(network, combination, folder) as ground:
            ground.status_every_s = max(0.5, minutes / 4)
            key = key_text(new_key())
            for label in ground.labels:
                ground.write_keys(label, key)
            for i in range(0, agents, BATCH):
                await asyncio.gather(*(ground.start(label) for label in ground.labels[i : i + BATCH]))
                on_step(f"{min(i + BATCH, agents)} of {agents} have joined")
            began_at = time.monotonic_ns()
            end_at = began_at + int(minutes * 60e9)
            try:
                leader = await ground.settled()
                settled_at = time.monotonic_ns()
                on_step(f"{leader} leads")
                while time.monotonic_ns() < end_at:
                    await asyncio.sleep(min(rng.expovariate(1 / kill_every_s), 3 * kill_every_s))
                    victim = leader if rng.random() < 0.5 else rng.choice(ground.labels)
                    leader_kills += victim == leader
                    at = await ground.kill(victim)
                    leader = await ground.succeeded(victim, at) if victim == leader else await ground.settled()
                    await ground.start(victim)
                    leader = await ground.settled()
                    on_step(f"{victim} was killed and is back; {leader} leads; {ground.faults['killed']} kills")
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
        wanted=("killed", "packets lost"),
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
    return Soak(
        agents=agents,
        minutes=minutes,
        loss=loss,
        holds=not violations,
        violations=tuple(violations),
        faults={name: count for name, count in ground.faults.items() if count},
        leader_kills=leader_kills,
        leaders=sum(stretch.last > settled_at for stretch in reigns),
        takeovers_s=tuple(round(takeover, 3) for takeover in ground.takeovers_s),
        together_s=round(together(clipped(reigns, settled_at, ended_at)) / 1e9, 3),
        rss_mb=round(median(sizes) / 1e6, 1) if sizes else 0.0,
        rss_growth_max=round(worst[1], 4),
        rss_lives=len(growths),
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
    length = ended_at - began_at
    warm_until, end_from = began_at + int(WARM * length), ended_at - int(END * length)
    found: dict[str, float] = {}
    sizes: list[int] = []
    for life in lives:
        samples = [(record.at, record.rss) for record in life.records if record.kind == "status"]
        early = [rss for at, rss in samples if warm_until <= at < warm_until + int(END * length)]
        late = [rss for at, rss in samples if end_from <= at]
        if early and late and samples[0][0] < began_at + length // 20:
            found[str(life)] = median(late) / median(early) - 1
            sizes.append(int(median(late)))
    return found, sizes
