"""A group of real processes on this machine: started, killed and watched through their own words.

Each member is a `doyen agent` with a process id of its own; what it tells on its standard output, with the
instants of the clock that all processes of a machine share, is all that is known of it here.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from doyen.core.clock import Instant, format_duration
from doyen.election.announce import AnnounceConfig
from doyen.errors import TransportError
from doyen.net.driver import boot_time_ns
from doyen.node.agent import Told

_TOLD = msgspec.json.Decoder(Told)


class MemberState(Struct):
    """One process, by what it last told."""

    name: str
    process: asyncio.subprocess.Process
    leader: str | None = None
    term: int = 0
    since: Instant = 0  # When it came to name this leader, on the machine's clock.
    status: str = "starting"
    sent: int = 0
    received: int = 0
    refused: dict[str, int] = {}
    address: str | None = None  # Where it listens.
    heard_at: Instant = 0  # When it wrote the last line read here: what it said holds until then.
    started: bool = False

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.returncode is None


class LocalCluster:
    """Processes of one group; use it as an async context manager, and nothing is left behind."""

    def __init__(
        self,
        group: str,
        config: AnnounceConfig | None,  # None: another election, told by flags.
        *,
        flags: Sequence[str] = (),  # How members reach each other: `--multicast …` or `--seed …`.
        on_told: Callable[[Told], None] | None = None,
    ) -> None:
        self.group, self.config, self.members = group, config, dict[str, MemberState]()
        self.cut_off: set[str] = set()  # Members that run, but that others cannot reach: agreement is without them.
        self._flags, self._on_told = list(flags), on_told
        self._waiting: set[asyncio.Future[None]] = set()  # Who wants to know of the next change.
        self._readers: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "LocalCluster":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self, name: str, *flags: str, wrap: Sequence[str] = ()) -> MemberState:
        """`wrap` goes before the command, e.g. `ip netns exec NAME`."""
        command = [*wrap, sys.executable, "-m", "doyen", "agent", "--group", self.group, "--name", name]
        command += [*(config_flags(self.config) if self.config else []), *self._flags, *flags]
        return await self.launch(name, command)

    async def launch(self, name: str, command: Sequence[str]) -> MemberState:
        """Any command that tells as an agent does."""
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
        )
        member = self.members[name] = MemberState(name, process)
        reader = asyncio.create_task(self._read(member))
        self._readers.add(reader)
        reader.add_done_callback(self._readers.discard)
        return member

    def kill(self, name: str) -> Instant:
        """SIGKILL, by its process id; returns the instant."""
        at = boot_time_ns()  # Before: a takeover must not look shorter than it was.
        self.members[name].process.send_signal(signal.SIGKILL)
        return at

    async def stop(self) -> None:
        """SIGTERM to all, SIGKILL to those that do not end."""
        living = [member.process for member in self.members.values() if member.alive]
        for process in living:
            process.terminate()
        for process in living:
            try:
                async with asyncio.timeout(5):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        await asyncio.gather(*self._readers)

    def alive(self) -> list[MemberState]:
        return [member for member in self.members.values() if member.alive]

    def reachable(self) -> list[MemberState]:
        return [member for member in self.alive() if member.name not in self.cut_off]

    def agreed(self) -> str | None:
        """The leader that all living, reachable members name, if it is one of them."""
        living = self.reachable()
        named = {member.leader for member in living}
        leader = next(iter(named)) if len(named) == 1 else None
        return leader if leader is not None and any(member.name == leader for member in living) else None

    async def agreement(self, timeout_s: float, *, on: str | None = None, unchanged_s: float = 0.0) -> Instant:
        """Waits until all name one living leader (`on`, if given) for so long; returns since when they do."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._agreement(on, unchanged_s)
        except TimeoutError:
            raise TransportError(f"the group did not agree within {timeout_s:g} s: {self.who_names_whom()}") from None

    async def _agreement(self, on: str | None, unchanged_s: float) -> Instant:
        while True:
            leader = self.agreed()
            if leader is None or (on is not None and leader != on):
                await self._change()
                continue
            since = max(member.since for member in self.reachable())
            rest_s = unchanged_s - (boot_time_ns() - since) / 1e9
            if rest_s <= 0:
                return since
            try:
                async with asyncio.timeout(rest_s):  # Not wait_for: before Python 3.12 it may swallow a Ctrl-C.
                    await self._change()
            except TimeoutError:
                continue

    def who_names_whom(self) -> str:
        return ", ".join(f"{member.name} names {member.leader or 'nobody'}" for member in self.reachable())

    async def until(self, holds: Callable[[], bool], timeout_s: float) -> None:
        """Waits until it holds; asked again after every line that a member tells."""
        async with asyncio.timeout(timeout_s):
            while not holds():
                await self._change()

    async def _change(self) -> None:
        """Returns after the next word of any member.  (A Condition has a lock, which may outlive a Ctrl-C.)"""
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(changed)
        try:
            await changed
        finally:
            self._waiting.discard(changed)

    def _tell_change(self) -> None:
        for changed in self._waiting:
            if not changed.done():
                changed.set_result(None)

    async def until_started(self, timeout_s: float = 20.0) -> None:
        try:
            await self.until(lambda: all(m.started or not m.alive for m in self.members.values()), timeout_s)
        except TimeoutError:
            late = ", ".join(m.name for m in self.members.values() if not m.started)
            raise TransportError(f"not started within {timeout_s:g} s: {late}") from None
        dead = [member for member in self.members.values() if not member.started]
        if dead:
            raise TransportError(
                f"{dead[0].name} (pid {dead[0].pid}) ended with {dead[0].process.returncode} at its start"
            )

    async def _read(self, member: MemberState) -> None:
        assert member.process.stdout is not None
        async for line in member.process.stdout:
            self._hear(member, _TOLD.decode(line))
        await member.process.wait()
        member.status = "dead"
        self._tell_change()

    def _hear(self, member: MemberState, told: Told) -> None:
        member.status, member.sent, member.received = told.status, told.sent, told.received
        member.refused = told.refused
        if told.event == "started":
            member.started, member.address = True, told.address
        leader = None if told.event == "lost" else told.leader
        if told.event in ("elected", "lost"):
            if leader != member.leader:
                member.since = told.clock
            member.leader, member.term = leader, told.term or member.term
        member.heard_at = told.clock
        if self._on_told is not None:
            self._on_told(told)
        self._tell_change()


def config_flags(config: AnnounceConfig) -> list[str]:
    """The command-line flags that make this configuration; only what differs from the default."""
    flags: list[str] = []
    default = AnnounceConfig()
    for name in AnnounceConfig.__struct_fields__:
        value = getattr(config, name)
        if value == getattr(default, name):
            continue
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            flags.append(flag)
        elif name.endswith(("_interval", "_timeout", "_after")):
            flags += [flag, format_duration(value)]
        else:
            flags += [flag, str(value)]
    return flags


def multicast_on_loopback() -> list[str]:
    """Flags for a group of its own: its address is made from the process id, so that two clusters do not meet."""
    pid = os.getpid()
    return ["--bind", "127.0.0.1:0", "--multicast", f"239.192.{pid >> 8 & 255}.{pid & 255}:{20000 + pid % 20000}"]
