"""Wills under kills: of runner, guard, shadow, command and stray any are killed, in any order.

No second command starts before the first has stopped; and where the runner was killed and the shadow, which keeps its
will, was not, the next command acts soon after the last act of the first, long before the lease would have ended.
"""

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Final

from doyen_lab.lateness import Lateness
from doyen_lab.proving import beater
from doyen_lab.proving.evidence import hosts_of
from doyen_lab.proving.judge import LENIENCY_MAX, STEPS
from doyen_lab.proving.runner import Result, kept
from doyen_lab.proving.singleton import POLL_S, Beats, Runners, judge_commands, nothing_ran, parent_of
from doyen_lab.switch import Switch

WILL: Final = "will"
HOSTS: Final = 3
LEASE: Final = "2s"
GRACE: Final = "100ms"  # Commands mind no SIGTERM: they have this long once their runner is gone.
PARTS: Final = ("runner", "guard", "shadow", "command", "child", "stray")
WATCHERS: Final = {"runner", "guard", "shadow"}
FREE_S: Final = 2.1  # A voter that has come back is bound for a guard, and without it the others are no majority.
BOUND_S: Final = 0.3  # From the last act to the next command's first, at the 95th percentile.
PATIENCE_S: Final = 30.0
BEQUEATHED, OTHERWISE = "runner killed, will kept", "other parts killed"
FAULTS: Final = (BEQUEATHED, OTHERWISE)


def order_of(sort: str, rng: Random) -> tuple[str, ...]:
    """Return parts in the order in which they are killed: any that end a command.

    Runner, guard and shadow are killed together only if all else is: nobody would be left to end it (decision 95).
    """
    while True:
        order = tuple(rng.sample(PARTS, rng.randint(1, len(PARTS))))
        bequeathed = "runner" in order and "shadow" not in order
        ends = bool({"runner", "guard", "command"} & set(order))
        if ends and bequeathed == (sort == BEQUEATHED) and (not WATCHERS <= set(order) or len(order) == len(PARTS)):
            return order


async def prove_will(
    kills: int,
    *,
    seed: int = 1,
    keep: bool = False,
    html: Path | None = None,
    doyen: Sequence[str] = (sys.executable, "-m", "doyen"),
    flags: Sequence[str] = (),
    on_step: Callable[[str], None] = lambda _: None,
) -> Result:
    folder = Path(tempfile.mkdtemp(prefix="doyen-lab-will-"))
    began, rng = time.monotonic(), Random(seed)
    faults: Counter[str] = Counter()
    gaps: dict[str, list[float]] = {BEQUEATHED: [], OTHERWISE: []}
    late: list[int] = []
    violations: list[str] = []
    with before_all_others() as real_time, Switch(HOSTS, seed=seed) as network:
        runners = Runners(network, folder, doyen, LEASE, grace=GRACE, flags=flags, records=html is not None)
        try:
            async with Lateness() as control:
                for host in runners.hosts:
                    await runners.start(host, first=True)
                current = await runners.next_command(0, 60)
                number = 0
                while current is not None and sum(faults.values()) < kills and number < 2 * kills + 10:
                    sort = FAULTS[number % 2]
                    order = order_of(sort, rng)
                    number += 1
                    await all_are_free(runners, rng)
                    await control.worst()
                    if not await kill(order, current, runners, rng):
                        current = await runners.next_command(current.begun_at - 1, PATIENCE_S)
                        continue
                    successor = await next_without_restarts(runners, current)
                    if successor is None:
                        fault = f"{current.label}: {', '.join(order)} killed"
                        violations.append(nothing_ran(PATIENCE_S, fault, folder))
                        break
                    late.append((await control.p99_and_worst())[0])
                    faults[sort] += 1
                    gaps[sort].append(gap_s(runners, current, successor))
                    on_step(f"{gaps[sort][-1]:.3f} s after {', '.join(order)}")
                    current = successor
                    if number % 10 == 0:
                        on_step(f"{number} kills; {shown(gaps[BEQUEATHED])} where the will was kept")
        finally:
            await runners.processes.stop()
            violations += [f"{name} outlived its runner" for name in runners.end_survivors()]
        found, wrong = hosts_of(network, runners.pids)
        violations += wrong
    runners.look()
    for life in runners.lives.values():
        life.read()
    violations += judge_commands(list(runners.lives.values()))
    seen_s, wrong = (None, []) if html is None else runners.postmortem(html, WILL)
    violations += wrong
    violations += [f"the fault never happened: {fault}" for fault in FAULTS if not faults[fault]]
    lateness_s = sorted(late)[len(late) // 2] / 1e9 if late else 0.0
    bound_s = BOUND_S + min(STEPS * lateness_s, LENIENCY_MAX * BOUND_S)
    if gaps[BEQUEATHED] and percentile(gaps[BEQUEATHED], 0.95) > bound_s:
        violations.append(f"wills: {shown(gaps[BEQUEATHED])}, bound {bound_s:.3f} s: {sorted(gaps[BEQUEATHED])[-5:]}")
    records = [record for life in runners.lives.values() for record in life.records]
    return Result(
        scenario=WILL,
        election="pole",
        promise="quorum",
        holds=not violations,
        violations=tuple(violations),
        faults=dict(faults) | {"commands started": sum(life.label in runners.hosts for life in runners.lives.values())},
        takeovers_s=tuple(round(gap, 3) for gap in (*gaps[BEQUEATHED], *gaps[OTHERWISE])),
        together_s=0.0,
        acts=sum(record.kind == "act" for record in records),
        terms=len({record.term for record in records}),
        seconds=round(time.monotonic() - began, 1),
        checked={"acts": len(records), "wills": len(gaps[BEQUEATHED]), "real-time": int(real_time)}  # Decision 97.
        | in_ms(gaps[BEQUEATHED]),
        hosts=found,
        lateness_ms=round(lateness_s * 1e3, 1),
        seed=seed,
        postmortem="" if html is None else str(html),
        postmortem_s=seen_s,
        histories=kept(folder, keep or bool(violations)),
    )


@contextmanager
def before_all_others() -> Iterator[bool]:
    """Have this process, and those that it starts, run before all else on the machine; yield whether that is permitted.

    Most of the time that is measured is the start of three processes, which wait for what else is busy (decision 97).
    """
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        yield os.sched_getscheduler(0) == os.SCHED_RR
    finally:
        os.sched_setscheduler(0, policy, parameters)


async def kill(order: Sequence[str], current: Beats, runners: Runners, rng: Random) -> bool:
    """Kill these parts of a command in that order; return whether it ran when the first was killed."""
    guard = next((int(record.reason) for record in current.records if record.kind == "begin"), 0)
    try:
        shadow, runner = parent_of(guard), runners.runner(current.label).pid
        runners.look()
        begun = {life.label.partition("-")[2] or "command": life.pid for life in family(runners, current)}
        if parent_of(shadow) != runner or beater.identity(current.pid) != current.name or len(begun) < 3:
            return False
    except (ProcessLookupError, FileNotFoundError):
        return False
    pids = {"runner": runner, "guard": guard, "shadow": shadow, **begun}
    for number, part in enumerate(order):
        if number:
            await asyncio.sleep(rng.choice((0.0, 0.001, 0.005, 0.02)))
        if part == "runner":
            runners.runner(current.label).kill()
        elif beater.identity(pids[part]):  # Else it ended with what was killed before.
            os.kill(pids[part], signal.SIGKILL)
    return True


async def next_without_restarts(runners: Runners, current: Beats) -> Beats | None:
    """Wait for the next command; one that is killed comes back only then, else it would be heard before its will."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        found = runners.acting()
        if found is not None and found.begun_at > current.begun_at:
            return found
        await asyncio.sleep(POLL_S)
    return None


async def restart_the_dead(runners: Runners) -> None:
    """Start again what was killed, and wait until it has joined."""
    dead = {host: log_of(runners, host) for host in runners.hosts if not runners.runner(host).alive}
    await runners.restart_the_dead()
    until = time.monotonic() + PATIENCE_S
    while any("preset" not in log_of(runners, host)[len(log) :] for host, log in dead.items()):
        if time.monotonic() > until:
            return  # The judge will see that nothing runs.
        await asyncio.sleep(POLL_S)


async def all_are_free(runners: Runners, rng: Random) -> None:
    """Wait until every runner is there, also those that ended by themselves, and may grant what it is asked for."""
    await restart_the_dead(runners)
    await asyncio.sleep(FREE_S + rng.uniform(0, 0.3))
    while not all(runners.runner(host).alive for host in runners.hosts):
        await restart_the_dead(runners)
        await asyncio.sleep(FREE_S)


def log_of(runners: Runners, host: str) -> str:
    return (runners.folder / f"{host}.log").read_text()


def family(runners: Runners, command: Beats) -> list[Beats]:
    return [life for life in runners.lives.values() if life.command == command.command]


def gap_s(runners: Runners, first: Beats, second: Beats) -> float:
    """Return the time from the last act of one command, its child or its stray to the first of another."""
    for life in (*family(runners, first), second):
        life.read()
    last = max(life.acted_at for life in family(runners, first))
    return (next(record.at for record in second.records if record.kind == "act") - last) / 1e9


def percentile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def in_ms(gaps: Sequence[float]) -> dict[str, int]:
    return {f"p{part}_ms": round(1e3 * percentile(gaps, part / 100)) for part in (50, 95)} if gaps else {}


def shown(gaps: Sequence[float]) -> str:
    if not gaps:
        return "none yet"
    return f"p50 {percentile(gaps, 0.5):.3f} s, p95 {percentile(gaps, 0.95):.3f} s of {len(gaps)}"
