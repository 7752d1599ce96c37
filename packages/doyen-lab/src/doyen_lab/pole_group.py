"""A POLE group of real processes, and a witness of all that its leaders do."""

import asyncio
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import msgspec
from msgspec import Struct

from doyen.core.clock import Instant
from doyen.core.ids import Address, NodeId
from doyen.election.pole import PoleConfig
from doyen.errors import TransportError
from doyen.net.driver import boot_time_ns
from doyen_lab.pole_node import Plan, PoleTold
from doyen_lab.pole_witness import FirstAct, Seen

PATIENCE_S = 20.0


class Place(Struct, frozen=True):
    """Where a voter runs: its address, and what goes before its command (`ip netns exec …`)."""

    address: Address
    wrap: tuple[str, ...] = ()


class Voter(Struct):
    process: asyncio.subprocess.Process
    leader: str | None = None
    term: int = 0
    rtt: dict[str, float] = {}
    started: bool = False

    @property
    def alive(self) -> bool:
        return self.process.returncode is None


class PoleGroup:
    """Use it as an async context manager, and nothing is left behind."""

    def __init__(self, places: Mapping[str, Place], config: PoleConfig, **of_plan: Any) -> None:
        self.places, self.config, self._of_plan = dict(places), config, of_plan
        self.names = tuple(NodeId(name) for name in places)
        self.voters: dict[str, Voter] = {}
        self.first_acts: list[FirstAct] = []
        self._folder = TemporaryDirectory(prefix="doyen-pole-")
        self._seen: asyncio.Queue[Seen] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: set[asyncio.Future[None]] = set()
        self._born: set[str] = set()

    async def __aenter__(self) -> "PoleGroup":
        path = Path(self._folder.name) / "witness"
        self._witness = await asyncio.create_subprocess_exec(
            *[sys.executable, "-m", "doyen_lab.pole_witness", str(path)],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # It ends when its input does, Ctrl-C or not.
        )
        self._read(self._read_witness())
        await self._seen.get()  # Its socket is there.
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for voter in self.voters.values():
            if voter.alive:
                voter.process.kill()
            await voter.process.wait()
        assert self._witness.stdin is not None
        self._witness.stdin.close()
        await self._witness.wait()
        await asyncio.gather(*self._tasks)
        self._folder.cleanup()

    async def start(self, name: str, **of_plan: Any) -> None:
        place, others = self.places[name], [p.address for n, p in self.places.items() if n != name]
        plan = Plan(
            group="pole",
            name=NodeId(name),
            bind=place.address,
            peers=tuple(others),
            voters=self.names,
            pole=self.config,
            state=str(Path(self._folder.name) / name),
            newcomer=name not in self._born,
            witness=str(Path(self._folder.name) / "witness"),
            **self._of_plan | of_plan,
        )
        self._born.add(name)
        process = await asyncio.create_subprocess_exec(
            *[*place.wrap, sys.executable, "-m", "doyen_lab.pole_node", msgspec.json.encode(plan).decode()],
            stdout=asyncio.subprocess.PIPE,
            stdin=asyncio.subprocess.DEVNULL,
        )
        voter = self.voters[name] = Voter(process)
        self._read(self._read_voter(voter))

    async def start_all(self, of_each: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        for name in self.names:
            await self.start(name, **(of_each or {}).get(name, {}))
        await self.until(lambda: all(voter.started for voter in self.voters.values()), "all have started")

    def kill(self, name: str) -> Instant:
        """SIGKILL, by its process id; returns the instant before."""
        at = boot_time_ns()
        self.voters[name].process.send_signal(signal.SIGKILL)
        return at

    def living(self) -> dict[str, Voter]:
        return {name: voter for name, voter in self.voters.items() if voter.alive}

    def agreed(self) -> tuple[str, int] | None:
        """The leader that all living name, and its epoch."""
        named = {(voter.leader, voter.term) for voter in self.living().values()}
        leader, term = next(iter(named)) if len(named) == 1 else (None, 0)
        return (leader, term) if leader is not None and leader in self.living() else None

    async def until_agreed(self) -> tuple[str, int]:
        await self.until(lambda: self.agreed() is not None, "all name one leader")
        found = self.agreed()
        assert found is not None
        return found

    async def seen(self) -> Seen:
        """All that the witness saw."""
        assert self._witness.stdin is not None
        self._witness.stdin.write(b"\n")
        await self._witness.stdin.drain()
        return await self._seen.get()

    async def until(self, holds: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
        """Waits until it holds; asked again after every line that anybody tells."""
        try:
            async with asyncio.timeout(patience_s):
                while not holds():
                    changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiting.add(changed)
                    try:
                        await changed
                    finally:
                        self._waiting.discard(changed)
        except TimeoutError:
            named = ", ".join(f"{n} names {v.leader} in {v.term}" for n, v in self.living().items())
            raise TransportError(f"not within {patience_s:g} s: {what} ({named})") from None

    # Reading.

    def _read(self, reading: Any) -> None:
        task = asyncio.create_task(reading)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read_witness(self) -> None:
        assert self._witness.stdout is not None
        async for line in self._witness.stdout:
            if b'"acts"' in line:
                self._seen.put_nowait(msgspec.json.decode(line, type=Seen))
            else:
                self.first_acts.append(msgspec.json.decode(line, type=FirstAct))
            self._tell_change()

    async def _read_voter(self, voter: Voter) -> None:
        assert voter.process.stdout is not None
        async for line in voter.process.stdout:
            told = msgspec.json.decode(line, type=PoleTold)
            match told.event:
                case "started":
                    voter.started = True
                case "elected":
                    voter.leader, voter.term, voter.rtt = told.leader, told.term, told.rtt
                case "lost" if told.term >= voter.term:
                    voter.leader = None
            self._tell_change()
        await voter.process.wait()
        self._tell_change()

    def _tell_change(self) -> None:
        for changed in self._waiting:
            if not changed.done():
                changed.set_result(None)


def on_loopback(names: Sequence[str]) -> dict[str, Place]:
    """Ports that were free a moment ago: they are let go together, so that they differ."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in names]
    try:
        for made in sockets:
            made.bind(("127.0.0.1", 0))
        return {
            name: Place(Address("127.0.0.1", made.getsockname()[1])) for name, made in zip(names, sockets, strict=True)
        }
    finally:
        for made in sockets:
            made.close()
