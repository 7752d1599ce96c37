"""One contest: systems of one size side by side, left alone and counted, then robbed of their leaders again and again.

All systems are up at the same time, on bridges of their own; they share the machine and its noise.  Nobody is asked
anything while bytes are counted.  Faults come to each system one after the other, to different systems at once: some
need a minute to recover.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from statistics import median

from doyen.errors import TransportError
from doyen.lab.beside import Fault, Process, process
from doyen.lab.contest.figures import Figures, Idle, Loss, Takeovers
from doyen.lab.contest.group import Group
from doyen.lab.usage import Meter
from doyen.net.driver import boot_time_ns

PATIENCE_S = 120.0  # For a takeover, and for a group to settle.
STEADY_S = 1.0  # A takeover counts if the heir goes on to act alone for so long.
MORE_MULT = 3  # Quick systems are robbed of up to so many times as many leaders.
PAUSE_MAX_S = 1.0  # Faults come at any phase of heartbeats.
SAMPLE_S = 5.0


async def measure(
    groups: Sequence[Group],
    *,
    warm_up_s: float,
    idle_s: float,
    kills: int,
    cuts: int,
    more_s: float,  # Faults of one kind go on beyond those asked for while they have taken less than this.
    seed: int,
    on_step: Callable[[str], None] = lambda text: None,
) -> list[Figures]:
    began_at = boot_time_ns()
    formed: dict[str, float] = {}
    for group in groups:
        formed[group.label] = await group.form(PATIENCE_S)
        on_step(
            f"{group.label} N={group.size}: {len(group.processes())} processes, formed in {formed[group.label]:.1f} s"
        )
    await asyncio.sleep(warm_up_s)
    for group in groups:
        await group.settled(PATIENCE_S)
    on_step(f"counting for {idle_s:g} s")
    meters = [_meter(group, began_at) for group in groups]
    loop = asyncio.get_running_loop()
    began = loop.time()
    for step in range(1, max(1, round(idle_s / SAMPLE_S)) + 1):
        await asyncio.sleep(max(0.0, began + min(step * SAMPLE_S, idle_s) - loop.time()))
        for meter in meters:
            meter.sample()
    idle = [Idle.of(meter.samples, idle_s) for meter in meters]
    processes = [[process(group.label, *entry) for entry in group.processes()] for group in groups]
    check_distinct([entry for entries in processes for entry in entries])
    lost = await asyncio.gather(
        *(
            lose_leaders(group, {"kill": kills, "cut": cuts}, more_s, Random(f"{seed} {group.label}"), on_step)
            for group in groups
        )
    )
    return [
        Figures(
            system=group.label,
            nodes=group.size,
            servers=group.server_count,
            formed_s=formed[group.label],
            idle=quiet,
            kill=Takeovers.of([loss for loss in losses if loss.fault == "kill"]),
            cut=Takeovers.of([loss for loss in losses if loss.fault == "cut"]),
            join_s=_median([loss.join_s for loss in losses if loss.join_s is not None]),
            losses=losses,
            processes=entries,
            stopped=stopped,
        )
        for group, quiet, entries, (losses, stopped) in zip(groups, idle, processes, lost, strict=True)
    ]


def check_distinct(processes: Sequence[Process]) -> None:
    """No two processes share an id, a namespace or an address on the same bridge; or nothing here means anything."""
    for field in ("pid", "namespace", "namespace_inode"):
        if len({getattr(entry, field) for entry in processes}) < len(processes):
            raise TransportError(f"two processes have one {field}: the counters would be of both")


async def lose_leaders(
    group: Group, wanted: dict[Fault, int], more_s: float, rng: Random, on_step: Callable[[str], None]
) -> tuple[list[Loss], str]:
    """What happened, and why it ended early if it did."""
    found: list[Loss] = []
    loop = asyncio.get_running_loop()
    for fault, count in wanted.items():
        began, done = loop.time(), 0
        while done < count or (done < count * MORE_MULT and loop.time() - began < more_s):
            try:
                await group.settled(PATIENCE_S)
            except TransportError as error:
                on_step(f"{group.label} N={group.size}: {error}")
                return found, str(error)
            await asyncio.sleep(rng.random() * PAUSE_MAX_S)
            loss = await lose_leader(group, fault)
            found.append(loss)
            done += 1
            on_step(f"{group.label} N={group.size}, {fault} {done}: {_shown(loss)}")
    return found, ""


async def lose_leader(group: Group, fault: Fault) -> Loss:
    """The group must be settled.  Afterwards the lost one is back on its way."""
    acting = group.leader(group.names)
    assert acting is not None, "a settled group has a leader"
    leader, pid = acting[0], group.members[acting[0]].pid
    at = await group.kill(leader) if fault == "kill" else group.cut(leader)
    rest, ledger = group.rest(), group.ledger
    heir: str | None = None
    acts_s = known_s = join_s = None
    with suppress(TimeoutError):  # Then it never happened.
        heir, since = await ledger.steady(lambda: ledger.sole(rest), STEADY_S, PATIENCE_S)
        acts_s = (since - at) / 1e9
        if group.names_leader:
            _, since = await ledger.steady(lambda: ledger.known(rest), STEADY_S, PATIENCE_S)
            known_s = (since - at) / 1e9
    if fault == "kill":
        began = boot_time_ns()
        await group.start_member(leader)
        with suppress(TransportError):  # The next fault finds the group unsettled, and says so.
            join_s = (await group.settled(PATIENCE_S, unchanged_s=STEADY_S) - began) / 1e9
    else:
        group.mend(leader)
    return Loss(fault=fault, member=leader, pid=pid, heir=heir, acts_s=acts_s, known_s=known_s, join_s=join_s)


def _meter(group: Group, began_at: int) -> Meter:
    entries = group.processes()
    return Meter([pid for _, pid, _ in entries], [host.interface for _, _, host in entries], began_at)


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _shown(loss: Loss) -> str:
    if loss.acts_s is None:
        return "nobody acts in its place"
    known = "" if loss.known_s is None else f", all know after {loss.known_s:.2f} s"
    join = "" if loss.join_s is None else f", back in {loss.join_s:.2f} s"
    return f"{loss.heir} acts after {loss.acts_s:.2f} s{known}{join}"
