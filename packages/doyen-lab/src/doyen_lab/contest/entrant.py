"""One system that takes part: members that lead in turn, and the servers that they need.

Every process has a host, an interface and counters of its own; servers come first, on hosts of their own, so that a
member's host can be cut off without taking a server with it.  A system is told apart by two things: the command that
starts a member, and what the lines that it writes mean.
"""

import asyncio
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar, Self

from doyen.core.clock import Instant
from doyen.errors import TransportError
from doyen.net.driver import boot_time_ns
from doyen.testing.ledger import Ledger
from doyen.testing.processes import Process, Processes
from doyen_lab.netns import Namespace, Network

SETTLED_S = 2.0  # A group is settled once nothing has changed for this time.
NAMED_SHOWN = 3
AT_ONCE = 8  # Processes that are started before the next wait for the machine to breathe.


class Roster:
    """Keeps which members each member holds present or failed, by the members' own lines."""

    def __init__(self) -> None:
        self._present: dict[str, set[str]] = {}
        self._failed_at: dict[str, dict[str, Instant]] = {}  # By the one that failed, by the one that says so.

    def begin(self, by: str) -> None:
        """Note that this member was started, and knows of nobody yet."""
        self._present[by] = {by}
        for knowing in self._failed_at.values():
            knowing.pop(by, None)

    def say(self, by: str, member: str, at: Instant, *, present: bool) -> None:
        held, knowing = self._present.setdefault(by, {by}), self._failed_at.setdefault(member, {})
        if present:
            held.add(member)
            knowing.pop(by, None)
        elif member != by:
            held.discard(member)
            knowing.setdefault(by, at)

    def held_by(self, by: str) -> set[str]:
        """Return the members that `by` holds present, itself included."""
        return self._present.get(by, {by})

    def failed_at(self, member: str) -> dict[str, Instant]:
        """Return when each member that holds this one failed said so first."""
        return self._failed_at.get(member, {})


class Entrant(ABC):
    """Use it as an async context manager, and no process and no namespace is left."""

    servers: ClassVar[tuple[str, ...]] = ()  # The servers' names.
    names_leader: ClassVar[bool] = True  # Whether members that do not lead say who does.
    prefix: ClassVar[str] = "m"

    def __init__(self, label: str, network: Network, folder: Path, *, names: Iterable[str] = ()) -> None:
        self.label, self.network = label, network
        self.names = [*names] or [f"{self.prefix}{i:02}" for i in range(len(network.nodes) - len(self.servers))]
        self.size = len(self.names)
        self.hosts: dict[str, Namespace] = dict(zip([*self.servers, *self.names], network.nodes, strict=True))
        self.folder = folder / f"{label}-{self.size}"
        self.ledger, self.roster = Ledger(), Roster()
        environment = {**os.environ, "DOYEN_RUNTIME_DIR": str(self.folder / "run")}
        self.processes = Processes(self.ledger, environment=environment, patience_s=0)
        self.gone: set[str] = set()  # Members that were killed or cut off.

    async def __aenter__(self) -> Self:
        self.network.__enter__()
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.processes.stop()
        finally:
            self.network.__exit__(None, None, None)

    # What a system is.

    async def start_servers(self) -> None:
        """Start the servers, and wait until they serve."""
        assert not self.servers, f"{self.label} does not say how its servers are started"

    @abstractmethod
    def command(self, name: str) -> list[str]:
        """Return the command that starts that member."""

    @abstractmethod
    def hear(self, name: str, line: str, at: Instant) -> None:
        """Note in ledger and roster what one line of that member's standard output means."""

    async def is_candidate(self, name: str) -> bool:
        """Return whether that member takes part, where that does not show in anybody's lines about the leader."""
        return True

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Keep the ledger up to date meanwhile; a system whose members write nothing is asked for that."""
        yield

    # Processes.

    async def start_process(self, name: str, command: list[str], *, is_heard: bool = True) -> None:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        await self.processes.launch(
            name,
            [*self.hosts[name].wrap, *command],
            on_line=(lambda line, at: self.hear(name, line.decode(errors="replace"), at)) if is_heard else None,
            log=folder / "log",
        )

    async def start_member(self, name: str) -> None:
        self.roster.begin(name)
        self.ledger.say(name, None, 0)
        await self.start_process(name, self.command(name))
        self.gone.discard(name)

    async def form(self, timeout_s: float, unchanged_s: float = 1.0) -> float:
        """Start all; return how long it took from the first member's start until all took part under one leader."""
        began = await self.start_all()
        return (await self.settled(timeout_s, unchanged_s) - began) / 1e9

    async def start_all(self) -> Instant:
        """Start servers and members; return the instant of the first member's start."""
        await self.start_servers()
        began = boot_time_ns()
        for at, name in enumerate(self.names):
            await self.start_member(name)
            if at % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0.2)
        return began

    async def settled(self, timeout_s: float, unchanged_s: float = SETTLED_S) -> Instant:
        """Wait until all members take part under one leader, unchanged; return since when they do."""
        try:
            async with asyncio.timeout(timeout_s), self.watched():
                for name in self.names:
                    while not await self.is_candidate(name):
                        await self._revive(name)
                        await asyncio.sleep(0.02)
                candidates_at = boot_time_ns()
                _, since = await self.ledger.steady(lambda: self.leader(self.names), unchanged_s, timeout_s)
                return since if self.names_leader else max(since, candidates_at)
        except TimeoutError:
            dead = [process for process in self.processes.started.values() if not process.alive]
            why = f"; {dead[0].name} has ended: {dead[0].last_words()}" if dead else ""
            raise TransportError(f"not settled within {timeout_s:g} s: {self.who_names_whom()}{why}") from None

    async def all_hold_all(self, timeout_s: float) -> None:
        """Wait until every member holds every other present."""
        try:
            everybody = {*self.names}
            await self.ledger.until(lambda: all(self.roster.held_by(n) >= everybody for n in self.names), timeout_s)
        except TimeoutError:
            raise TransportError(f"{self.label}: not everybody knew everybody within {timeout_s:g} s") from None

    async def _revive(self, name: str) -> None:
        """Start a member again that ended because it lost what it held, as a service manager would."""
        if not self.process_of(name).alive:
            await self.start_member(name)

    def leader(self, among: Collection[str]) -> tuple[str, Instant] | None:
        """Return the only one of them that acts, and since when; where members name their leader, all must name it."""
        return self.ledger.known(among) if self.names_leader else self.ledger.sole(among)

    def rest(self) -> list[str]:
        """Return the members that are neither killed nor cut off."""
        return [name for name in self.names if name not in self.gone]

    def who_names_whom(self) -> str:
        """Say how many members name whom, the most named first."""
        named = Counter(self.ledger.named_by(name) or "nobody" for name in self.rest())
        few = [f"{count} name {leader}" for leader, count in named.most_common(NAMED_SHOWN)]
        more = f", and {len(named) - NAMED_SHOWN} others are named" if len(named) > NAMED_SHOWN else ""
        return ", ".join(few) + more

    # Faults.

    async def kill(self, name: str) -> Instant:
        """Send SIGKILL; return the instant before it."""
        self.gone.add(name)
        process = self.process_of(name)
        at = process.kill()
        await process.wait()
        self.ledger.say(name, None, boot_time_ns())
        return at

    def cut(self, name: str) -> Instant:
        """Cut its host off silently; return the instant before."""
        self.gone.add(name)
        at = boot_time_ns()
        self.network.cut(self._place(name))
        return at

    def mend(self, name: str) -> None:
        self.network.mend(self._place(name))
        self.gone.discard(name)

    def _place(self, name: str) -> int:
        return len(self.servers) + self.names.index(name)

    # What is measured.

    def process_of(self, name: str) -> Process:
        return self.processes.started[name]

    def entries(self) -> list[tuple[str, int, Namespace]]:
        """Return the name, the id and the host of every process."""
        return [(name, self.process_of(name).pid, host) for name, host in self.hosts.items()]
