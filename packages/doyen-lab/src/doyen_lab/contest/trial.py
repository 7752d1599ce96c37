"""One system in a comparison, from its start to its last fault: the same course for every bench.

    form      all processes of all systems are started, and settle
    count     they are left alone, and what they send, burn and hold is sampled; nobody is asked anything meanwhile
    lose      a leader, or a member that does not lead, is killed or cut off silently, and comes back

Faults come at instants that are spread evenly over the phases of heartbeats.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TypeVar

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.errors import TransportError
from doyen.net.driver import boot_time_ns
from doyen_lab.contest.entrant import SETTLED_S, Entrant
from doyen_lab.contest.figures import FAULTS, Fault, IdleOnMesh, MeasuredProcess
from doyen_lab.mesh import Mesh
from doyen_lab.netns import Namespace
from doyen_lab.usage import Meter, Sample, Usage

T = TypeVar("T")
STEADY_S = 1.0  # A takeover counts if the heir goes on for this time.
GOLDEN = (5**0.5 - 1) / 2  # Multiples of it are spread evenly over phases, however few there are.


class Lost(Struct, kw_only=True):
    """One leader lost, and what came of it."""

    fault: Fault
    member: str
    pid: int
    at: Instant  # Just before the fault.
    heir: str | None = None
    acts_at: Instant | None = None  # Since when exactly one other acts, and went on to; None: never.
    known: str | None = None  # Whom all others name in the end, where members say so,
    known_at: Instant | None = None  # since when.
    restarted_at: Instant = 0
    settled_at: Instant | None = None  # Since when all take part under one leader again.

    def after_s(self, at: Instant | None) -> float | None:
        """Return the seconds from the fault to that instant."""
        return None if at is None else (at - self.at) / 1e9


class Detected(Struct, frozen=True):
    """One member lost: when the first and when the last of the others knew."""

    fault: Fault
    member: str
    first_s: float
    last_s: float


class Trial:
    """One entrant, and what was measured of it; `why` says why it went no further, if it did not."""

    def __init__(
        self,
        entrant: Entrant,
        *,
        patience_s: float,  # For a takeover, and for a group to settle.
        settled_s: float = SETTLED_S,
        steady_s: float = STEADY_S,
        on_step: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.entrant, self._on_step = entrant, on_step
        self.patience_s, self.settled_s, self.steady_s = patience_s, settled_s, steady_s
        self.formed_s = 0.0
        self.meter: Meter | None = None
        self.processes: list[MeasuredProcess] = []
        self.why = ""

    def step(self, text: str) -> None:
        self._on_step(text)

    def give_up(self, error: TransportError) -> None:
        self.why = str(error)
        self.step(self.why)

    async def settled(self) -> Instant:
        return await self.entrant.settled(self.patience_s, self.settled_s)

    # Counting.

    def begin_counting(self, began_at: Instant) -> None:
        entries = self.entrant.entries()
        self.meter = Meter([pid for _, pid, _ in entries], [host.interface for _, _, host in entries], began_at)

    def sample(self) -> None:
        try:
            if self.meter is not None:
                self.meter.sample()
        except TransportError as error:
            self.meter = None
            self.give_up(error)

    @property
    def samples(self) -> list[Sample]:
        return [] if self.meter is None else self.meter.samples

    def look(self) -> None:
        """Note which processes were counted."""
        if self.meter is not None:
            self.processes = [measured_process(self.entrant, *entry) for entry in self.entrant.entries()]

    # Faults.

    async def lose_leader(self, fault: Fault) -> Lost:
        """Take the leader from a settled group and bring it back; raise TransportError if there is none to take."""
        entrant, steady_s, patience_s = self.entrant, self.steady_s, self.patience_s
        acting = entrant.leader(entrant.names)
        if acting is None:
            raise TransportError(f"nobody leads: {entrant.who_names_whom()}")
        leader, pid = acting[0], entrant.process_of(acting[0]).pid
        async with entrant.watched():
            at = await entrant.kill(leader) if fault == "kill" else entrant.cut(leader)
            lost = Lost(fault=fault, member=leader, pid=pid, at=at)
            rest, ledger = entrant.rest(), entrant.ledger
            with suppress(TimeoutError):  # Then it never happened.
                lost.heir, lost.acts_at = await ledger.steady(lambda: ledger.sole(rest), steady_s, patience_s)
                if entrant.names_leader:
                    lost.known, lost.known_at = await ledger.steady(lambda: ledger.known(rest), steady_s, patience_s)
        lost.restarted_at = await self._bring_back(leader, fault)
        with suppress(TransportError):  # The next fault finds the group unsettled, and says so.
            lost.settled_at = await entrant.settled(patience_s, steady_s)
        return lost

    async def lose_member(self, fault: Fault, rng: Random) -> Detected:
        """Take a member that does not lead, and bring it back; raise TransportError if not all others notice."""
        entrant, roster = self.entrant, self.entrant.roster
        acting = entrant.leader(entrant.names)
        name = rng.choice([name for name in entrant.names[1:-1] if not acting or name != acting[0]])  # Seeds stay.
        at = await entrant.kill(name) if fault == "kill" else entrant.cut(name)
        others = {*entrant.rest()}
        try:
            await entrant.ledger.until(lambda: others <= roster.failed_at(name).keys(), self.patience_s)
            known = [roster.failed_at(name)[other] for other in others]
            await self._bring_back(name, fault)
            await entrant.ledger.until(lambda: not roster.failed_at(name), self.patience_s)
        except TimeoutError:
            raise TransportError(f"not all know that {name} has failed, or is back") from None
        await self.settled()
        return Detected(fault, name, (min(known) - at) / 1e9, (max(known) - at) / 1e9)

    async def _bring_back(self, name: str, fault: Fault) -> Instant:
        began = boot_time_ns()
        if fault == "kill":
            await self.entrant.start_member(name)
        else:
            self.entrant.mend(name)
        return began


async def count_all(trials: Sequence[Trial], seconds: float, every_s: float) -> None:
    """Sample all of them for `seconds`."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for step in range(1, max(1, round(seconds / every_s)) + 1):
        await asyncio.sleep(max(0.0, began + min(step * every_s, seconds) - loop.time()))
        for trial in trials:
            trial.sample()


async def count_on_mesh(mesh: Mesh, trials: Sequence[Trial], seconds: float, every_s: float) -> dict[str, IdleOnMesh]:
    """Sample all of them for `seconds`; return the cost of each while nothing happened, that on the links included."""
    hops = {trial.entrant.label: mesh.hop_counters(trial.entrant.label) for trial in trials}
    sampled = {trial.entrant.label: len(trial.samples) for trial in trials}
    await count_all(trials, seconds, every_s)
    found = {}
    for trial in trials:
        name = trial.entrant.label
        moved = mesh.hop_counters(name).since(hops[name])
        found[name] = IdleOnMesh.on_links(trial.samples[sampled[name] :], seconds, moved)
    return found


async def rob_in_turn(
    trials: Sequence[Trial],
    count: int,
    rob: Callable[[Trial, Fault], Awaitable[tuple[T, str]]],  # What came of one fault, and the same in words.
    on_step: Callable[[str], None],
    faults: Sequence[Fault] = FAULTS,
) -> dict[str, dict[Fault, list[T]]]:
    """Do every fault to every system in turn, `count` times; return what came of it, by system and fault."""
    found: dict[str, dict[Fault, list[T]]] = {trial.entrant.label: {"kill": [], "cut": []} for trial in trials}
    for number in range(count):
        for fault in faults:
            for trial in trials:
                name = trial.entrant.label
                came, shown = await rob(trial, fault)
                found[name][fault].append(came)
                on_step(f"{fault} {number + 1} of {count}, {name}: {shown}")
    return found


def phase(number: int, first: float) -> float:
    """Return the phase, from 0 to 1, of the fault of that number; `first` is that of the first."""
    return (first + number * GOLDEN) % 1


def check_distinct(processes: Sequence[MeasuredProcess]) -> None:
    """Refuse processes that share an id or a namespace: their counters would be of both."""
    for field in ("pid", "namespace", "namespace_inode"):
        if len({getattr(entry, field) for entry in processes}) < len(processes):
            raise TransportError(f"two processes have one {field}: the counters would be of both")


def measured_process(entrant: Entrant, name: str, pid: int, host: Namespace) -> MeasuredProcess:
    return MeasuredProcess(
        system=entrant.label,
        name=name,
        pid=pid,
        namespace=host.name,
        namespace_inode=os.stat(f"/proc/{pid}/ns/net").st_ino,
        interface=host.interface,
        address=host.ipv4,
        counters=Usage.of(pid, host.interface).counters,
    )


async def with_groups(
    make: Callable[[Path], Sequence[Entrant]], measure: Callable[[Sequence[Entrant]], Awaitable[T]]
) -> T:
    """Make groups that keep their files in a folder of their own, and measure them while they are there."""
    with TemporaryDirectory(prefix="doyen-bench-") as folder:
        async with AsyncExitStack() as stack:
            groups = make(Path(folder))
            for group in groups:
                await stack.enter_async_context(group)
            return await measure(groups)
