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

from doyen.core.clock import Instant
from doyen.errors import TransportError
from doyen.net.driver import boot_time_ns
from doyen_lab.beside import Fault, Process, process
from doyen_lab.contest.figures import Absent, Figures, Idle, Loss, Takeovers
from doyen_lab.contest.group import Group
from doyen_lab.usage import Meter

PATIENCE_S = 120.0  # For a takeover, and for a group to settle.
STEADY_S = 1.0  # A takeover counts if the heir goes on to act alone for so long.
MORE_MULT = 3  # Quick systems are robbed of up to so many times as many leaders.
PAUSE_MAX_S = 4.0  # Faults come at any phase of heartbeats: ours every 1.25 s, serf's every second, kazoo's every 3.3.
GOLDEN = (5**0.5 - 1) / 2  # Multiples of it are spread evenly over phases, however few there are.
SAMPLE_S = 5.0


class Trial:
    """One system, from its start to its last fault; `why` it went no further, if it did not."""

    def __init__(self, group: Group, on_step: Callable[[str], None]) -> None:
        self.group, self._on_step = group, on_step
        self.formed_s = 0.0
        self.meter: Meter | None = None
        self.processes: list[Process] = []
        self.losses: list[Loss] = []
        self.why = ""

    def step(self, text: str) -> None:
        self._on_step(f"{self.group.label} N={self.group.size}: {text}")

    def give_up(self, error: TransportError) -> None:
        self.why = str(error)
        self.step(self.why)

    async def form(self) -> None:
        try:
            self.formed_s = await self.group.form(PATIENCE_S)
        except TransportError as error:
            self.give_up(error)
            await self.group.stop()
        else:
            self.step(f"{len(self.group.processes())} processes, formed in {self.formed_s:.1f} s")

    async def begin_counting(self, began_at: Instant) -> None:
        try:
            await self.group.settled(PATIENCE_S)
            entries = self.group.processes()
            self.meter = Meter([pid for _, pid, _ in entries], [host.interface for _, _, host in entries], began_at)
        except TransportError as error:
            self.give_up(error)

    def count(self) -> None:
        try:
            if self.meter is not None:
                self.meter.sample()
        except TransportError as error:
            self.meter = None
            self.give_up(error)

    def look(self) -> None:
        """Who was counted."""
        if self.meter is not None:
            self.processes = [process(self.group.label, *entry) for entry in self.group.processes()]

    async def lose_leaders(self, wanted: dict[Fault, int], more_s: float, rng: Random) -> None:
        if self.meter is None:
            return
        loop = asyncio.get_running_loop()
        for fault, count in wanted.items():
            began, done, phase = loop.time(), 0, rng.random()
            while done < count or (done < count * MORE_MULT and loop.time() - began < more_s):
                try:
                    await self.group.settled(PATIENCE_S)
                except TransportError as error:
                    self.give_up(error)
                    return
                await asyncio.sleep((phase + done * GOLDEN) % 1 * PAUSE_MAX_S)
                loss = await lose_leader(self.group, fault)
                self.losses.append(loss)
                done += 1
                self.step(f"{fault} {done}: {_shown(loss)}")

    def result(self, idle_s: float) -> Figures | Absent:
        group, losses = self.group, self.losses
        if self.meter is None:
            return Absent(system=group.label, nodes=group.size, why=self.why)
        joins = [loss.join_s for loss in losses if loss.join_s is not None]
        return Figures(
            system=group.label,
            nodes=group.size,
            servers=group.server_count,
            formed_s=self.formed_s,
            idle=Idle.of(self.meter.samples, idle_s),
            kill=Takeovers.of([loss for loss in losses if loss.fault == "kill"]),
            cut=Takeovers.of([loss for loss in losses if loss.fault == "cut"]),
            join_s=median(joins) if joins else None,
            losses=losses,
            processes=self.processes,
            stopped=self.why,
        )


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
) -> list[Figures | Absent]:
    began_at = boot_time_ns()
    trials = [Trial(group, on_step) for group in groups]
    for trial in trials:
        await trial.form()
    trials_up = [trial for trial in trials if not trial.why]
    await asyncio.sleep(warm_up_s)
    for trial in trials_up:
        await trial.begin_counting(began_at)
    on_step(f"counting for {idle_s:g} s")
    loop = asyncio.get_running_loop()
    began = loop.time()
    for step in range(1, max(1, round(idle_s / SAMPLE_S)) + 1):
        await asyncio.sleep(max(0.0, began + min(step * SAMPLE_S, idle_s) - loop.time()))
        for trial in trials_up:
            trial.count()
    for trial in trials_up:
        trial.look()
    check_distinct([entry for trial in trials_up for entry in trial.processes])
    wanted: dict[Fault, int] = {"kill": kills, "cut": cuts}
    async with asyncio.TaskGroup() as tasks:
        for trial in trials_up:
            rng = Random(f"{seed} {trial.group.label} {trial.group.size}")
            tasks.create_task(trial.lose_leaders(wanted, more_s, rng))
    return [trial.result(idle_s) for trial in trials]


def check_distinct(processes: Sequence[Process]) -> None:
    """No two processes share an id, a namespace or an address on the same bridge; or nothing here means anything."""
    for field in ("pid", "namespace", "namespace_inode"):
        if len({getattr(entry, field) for entry in processes}) < len(processes):
            raise TransportError(f"two processes have one {field}: the counters would be of both")


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


def _shown(loss: Loss) -> str:
    if loss.acts_s is None:
        return "nobody acts in its place"
    known = "" if loss.known_s is None else f", all know after {loss.known_s:.2f} s"
    join = "" if loss.join_s is None else f", back in {loss.join_s:.2f} s"
    return f"{loss.heir} acts after {loss.acts_s:.2f} s{known}{join}"
