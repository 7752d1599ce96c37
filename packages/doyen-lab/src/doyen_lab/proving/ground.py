"""A group of witnesses in namespaces on the switch; what is done to it is counted, and who could reach whom is kept."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from doyen.core.clock import Duration, Instant, format_duration
from doyen.errors import TransportError
from doyen.sim.links import Links
from doyen.testing.processes import Processes
from doyen_lab.graph import Edge
from doyen_lab.iproute import within
from doyen_lab.proving.combination import MULTICAST, PORT, Combination
from doyen_lab.proving.disks import SmallDisks
from doyen_lab.proving.evidence import Host, hosts_of
from doyen_lab.proving.history import Life, Record, decode_record
from doyen_lab.proving.judge import Truth
from doyen_lab.proving.reach import is_clear, note_links, note_overheard, regions_of
from doyen_lab.proving.running import Running, process_state
from doyen_lab.proving.witness import WITNESS, WitnessPlan, command_of
from doyen_lab.switch import Link, Loopback, Switch

POLL_S = 0.02
END_MAX_S = 10.0  # For a process to leave in order.
JOIN_MAX_S = 60.0  # For a process to start on a busy machine.


class NotSettled(Exception):
    """A region did not get what its election promises within the stated time."""


class Ground:
    """One group in one run; use it as an async context manager.  Hosts are numbered: label `n0` runs on the first."""

    def __init__(
        self,
        network: Switch | Loopback,
        combination: Combination,
        folder: Path,
        *,
        command: Sequence[str] = WITNESS,
        seed: int = 1,
    ) -> None:
        self.place, self.combination, self.folder, self.command = network, combination, folder, tuple(command)
        self.seed = seed
        self.labels = [f"n{i}" for i in range(len(network.nodes))]
        self.voters = list(self.labels)
        self.lives: list[Life] = []
        self.running: dict[str, Running] = {}  # By label; those that still run.
        self.truths: list[Truth] = []
        self.faults: Counter[str] = Counter()
        self.takeovers_s: list[float] = []
        self.lateness: Duration = 0  # The machine's: how late this process's own timers were, at the worst.
        self.disks = SmallDisks()  # Where a label keeps its promises, if not in the usual folder.
        self.keys: dict[str, Path] = {}
        self.durable = combination.strong
        self.fields: dict[str, Any] = {}  # Further arguments of `doyen.join`, for all,
        self.own_fields: dict[str, dict[str, Any]] = {}  # and by label.
        self.quiet = True
        self.apart: set[str] = set()  # They run and are connected, but must not be believed, nor believe.
        self.violations: list[str] = []
        self.records = False  # Whether every process writes a recording, beside its history,
        self.recordings: list[Path] = []  # and where it did.
        self.environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "DOYEN_RUNTIME_DIR": str(folder / "run")}
        self.processes = Processes(environment=self.environment)
        self.act_every_s, self.status_every_s = 0.02, 0.5
        self._ticker: asyncio.Task[None] | None = None
        self._pids: dict[int, list[int]] = {}

    async def __aenter__(self) -> "Ground":
        self.folder.mkdir(parents=True, exist_ok=True)
        self._ticker = asyncio.create_task(self._measure_lateness())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._ticker is not None
        self._ticker.cancel()
        await asyncio.gather(self._ticker, return_exceptions=True)
        for running in self.running.values():
            running.process.send_signal(signal.SIGCONT)
            running.process.terminate()
        try:
            for label in list(self.running):
                await self._leave(label)
        finally:
            await self.processes.stop()
        self.disks.unmount()

    async def _measure_lateness(self) -> None:
        while True:
            due = time.monotonic_ns() + int(POLL_S * 1e9)
            await asyncio.sleep(POLL_S)
            late = time.monotonic_ns() - due
            self.lateness = max(self.lateness, late)
            if self.truths:
                self.truths[-1].lateness = max(self.truths[-1].lateness, late)

    # Processes.

    async def start_all(self, *, first: bool = True) -> None:
        alone = self.labels[:1] if self.combination.timed else []
        for label in alone:
            await self.start(label, first=first)
        await asyncio.gather(*(self.start(label, first=first) for label in self.labels if label not in alone))

    async def start(self, label: str, **how: Any) -> None:
        """Launch a witness, and wait until it has joined."""
        await self.joined(label, await self.launch(label, **how))

    async def launch(
        self,
        label: str,
        *,
        first: bool = False,  # Nobody of this name has ever voted.
        name: str | None = None,
        host: int | None = None,
        state: Path | None = None,
        wall_offset_s: float = 0.0,
        boot_offset_s: int = 0,
        **fields: Any,
    ) -> Running:
        """Start a witness on its host, or on that of another number; return it without waiting."""
        index = self.labels.index(label) if host is None else host
        number = sum(life.label == label for life in self.lives) + 1
        durable = self.durable or state is not None
        life = Life(label, name or label, number, durable=durable and self.combination.numbers_agree)
        told = self.combination.fields(self.voters) | {"bind": f"{self.place.nodes[index].ipv4}:{PORT}"}
        told |= self.fields | self.own_fields.get(label, {}) | fields | {"name": life.name}
        founds = self.combination.timed and first and index == 0
        if self.combination.multicast:
            told["multicast"] = MULTICAST
        elif not founds:
            told["seeds"] = [f"{node.ipv4}:{PORT}" for i, node in enumerate(self.place.nodes) if i != index]
        if durable:
            told["state"] = str(state or self.disks.paths.get(label) or self.folder / "state" / label)
        if self.records:
            self.recordings.append(self.folder / f"{label}.{number}.rec")
            told |= {"record": str(self.recordings[-1]), "record_max": 256 << 20}  # None is to lose its beginning.
        if label in self.keys:
            told["key"] = str(self.keys[label])
        if self.combination.strong and first:
            told["newcomer"] = True
        plan = WitnessPlan(
            join=told,
            act_every_s=self.act_every_s,
            wall_offset_s=wall_offset_s,
            explain=True,
            status_every_s=self.status_every_s,
        )
        askew = ["unshare", "--time", "--boottime", str(boot_offset_s)] if boot_offset_s else []
        log = self.folder / f"{label}.{number}.log"
        process = await self.processes.launch(
            str(life),
            [*self.place.nodes[index].wrap, *askew, *command_of(plan, self.command)],
            on_line=lambda line, _: life.add(decode_record(line)),
            log=log,
        )
        running = Running(life, index, process, log)
        self.lives.append(life)
        self.running[label] = running
        self.note(f"after {label} was started", self.merging)
        return running

    async def joined(self, label: str, running: Running) -> None:
        """Wait until it has joined, or was killed meanwhile; raise TransportError if it ended by itself."""
        life, process, host = running.life, running.process, self.place.nodes[running.index]
        await self.until(lambda: life.joined_at is not None or not process.alive, JOIN_MAX_S)
        if self.running.get(label) is not running:
            return
        if life.joined_at is None:
            raise TransportError(f"{life} ended with {await process.wait()} at its start: {running.failure}")
        inode = os.stat(f"/proc/{process.pid}/ns/net").st_ino
        self.check(not host.name or inode == host.inode, f"{life} does not run in its own namespace")
        self._pids.setdefault(running.index, []).append(process.pid)
        self.note(f"after {label} had joined", self.merging)

    async def kill(self, label: str) -> Instant:
        """Send SIGKILL; return the instant before."""
        at = time.monotonic_ns()
        process = self.running.pop(label).process
        process.kill()
        code = await process.wait()
        self.faults["killed"] += code == -signal.SIGKILL
        self.note(f"after {label} was killed", self.failover)
        return at

    async def stop(self, label: str) -> Instant:
        """Send SIGTERM, so that it leaves in order; return the instant before."""
        at = time.monotonic_ns()
        self.running[label].process.terminate()
        left = await self._leave(label)
        self.faults["stopped"] += left
        self.note(f"after {label} had left", self.failover)
        return at

    def pause(self, label: str) -> Instant:
        at = time.monotonic_ns()
        running = self.running[label]
        running.process.send_signal(signal.SIGSTOP)
        while process_state(running.process.pid) != "T":
            time.sleep(0.001)
        running.paused = True
        self.faults["paused"] += 1
        self.note(f"after {label} was paused", self.failover)
        return at

    def resume(self, label: str) -> None:
        running = self.running[label]
        running.paused = False
        self.note(f"after {label} was resumed", self.merging)
        running.process.send_signal(signal.SIGCONT)

    async def ended(self, label: str, timeout_s: float = 20.0) -> str:
        """Wait until it ends by itself; return why, in its own words."""
        running = self.running[label]
        try:
            async with asyncio.timeout(timeout_s):
                await running.process.wait()
        except TimeoutError:
            raise NotSettled(f"{running.life} runs on after {timeout_s:g} s, although it should have ended") from None
        del self.running[label]
        self.note(f"after {label} had ended", self.merging)
        return running.failure

    def set_wall_clock_back(self, label: str) -> None:
        """Set the wall clock back by an hour while the process runs, as that process alone sees it."""
        self.running[label].process.send_signal(signal.SIGUSR1)

    async def command_on(self, label: str, *arguments: str) -> str:
        """Run a command of doyen's on the host of a process, which it asks; return all that it says."""
        line = [*self.place.nodes[self.running[label].index].wrap, sys.executable, "-m", "doyen", *arguments]
        asked = await asyncio.create_subprocess_exec(
            *line, "--name", label, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self.environment
        )
        return (await asked.communicate())[0].decode()

    async def _leave(self, label: str) -> bool:
        """Wait until it ends; return whether it ended in order, as it was told to."""
        process = self.running.pop(label).process
        await process.end(END_MAX_S)
        self.check(process.returncode == 0, f"{label} ended with {process.returncode} when it was told to leave")
        return process.returncode == 0

    # The network.

    @property
    def network(self) -> Switch:
        """The switch, which alone can be told to break something."""
        assert isinstance(self.place, Switch), "nothing can be cut on loopback"
        return self.place

    def cut(self, directions: Iterable[Edge], why: str, *, quiet: bool = True) -> Instant:
        """Cut links, each from its first host to its second; without `quiet` no bound holds until the next change."""
        at = time.monotonic_ns()
        self.network.set_up(directions, up=False)
        self.note(why, self.failover, quiet=quiet)
        return at

    def mend(self, directions: Iterable[Edge], why: str, *, quiet: bool = True) -> None:
        before = time.monotonic_ns()
        self.network.set_up(directions, up=True)
        self.note(why, self.merging, at=before, quiet=quiet)

    def mute(self, label: str, *, hears: bool) -> Instant:
        """Cut one way only: the others no longer hear it (`hears`), or it no longer hears them."""
        here = self.running[label].index
        out = [(a, b) for a, b in self.network.directions() if a == here]
        whole = self.combination.multicast and not hears  # Announce-listen needs no answers: nothing is cut there.
        directions = out if hears else [(b, a) for a, b in out]
        return self.cut(directions, f"after {label} had been cut off one way", quiet=not whole)

    def heal(self) -> None:
        """Mend all links."""
        self.faults["packets refused"] = self.network.traffic().refused
        self.mend(self.network.directions(), "after all links were healed")

    def disturb(self, link: Link) -> None:
        """Let every link lose, double and hold back packets as this one does; no bound holds meanwhile."""
        before = time.monotonic_ns()
        fields = {name: getattr(link, name) for name in ("loss", "duplicate", "reorder", "reorder_by")}
        self.network.set_all(**fields)
        self.faults["packets lost"] = self.network.traffic().lost
        self.quiet = not (link.loss or link.duplicate or link.reorder)
        self.note("after the links changed", self.merging, at=before if self.quiet else None)

    def refused_of(self, label: str) -> tuple[int, int]:
        """Return how many packets from it, and to it, were refused by cuts so far."""
        here, links = self.running[label].index, self.network.traffic().links
        return (
            sum(counters.refused for (a, _), counters in links.items() if a == here),
            sum(counters.refused for (_, b), counters in links.items() if b == here),
        )

    def hosts(self) -> list[Host]:
        found, wrong = hosts_of(self.network, self._pids)
        self.violations += wrong
        return found

    def round_trip(self, a: int, b: int) -> Duration:
        """Measure how long a connection from a to b takes to be refused."""

        def ask() -> Duration:
            with socket.socket() as probe:
                began = time.monotonic_ns()
                probe.connect_ex((self.network.nodes[b].ipv4, 1))
                return time.monotonic_ns() - began

        return within(self.network.nodes[a].name, ask)

    # Files.

    def write_keys(self, label: str, key: str) -> None:
        """Write the key that this process holds from now on; it is started with that file."""
        path = self.keys[label] = self.folder / f"{label}.keys"
        path.touch(mode=0o600)
        path.write_text(f"primary {key}\n")

    def boot_offset_s(self, label: str) -> int:
        """Return by how much CLOCK_BOOTTIME is off in its time namespace, as the kernel says."""
        lines = Path(f"/proc/{self.running[label].process.pid}/timens_offsets").read_text().split("\n")
        return next(int(line.split()[1]) for line in lines if line.startswith("boottime"))

    def small_disks(self) -> None:
        """Put everybody's state on a file system of its own, of 64 KiB."""
        self.durable = True
        self.disks.mount(self.labels, self.folder)

    def fill_disk(self, label: str) -> None:
        self.disks.fill(label)
        self.faults["disks filled"] += 1

    # What is true.

    def check(self, holds: bool, otherwise: str) -> None:
        """Note a violation unless what a scenario itself asks for holds."""
        if not holds:
            self.violations.append(otherwise)

    @property
    def failover(self) -> Duration:
        return self.combination.failover(self.voters)

    @property
    def merging(self) -> Duration:
        return self.combination.merging(self.voters)

    def links(self, *, starting: bool = False) -> Links[Running]:
        """Return who hears whom of those that run and have joined, or are still starting, too."""
        awake = [r for r in self.running.values() if not r.paused and (starting or r.life.joined_at is not None)]
        return Links(awake, self._reaches)

    def _reaches(self, a: Running, b: Running) -> bool:
        """Return whether a is heard by b."""
        if a.index == b.index:
            return True
        return not self.apart & {a.life.label, b.life.label} and self.place.reaches(a.index, b.index)

    def note(self, why: str, bound: Duration, *, at: Instant | None = None, quiet: bool = True) -> None:
        """Note who reaches whom from now on: losses of reach once they are, gains before they can be."""
        links, possible = self.links(), self.links(starting=True)
        truth = Truth(
            at=time.monotonic_ns() if at is None else at,
            regions=regions_of(links),
            possible=regions_of(possible),
            bound=bound,
            why=why,
            quiet=self.quiet and quiet,
            settled_at={},
            overheard={},
        )
        if self.combination.relays:
            note_overheard(truth, links)
        if not is_clear(possible, one_way_too=self.combination.multicast):
            note_links(truth, links, possible, self.voters, self.combination)
        self.truths.append(truth)

    # What is seen.

    async def until(self, holds: Callable[[], bool], timeout_s: float) -> None:
        await self.processes.changes.until(holds, timeout_s)

    def leader_of(self, region: Iterable[str]) -> Life | None:
        """Return the life that acts in this region now, if exactly one does, and all name it."""
        now = time.monotonic_ns()
        inside = [running.life for running in self.running.values() if str(running.life) in region]
        acting = [life for life in inside if life.acts(now)]
        if len(acting) != 1:
            return None
        leader = acting[0]
        by_number = self.combination.numbers_agree
        agreed = [life.names == leader.name and (not by_number or life.term == leader.term) for life in inside]
        return leader if all(agreed) else None

    def has_settled(self, region: Iterable[str]) -> bool:
        """Return whether a region has a leader whom all name; in a ring all must be members, too."""
        inside = [running.life for running in self.running.values() if str(running.life) in region]
        all_in = not self.combination.timed or all(life.present >= len(inside) for life in inside)
        return all_in and self.leader_of(region) is not None

    def sole_actor(self) -> str | None:
        """Return the label of the process that acts now, if exactly one does."""
        now = time.monotonic_ns()
        acting = [label for label, running in self.running.items() if running.life.acts(now)]
        return acting[0] if len(acting) == 1 else None

    async def settled(self, among: str | None = None) -> str:
        """Wait until the region (of that label, else the greatest) has one leader whom all name; return its label."""
        truth = self.truths[-1]
        wanted = None if among is None else str(self.running[among].life)
        region = next(found for found in truth.regions if wanted is None or wanted in found)
        since = await self._all_in(region)
        leader: Life | None = None
        while leader is None:
            leader = self.leader_of(region)
            over = time.monotonic_ns() - since - truth.bound - truth.slack
            if leader is None and over > 0:
                raise NotSettled(f"{self._who_names_whom(region)} {truth.why}, {format_duration(truth.bound)} allowed")
            await asyncio.sleep(POLL_S)
        truth.settled_at[region] = time.monotonic_ns()
        return leader.label

    async def _all_in(self, region: Iterable[str]) -> Instant:
        """Wait until all of them are members of the ring, where there is one; return since when they are.

        A process that is let into a ring names its leader before it is a member.
        """
        truth, bound = self.truths[-1], self.combination.joining(self.voters)
        since = truth.at
        while self.combination.timed:
            inside = [running.life for running in self.running.values() if str(running.life) in region]
            if all(life.present >= len(inside) for life in inside):
                break
            since = time.monotonic_ns()
            if since - truth.at > bound + truth.slack:
                held = ", ".join(f"{life} holds {life.present}" for life in inside)
                raise NotSettled(f"{held} of {len(inside)} present {truth.why}, {format_duration(bound)} allowed")
            await asyncio.sleep(POLL_S)
        return since

    async def succeeded(self, old: str, since: Instant, *, among: str | None = None) -> str:
        """Wait until another than `old` leads, and note how long that took; return its label."""
        _, act = await self.act_of_another(old, since)
        self.takeovers_s.append((act.at - since) / 1e9)
        return await self.settled(among)

    async def act_of_another(self, old: str, since: Instant) -> tuple[Life, Record]:
        """Wait until another than `old` acts; return its life and its first act since then."""
        truth = self.truths[-1]
        while (found := self.next_act(old, since)) is None:
            if time.monotonic_ns() - truth.at > truth.bound + truth.slack:
                raise NotSettled(f"nobody but {old} acts {truth.why}, {format_duration(truth.bound)} allowed")
            await asyncio.sleep(POLL_S)
        return found

    def next_act(self, old: str, since: Instant) -> tuple[Life, Record] | None:
        """Return the first act since then of another than `old`, and whose it was; None if there was none yet."""
        acts = [(life, act) for life in self.lives if life.label != old and (act := life.first_act_after(since))]
        return min(acts, key=lambda found: found[1].at, default=None)

    def _who_names_whom(self, region: Iterable[str]) -> str:
        inside = [running.life for running in self.running.values() if str(running.life) in region]
        now = time.monotonic_ns()
        words = [
            f"{life} names {life.names or 'nobody'} of term {life.term}" + (" and acts" if life.acts(now) else "")
            for life in inside
        ]
        return "no leader: " + "; ".join(words)
