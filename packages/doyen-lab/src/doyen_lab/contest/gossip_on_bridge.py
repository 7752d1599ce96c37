"""`doyen bench serf --nodes`: the default stack with a key beside serf, on bridges, in one run.

    count     what both send and burn while nothing happens
    members   that do not lead are killed and cut off: how long until all others know
    leaders   are killed and cut off: how long until exactly one other acts

All groups of one size are up at the same time and share the machine and its noise; faults come in turn.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from msgspec import Struct

from doyen.errors import TransportError
from doyen.net.driver import boot_time_ns
from doyen_lab.contest.entrant import Entrant
from doyen_lab.contest.figures import Fault, Idle, MeasuredProcess, median_of
from doyen_lab.contest.peers import Loss
from doyen_lab.contest.trial import Detected, Trial, count_all, phase, rob_in_turn

PATIENCE_S = 120.0
SAMPLE_S = 5.0
PAUSE_MAX_S = 4.0  # Faults come at any phase of heartbeats.
BYTES_AIM = 0.5  # Ours by serf's.
CUT_AIM_S, KILL_AIM_S = 3.5, 0.3  # The median time without a leader,
KILL_AIM_TO = 16  # the second in groups of up to this many.


class Group(Struct, frozen=True, kw_only=True):
    """One system at one size: medians are of all faults of a kind; None: nobody knew, or took over."""

    idle: Idle
    members: list[Detected]
    leaders: list[Loss]
    member_kill_s: float | None  # Until the last of the others knew.
    member_cut_s: float | None
    leader_kill_s: float | None  # Until exactly one other acted.
    leader_cut_s: float | None
    never: int

    @classmethod
    def of(cls, idle: Idle, members: Sequence[Detected | None], leaders: Sequence[Loss | None]) -> "Group":
        known = [found for found in members if found is not None]
        lost = [found for found in leaders if found is not None]

        def member_s(fault: Fault) -> float | None:
            return median_of([found.last_s for found in known if found.fault == fault])

        def leader_s(fault: Fault) -> float | None:
            return median_of([found.acts_s for found in lost if found.fault == fault and found.acts_s is not None])

        taken_over = sum(found.acts_s is not None for found in lost)
        return cls(
            idle=idle,
            members=known,
            leaders=lost,
            member_kill_s=member_s("kill"),
            member_cut_s=member_s("cut"),
            leader_kill_s=leader_s("kill"),
            leader_cut_s=leader_s("cut"),
            never=len(members) - len(known) + len(leaders) - taken_over,
        )


class Aim(Struct, frozen=True, kw_only=True):
    what: str
    value: float | None
    most: float | None
    holds: bool


class AtSize(Struct, frozen=True, kw_only=True):
    nodes: int
    processes: list[MeasuredProcess]
    doyen: Group
    serf: Group
    aims: list[Aim]


class OnBridge(Struct, frozen=True, kw_only=True):
    sizes: list[AtSize]
    holds: bool


async def measure(
    ours: Entrant,
    theirs: Entrant,
    *,
    warm_up_s: float,
    seconds: float,
    faults: int,
    seed: int,
    on_step: Callable[[str], None] = lambda text: None,
) -> AtSize:
    began_at, rng = boot_time_ns(), Random(seed)
    trials = [Trial(entrant, patience_s=PATIENCE_S) for entrant in (ours, theirs)]
    for trial in trials:
        await trial.entrant.form(PATIENCE_S)
        await trial.entrant.all_hold_all(PATIENCE_S)
    on_step(f"{ours.size} of each started; warming up for {warm_up_s:g} s")
    await asyncio.sleep(warm_up_s)
    for trial in trials:
        trial.begin_counting(began_at)
    on_step(f"counting for {seconds:g} s")
    await count_all(trials, seconds, min(SAMPLE_S, seconds))
    idle = {trial.entrant.label: Idle.of(trial.samples, seconds) for trial in trials}
    for trial in trials:
        trial.look()
    pauses, first = iter(range(10**6)), rng.random()

    async def pause() -> None:
        await asyncio.sleep(phase(next(pauses), first) * PAUSE_MAX_S)

    async def lose_member(trial: Trial, fault: Fault) -> tuple[Detected | None, str]:
        try:
            await pause()
            found = await trial.lose_member(fault, rng)
        except TransportError as error:
            return None, str(error)
        return found, f"a member: first {found.first_s:.2f} s, last {found.last_s:.2f} s"

    async def lose_leader(trial: Trial, fault: Fault) -> tuple[Loss | None, str]:
        try:
            await trial.settled()
            await pause()
            loss = Loss.of(await trial.lose_leader(fault))
        except TransportError as error:
            return None, str(error)
        return loss, f"the leader: {'never' if loss.acts_s is None else f'{loss.acts_s:.2f} s'}"

    members = await rob_in_turn(trials, faults, lose_member, on_step)
    leaders = await rob_in_turn(trials, faults, lose_leader, on_step)
    mine, other = (
        Group.of(
            idle[name],
            [found for fault in members[name].values() for found in fault],
            [found for fault in leaders[name].values() for found in fault],
        )
        for name in (ours.label, theirs.label)
    )
    return AtSize(
        nodes=ours.size,
        processes=[process for trial in trials for process in trial.processes],
        doyen=mine,
        serf=other,
        aims=aims(mine, other, ours.size) if faults else [_bytes(mine, other)],
    )


def aims(mine: Group, other: Group, size: int) -> list[Aim]:
    """Hold ours against serf, and against the times that it is to keep."""
    return [
        _bytes(mine, other),
        _aim("killed member known to all, s", mine.member_kill_s, other.member_kill_s),
        _aim("cut-off member known to all, s", mine.member_cut_s, other.member_cut_s),
        _aim(
            "killed leader replaced, s", mine.leader_kill_s, KILL_AIM_S if size <= KILL_AIM_TO else other.leader_kill_s
        ),
        _aim("cut-off leader replaced, s", mine.leader_cut_s, CUT_AIM_S),
        _aim("faults nobody knew of", float(mine.never), 0.0),
    ]


def _bytes(mine: Group, other: Group) -> Aim:
    return _aim("bytes by serf's", mine.idle.bytes_per_s.mean / other.idle.bytes_per_s.mean, BYTES_AIM)


def _aim(what: str, value: float | None, most: float | None) -> Aim:
    return Aim(what=what, value=value, most=most, holds=value is not None and most is not None and value <= most)
