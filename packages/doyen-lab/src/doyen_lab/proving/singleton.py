"""`doyen run` under kills, pauses and cuts: no second command starts before the first has stopped."""

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from doyen.core.clock import Instant
from doyen.net.storage import write_time_s
from doyen.testing.processes import Process, Processes
from doyen_lab.proving import beater
from doyen_lab.proving.combination import COMBINATIONS, GROUP, PORT
from doyen_lab.proving.evidence import hosts_of
from doyen_lab.proving.history import Life, Record, decode_record, reigns
from doyen_lab.proving.judge import together, two_at_once
from doyen_lab.proving.postmortem import disagreement, laid_side_by_side
from doyen_lab.proving.runner import Result, kept
from doyen_lab.switch import Switch

SINGLETON: Final = "singleton"
HOSTS: Final = 5
POLL_S: Final = 0.01
LEASE: Final = "1s"  # Longer than a runner takes to start: one that returns meets what its earlier incarnation began.
MISSES: Final = 10  # This many faults more than wanted, times four, may hit a command that has ended already.
GRACE: Final = "2s"  # Longer than the lease: a command that is not stopped in order has the lease only.
FRESH: Final = 200_000_000  # A process that wrote within this time still lives.
LONG_AGO: Final = 5_000_000_000  # A process that has not written for this time has ended.
KILLS: Final = (
    "runner killed",
    "guard killed",
    "command killed",
    "guard of a paused runner killed",
    "runner and guard killed",
    "runner and shadow killed",
    "guard and shadow killed",
)
FAULTS: Final = (*KILLS, "runner stopped", "runner paused", "guard paused and host cut off", "host cut off")


class Beats(Life):
    """One process of a command, by the file that it writes: its runner has its standard output."""

    def __init__(self, path: Path) -> None:
        role, identity, self.command, _ = path.name.split(".")
        super().__init__(role, identity)
        self.path, self._offset, self._rest = path, 0, b""

    def read(self) -> None:
        """Add what was written since the last time."""
        with open(self.path, "rb") as file:
            file.seek(self._offset)
            data = file.read()
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self.add(decode_record(line))

    @property
    def pid(self) -> int:
        return int(self.name.partition("-")[0])

    @property
    def begun_at(self) -> Instant:
        return next((record.at for record in self.records if record.kind == "begin"), 0)


class Runners:
    """One `doyen run` per host, and the commands that they start."""

    def __init__(
        self,
        network: Switch,
        folder: Path,
        doyen: Sequence[str],
        lease: str,
        *,
        grace: str = GRACE,
        flags: Sequence[str] = (),
        records: bool = False,
    ) -> None:
        self.network, self.folder, self.doyen, self.lease = network, folder, tuple(doyen), lease
        self.flags = ["--grace", grace, *flags]
        self.records, self.recordings = records, list[Path]()  # Whether every runner writes a recording, and where.
        self.acts = folder / "acts"
        self.acts.mkdir(parents=True)
        self.hosts = [f"n{i}" for i in range(len(network.nodes))]
        environment = os.environ | {"DOYEN_RUNTIME_DIR": str(folder / "run"), "PYTHONDONTWRITEBYTECODE": "1"}
        self.processes = Processes(environment=environment, patience_s=10)
        self.lives: dict[str, Beats] = {}  # By file.
        self.pids: dict[int, list[int]] = {}  # The process ids of runners, by the number of their host.

    async def start(self, host: str, *, first: bool = False) -> None:
        here = self.hosts.index(host)
        flags = ["--group", GROUP, "--name", host, "--preset", "local", "--election", "pole", *self.flags]
        flags += ["--voters", ",".join(self.hosts), "--state", str(self.folder / "state")]
        flags += ["--bind", f"{self.network.nodes[here].ipv4}:{PORT}", *(["--newcomer"] if first else [])]
        flags += ["--pole-lease", self.lease, "--pole-retry-max", "1s", "--pole-score-timeout", "500ms"]
        for i, node in enumerate(self.network.nodes):
            flags += ["--seed", f"{node.ipv4}:{PORT}"] if i != here else []
        if self.records:
            self.recordings.append(self.folder / f"{host}.{len(self.recordings)}.rec")
            flags += ["--record", str(self.recordings[-1]), "--record-max", str(256 << 20)]
        command = [sys.executable, "-S", "-E", beater.__file__, str(self.acts), host]
        line = [*self.network.nodes[here].wrap, *self.doyen, "run", *flags, "--", *command]
        process = await self.processes.launch(host, line, log=self.folder / f"{host}.log")
        self.pids.setdefault(here, []).append(process.pid)

    def runner(self, host: str) -> Process:
        return self.processes.started[host]

    async def restart_the_dead(self) -> None:
        for host in self.hosts:
            if not self.runner(host).alive:
                await self.start(host)

    def look(self) -> None:
        for name in os.listdir(self.acts):
            if name not in self.lives:
                self.lives[name] = Beats(self.acts / name)
        for life in self.lives.values():
            if not life.acted_at or time.monotonic_ns() - life.acted_at < LONG_AGO:
                life.read()

    def acting(self) -> Beats | None:
        """Return the command that beats now, not its child; None if none does."""
        self.look()
        now = time.monotonic_ns()
        fresh = [life for life in self.lives.values() if now - life.acted_at < FRESH and life.label in self.hosts]
        return max(fresh, key=lambda life: life.acted_at, default=None)

    async def next_command(self, since: Instant, timeout_s: float) -> Beats | None:
        """Wait for a command that began after the instant; return None if none does in time."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            await self.restart_the_dead()
            found = self.acting()
            if found is not None and found.begun_at > since:
                return found
            await asyncio.sleep(POLL_S)
        return None

    def postmortem(self, html: Path, title: str) -> tuple[float, list[str]]:
        """Write the run as a file; return how long two acted by the recordings, and what speaks against it."""
        seen = laid_side_by_side(self.recordings, html, title)
        told_s = together(reigns(families(self.lives.values()))) / 1e9
        return round(seen.together_s, 3), list(disagreement(seen, told_s, beater.BEAT_S))

    def end_survivors(self) -> list[str]:
        """Kill and name whatever of the commands still lives although their runners have ended."""
        self.look()
        found = []
        for name, life in self.lives.items():
            if beater.identity(life.pid) == life.name:
                os.kill(life.pid, signal.SIGKILL)
                found.append(name)
        return found


async def prove_singleton(
    kills: int,
    *,
    seed: int = 1,
    keep: bool = False,
    html: Path | None = None,
    only: Sequence[str] = FAULTS,
    hosts: int = HOSTS,
    lease: str = LEASE,
    doyen: Sequence[str] = (sys.executable, "-m", "doyen"),
    on_step: Callable[[str], None] = lambda _: None,
) -> Result:
    folder = Path(tempfile.mkdtemp(prefix="doyen-lab-singleton-"))
    began, rng = time.monotonic(), Random(seed)
    faults: Counter[str] = Counter()
    takeovers: list[float] = []
    violations: list[str] = []
    bound_s = COMBINATIONS["pole"].failover([f"n{i}" for i in range(hosts)]) / 1e9 + 10
    with Switch(hosts, seed=seed) as network:
        runners = Runners(network, folder, doyen, lease, records=html is not None)
        try:
            for host in runners.hosts:
                await runners.start(host, first=True)
            current = await runners.next_command(0, 60)
            number = 0
            while current is not None and is_wanted(kills, faults, only) and number < 4 * (kills + MISSES):
                fault = next((fault for fault in only if not faults[fault]), None) or rng.choice(only)
                await asyncio.sleep(rng.uniform(0.0, 0.3))
                number += 1
                at = time.monotonic_ns()
                undo = do(fault, current, runners)
                if undo is None:
                    current = await runners.next_command(current.begun_at - 1, bound_s)
                    continue
                successor = await runners.next_command(current.begun_at, bound_s)
                undo()
                if successor is None:
                    violations.append(nothing_ran(bound_s, f"{current.label}: {fault}", folder))
                    break
                if successor.begun_at > at:  # Otherwise it hit one that had just lost its lease.
                    faults[fault] += 1
                    takeovers.append((successor.begun_at - at) / 1e9)
                current = successor
                if number % 10 == 0:
                    on_step(f"{number} faults, {len(runners.lives) // 3} commands")
            if current is None:
                violations.append("no command ran at all")
        finally:
            await runners.processes.stop()
            violations += [f"{name} outlived its runner" for name in runners.end_survivors()]
        found, wrong = hosts_of(network, runners.pids)
        violations += wrong
        faults["packets refused"] = network.traffic().refused
    runners.look()
    for life in runners.lives.values():
        life.read()
    violations += judge_commands(list(runners.lives.values()))
    seen_s, wrong = (None, []) if html is None else runners.postmortem(html, SINGLETON)
    violations += wrong
    violations += [f"the fault never happened: {fault}" for fault in only if not faults[fault]]
    records = [record for life in runners.lives.values() for record in life.records]
    faults["commands started"] = sum(life.label in runners.hosts for life in runners.lives.values())
    return Result(
        scenario=SINGLETON,
        election="pole",
        promise="quorum",
        holds=not violations,
        violations=tuple(violations),
        faults=dict(faults),
        takeovers_s=tuple(round(takeover, 3) for takeover in takeovers),
        together_s=0.0,
        acts=sum(record.kind == "act" for record in records),
        terms=len({record.term for record in records}),
        seconds=round(time.monotonic() - began, 1),
        checked={"acts": sum(record.kind == "act" for record in records), "successions": len(takeovers)},
        hosts=found,
        lateness_ms=0.0,
        seed=seed,
        postmortem="" if html is None else str(html),
        postmortem_s=seen_s,
        histories=kept(folder, keep or bool(violations)),
    )


def nothing_ran(after_s: float, fault: str, folder: Path) -> str:
    """Return the complaint, and how slow the disk is just then: where a flush takes 4 s, an election takes as long."""
    return f"no command ran {after_s:.0f} s after {fault} (a record is written here in {write_time_s(folder):.2f} s)"


def is_wanted(kills: int, faults: Counter[str], only: Sequence[str]) -> bool:
    """Return whether a further fault is wanted: until there were `kills` kills, and each fault once."""
    killed = sum(faults[fault] for fault in KILLS)
    return any(not faults[fault] for fault in only) or (killed < kills and any(fault in KILLS for fault in only))


def do(fault: str, current: Beats, runners: Runners) -> Callable[[], None] | None:
    """Do it to the host that runs the command; return how to undo it, None if the command had ended already."""
    host, command = current.label, current.pid
    guard = next((int(record.reason) for record in current.records if record.kind == "begin"), 0)
    runner = runners.runner(host)
    here = runners.hosts.index(host)
    try:
        shadow = parent_of(guard)
        if parent_of(shadow) != runner.pid or beater.identity(command) != current.name:
            return None
        killed = {"runner": runner.pid, "guard": guard, "shadow": shadow, "command": command}
        match fault:
            case "runner stopped":
                runner.terminate()
            case "runner paused":
                runner.send_signal(signal.SIGSTOP)
                return lambda: runner.send_signal(signal.SIGCONT)
            case "guard of a paused runner killed":
                runner.send_signal(signal.SIGSTOP)
                os.kill(guard, signal.SIGKILL)
                return lambda: runner.send_signal(signal.SIGCONT)
            case "guard paused and host cut off":
                os.kill(guard, signal.SIGSTOP)
                runners.network.isolate(here)
                return runners.network.heal
            case "host cut off":
                runners.network.isolate(here)
                return runners.network.heal
            case _:
                for name in fault.removesuffix(" killed").split(" and "):
                    os.kill(killed[name], signal.SIGKILL)
    except (ProcessLookupError, FileNotFoundError):
        return None
    return lambda: None


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def judge_commands(lives: Sequence[Beats]) -> list[str]:
    """Judge by what each saw when it began, and by its beats; a command, its child and its stray are one."""
    found = [f"{life.label} began while {text} lived" for life in lives for text in beside(life.records)]
    found += two_at_once(families(lives))
    hosts: dict[int, set[str]] = {}
    for reign in reigns(families(lives)):
        hosts.setdefault(reign.term, set()).add(reign.life.partition("#")[0])
    return found + [f"term {term} ran on two hosts: {sorted(who)}" for term, who in hosts.items() if len(who) > 1]


def families(lives: Iterable[Beats]) -> list[Life]:
    """Return the commands, each with what its child and its stray wrote."""
    found: dict[str, Life] = {}
    for life in lives:
        host, number = life.label.partition("-")[0], int(life.command.partition("-")[0])
        family = found.setdefault(life.command, Life(host, life.command, number))
        for record in life.records:
            family.add(record)
    return list(found.values())


def beside(records: list[Record]) -> list[str]:
    return [record.reason for record in records if record.kind == "beside"]
