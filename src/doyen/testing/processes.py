"""Real processes on this machine: started, read, signalled and ended in one place.

`Processes` takes any command.  `LocalCluster` is a group of `doyen agent`s, each with a process id of its own; what
they write to their standard output, with instants of the clock that all processes of a machine share, is all that is
known of them here.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from doyen.core.clock import Instant, format_duration
from doyen.election.announce.config import AnnounceConfig
from doyen.errors import TransportError
from doyen.net.driver import boot_time_ns
from doyen.node.agent_line import AgentLine
from doyen.testing.ledger import Changes, Ledger

_TOLD = msgspec.json.Decoder(AgentLine)
PATIENCE_S = 5.0  # How long a process may take to end after SIGTERM.

OnLine = Callable[[bytes, Instant], None]  # (a line of standard output, when it was read)


class Process:
    """One command that was started."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path | None) -> None:
        self.name, self.log, self._process = name, log, process
        self.reader: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """Return the command's own process id: `ip netns exec` becomes the command."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    def send_signal(self, number: int) -> None:
        """Send it this signal, unless it has ended."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> Instant:
        """Send SIGKILL; return the instant before it, so that a takeover never looks shorter than it was."""
        at = boot_time_ns()
        self.send_signal(signal.SIGKILL)
        return at

    def write(self, line: bytes) -> None:
        """Write to its standard input."""
        assert self._process.stdin is not None, f"{self.name} was started without an input"
        self._process.stdin.write(line)

    def close_input(self) -> None:
        assert self._process.stdin is not None, f"{self.name} was started without an input"
        self._process.stdin.close()

    async def wait(self) -> int:
        """Return its exit code once it has ended and all that it wrote was read."""
        code = await self._process.wait()
        if self.reader is not None:
            await asyncio.shield(self.reader)
        return code

    async def end(self, patience_s: float) -> None:
        """Wait until it ends by itself, and kill it if it takes longer than that."""
        try:
            async with asyncio.timeout(patience_s):
                await self._process.wait()
        except TimeoutError:
            self.kill()
        await self.wait()

    def lines(self) -> asyncio.StreamReader:
        assert self._process.stdout is not None
        return self._process.stdout

    def last_words(self, count: int = 3) -> str:
        """Return the last lines of its log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log and self.log.exists() else []
        return " | ".join(lines[-count:])


class Processes:
    """All processes of one run; use it as an async context manager, and nothing is left behind."""

    def __init__(
        self,
        changes: Changes | None = None,  # Touched after every line, and after every end.
        *,
        environment: Mapping[str, str] | None = None,  # None: this process's own.
        own_session: bool = True,  # Ctrl-C is for this process, which ends the others in order.
        patience_s: float = PATIENCE_S,  # 0: SIGKILL at once; nothing that they keep is needed.
    ) -> None:
        self.changes = changes or Changes()
        self.started: dict[str, Process] = {}  # The latest of each name.
        self._environment, self._own_session, self._patience_s = environment, own_session, patience_s

    async def __aenter__(self) -> "Processes":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def launch(
        self,
        name: str,
        command: Sequence[str],
        *,
        on_line: OnLine | None = None,  # Gets the lines of standard output as they come.
        log: Path | None = None,  # Takes what it writes, appended; None: standard error is this process's.
        has_input: bool = False,  # Whether it has a standard input to write to.
    ) -> Process:
        """Start the command; put `ip netns exec NAME` before it to run it in a network namespace."""
        pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        with open(log or os.devnull, "ab") as written:
            process = await asyncio.create_subprocess_exec(
                *_bound(),
                *command,
                stdin=pipe if has_input else nothing,
                stdout=pipe if on_line else written,
                stderr=written if log else None,
                env=self._environment,
                start_new_session=self._own_session,
            )
        made = self.started[name] = Process(name, process, log)
        made.reader = asyncio.create_task(self._read(made, on_line))
        return made

    def alive(self) -> list[Process]:
        return [process for process in self.started.values() if process.alive]

    async def stop(self) -> None:
        """Send SIGTERM to all that live, and SIGKILL to those that do not end in time."""
        living = self.alive()
        for process in living:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM if self._patience_s else signal.SIGKILL)
        # A second signal to a process that has just ended would take its exit code from asyncio.
        ends = (process.end(self._patience_s) if self._patience_s else process.wait() for process in living)
        ended = await asyncio.gather(*ends, return_exceptions=True)
        for error in ended:
            if isinstance(error, BaseException):
                raise error

    async def _read(self, process: Process, on_line: OnLine | None) -> None:
        if on_line is not None:
            with open(process.log or os.devnull, "ab") as log:
                async for line in process.lines():
                    log.write(line)
                    on_line(line.rstrip(b"\n"), boot_time_ns())
                    self.changes.touch()
        await process._process.wait()
        self.changes.touch()


@cache
def _bound() -> list[str]:
    """Return what goes before a command so that the kernel ends it when this process is killed (util-linux)."""
    found = shutil.which("setpriv")
    if found is None:
        return []
    bound = [found, "--pdeathsig", "KILL", "--"]
    return bound if subprocess.run([*bound, "true"], stderr=subprocess.DEVNULL).returncode == 0 else []


class MemberState(Struct):
    """One agent, by what it last told."""

    name: str
    process: Process
    ledger: Ledger
    term: int = 0
    status: str = "starting"
    sent: int = 0
    received: int = 0
    refused: dict[str, int] = {}
    address: str | None = None  # Where it listens.
    heard_at: Instant = 0  # When it wrote the last line read here: what it said holds until then.
    started: bool = False

    @property
    def leader(self) -> str | None:
        """Return the leader that this agent names."""
        return self.ledger.named_by(self.name)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.alive


class LocalCluster:
    """The agents of one group; use it as an async context manager, and nothing is left behind."""

    def __init__(
        self,
        group: str,
        config: AnnounceConfig | None,  # None: another election, given by flags.
        *,
        flags: Sequence[str] = (),  # How members reach each other: `--multicast …` or `--seed …`.
        on_told: Callable[[AgentLine], None] | None = None,
    ) -> None:
        self.group, self.config, self.members = group, config, dict[str, MemberState]()
        self.ledger = Ledger()
        self._processes = Processes(self.ledger, own_session=False)
        self._flags, self._on_told = list(flags), on_told

    async def __aenter__(self) -> "LocalCluster":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self, name: str, *flags: str, wrap: Sequence[str] = ()) -> MemberState:
        """Start one agent; `wrap` goes before the command, e.g. `ip netns exec NAME`."""
        command = [*wrap, sys.executable, "-m", "doyen", "agent", "--group", self.group, "--name", name]
        announce = [] if self.config is None else ["--election", "announce", *config_flags(self.config)]
        command += [*announce, *self._flags, *flags]
        process = await self._processes.launch(name, command, on_line=lambda line, _: self._hear(member, line))
        self.ledger.say(name, None, 0)
        member = self.members[name] = MemberState(name, process, self.ledger)
        return member

    def kill(self, name: str) -> Instant:
        """Send SIGKILL by its process id; return the instant before."""
        return self.members[name].process.kill()

    async def stop(self) -> None:
        """Send SIGTERM to all, and SIGKILL to those that do not end."""
        await self._processes.stop()

    def alive(self) -> list[MemberState]:
        return [member for member in self.members.values() if member.alive]

    def agreed(self) -> str | None:
        """Return the leader that all living members name, if it is one of them."""
        found = self.ledger.known([member.name for member in self.alive()])
        return None if found is None else found[0]

    async def agreement(self, timeout_s: float, *, on: str | None = None, unchanged_s: float = 0.0) -> Instant:
        """Wait until all name one living leader (`on`, if given) for `unchanged_s`; return since when they do."""

        def look() -> tuple[str, Instant] | None:
            found = self.ledger.known([member.name for member in self.alive()])
            return found if found is not None and on in (None, found[0]) else None

        try:
            return (await self.ledger.steady(look, unchanged_s, timeout_s))[1]
        except TimeoutError:
            raise TransportError(f"the group did not agree within {timeout_s:g} s: {self.who_names_whom()}") from None

    def who_names_whom(self) -> str:
        return ", ".join(f"{member.name} names {member.leader or 'nobody'}" for member in self.alive())

    async def until(self, holds: Callable[[], bool], timeout_s: float) -> None:
        """Wait until it holds; asked again after every line that a member writes."""
        await self.ledger.until(holds, timeout_s)

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

    def _hear(self, member: MemberState, line: bytes) -> None:
        told = _TOLD.decode(line)
        member.status, member.sent, member.received = told.status, told.sent, told.received
        member.refused, member.heard_at = told.refused, told.clock
        if told.event == "started":
            member.started, member.address = True, told.address
        if told.event in ("elected", "lost"):
            self.ledger.say(member.name, told.leader if told.event == "elected" else None, told.clock)
            member.term = told.term or member.term
        if self._on_told is not None:
            self._on_told(told)


def config_flags(config: AnnounceConfig) -> list[str]:
    """Return the command-line flags that make this configuration; only what differs from the default."""
    flags: list[str] = []
    default = asdict(AnnounceConfig())
    for name, value in asdict(config).items():
        if value == default[name]:
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
    """Return flags for a group of its own: its address is made from the process id, so that no two clusters meet."""
    pid = os.getpid()
    return ["--bind", "127.0.0.1:0", "--multicast", f"239.192.{pid >> 8 & 255}.{pid & 255}:{20000 + pid % 20000}"]
