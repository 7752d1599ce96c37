"""Figures 8 and 11 of [ARB] on real processes: groups killed at once, and how soon their monitors noticed.

A kill during which the machine did not keep time says nothing about the protocol: between it and the last suspicion, a
control process on each processor must wake late by at most a tenth of T_l at the 99th percentile of every half second.
Otherwise the run is made again, at most `TRIES_MAX` times.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import msgspec
from msgspec import Struct

from doyen.core.clock import Duration, Instant, ms, seconds
from doyen.core.ids import NodeId
from doyen.errors import TransportError
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import seat
from doyen.net.driver import boot_time_ns
from doyen_lab.contest.entrant import Entrant
from doyen_lab.lateness import Lateness
from doyen_lab.ring_node import GRACE, PORT, RingPlan, RingTold
from doyen_lab.switch import Loopback

_TOLD = msgspec.json.Decoder(RingTold)
LATE_SHARE_MAX = 0.1  # Of T_l.
TRIES_MAX = 3
START_S = 120.0  # For all processes to be ready, and again to begin.
START_IN: Duration = ms(500)  # After the last is ready.
NOTICED = 3  # Leases after a kill: by then every monitor has noticed.


class Kill(Struct, frozen=True, kw_only=True):
    """The outcome of killing one group of members at once; times are in T_l."""

    killed: tuple[str, ...]
    alive: int  # After it had settled.
    extra: int  # Left besides.
    per_monitor: tuple[float, ...]
    all_monitors: tuple[float, ...]
    missing: int  # Monitors that never noticed.
    late_p99: float  # Share of T_l.
    late_worst: float


class RealRun(Struct, frozen=True, kw_only=True):
    size: int
    lease: Duration
    arbitration: Duration
    kills: tuple[Kill, ...]
    tries: int
    started: int
    left_over: int  # In the ring at the end.
    worst_late: float  # Share of T_l, at the 99th percentile of the worst half second.

    @property
    def valid(self) -> bool:
        """Return whether the machine kept time throughout, so that what was asked for could be done."""
        return bool(self.kills) and self.worst_late <= LATE_SHARE_MAX


class RingCluster(Entrant):
    """The processes of one ring on loopback: killed by their ids, judged by the lines that they write."""

    prefix = "n"

    def __init__(
        self,
        size: int,
        config: ArbitrationConfig,
        folder: Path,
        *,
        seed: int = 1,
        leader: bool = False,
        joiners: int = 0,
    ) -> None:
        super().__init__("ring", Loopback(size + joiners), folder)
        self.config, self._seed, self._leader = config, seed, leader
        self.founders, self._joiners = self.names[:size], self.names[size:]
        self.ring = [
            place.node for place in sorted(seat(NodeId(name), address=self._listens(name)) for name in self.founders)
        ]
        self.told: list[tuple[str, RingTold]] = []  # By whom, and what.
        self.worst_late: Duration = 0
        self._controls: list[Lateness] = []
        self._stack = AsyncExitStack()

    def _listens(self, name: str) -> str:
        return f"{self.hosts[name].ipv4}:{PORT}"

    async def __aenter__(self) -> "RingCluster":
        await super().__aenter__()
        for processor in sorted(os.sched_getaffinity(0)):
            self._controls.append(await self._stack.enter_async_context(Lateness(processor)))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        await super().__aexit__()

    def command(self, name: str) -> list[str]:
        plan = RingPlan(
            hosts={NodeId(other): host.ipv4 for other, host in self.hosts.items()},
            founders=len(self.founders),
            name=NodeId(name),
            config=self.config,
            seed=self._seed,
            leader=self._leader,
            gate=str(self.folder / "gate"),
        )
        return [sys.executable, "-m", "doyen_lab.ring_node", msgspec.json.encode(plan).decode()]

    def hear(self, name: str, line: str, at: Instant) -> None:
        self.told.append((name, _TOLD.decode(line)))

    def who_told(self, event: str) -> list[str]:
        """Return the members that reported such an event, in the order in which they did."""
        return [name for name, told in self.told if told.event == event]

    async def until(self, holds: Callable[[], bool], timeout_s: float) -> None:
        """Wait until it holds; asked again after every line."""
        await self.ledger.until(holds, timeout_s)

    async def start_founders(self) -> None:
        """Start all founders, and let them begin together."""
        for name in self.founders:
            await self.start_member(name)
        await self._until_all_told("ready")
        gate = self.folder / "gate"
        gate.with_suffix(".new").write_text(str(boot_time_ns() + START_IN))
        gate.with_suffix(".new").rename(gate)
        await self._until_all_told("started")

    async def _until_all_told(self, event: str) -> None:
        with suppress(TimeoutError):
            await self.until(
                lambda: all(name in self.who_told(event) or not self.process_of(name).alive for name in self.founders),
                START_S,
            )
        for name in self.founders:
            if name not in self.who_told(event):
                raise TransportError(f"{name} was not {event} in time: {self.process_of(name).last_words()}")

    async def join(self) -> None:
        """Let one more process join the ring."""
        await self.start_member(self._joiners.pop(0))

    def alive(self) -> list[str]:
        """Return the founders that were not killed, and did not say that they left; in the order of the ring."""
        left = {*self.who_told("left")}
        return [name for name in self.ring if name not in left | self.gone]

    def departures(self) -> list[RingTold]:
        return [told for name, told in self.told if told.event == "left" and name not in self.gone]

    def apart(self, count: int, rng: Random) -> list[str]:
        """Draw `count` living members, no two of them neighbours."""
        living = self.alive()
        for _ in range(1000):
            drawn = rng.sample(living, count)
            places = sorted(living.index(name) for name in drawn)
            gaps = [(b - a) % len(living) or len(living) for a, b in zip(places, [*places[1:], places[0]], strict=True)]
            if min(gaps) > self.config.neighbours:
                return drawn
        raise TransportError(f"{count} of {len(living)} cannot be apart")

    async def kill_at_once(self, names: Sequence[str], settle_leases: float = 9.0) -> Kill:
        """Send SIGKILL to all of them at once, by their process ids, and let the ring come to rest."""
        lease, living = self.config.lease, self.alive()
        monitors = {name: self._monitors(name, living) - set(names) for name in names}
        gone_before = len(self.departures())
        self.gone |= set(names)
        await self.lateness()
        at = boot_time_ns()
        for name in names:
            self.process_of(name).kill()
        await asyncio.sleep(NOTICED * lease / 1e9)
        p99, worst = await self.lateness()
        await asyncio.gather(*(self.process_of(name).wait() for name in names))
        await asyncio.sleep((settle_leases - NOTICED) * lease / 1e9)
        per_monitor, last, missing = [], [], 0
        for name in names:
            times = [self._suspected(monitor, name, at) for monitor in sorted(monitors[name])]
            found = [(when - at) / lease for when in times if when is not None]
            missing += len(times) - len(found)
            per_monitor += found
            last += [max(found)] if found else []
        return Kill(
            killed=tuple(names),
            alive=len(self.alive()),
            extra=len(self.departures()) - gone_before,
            per_monitor=tuple(per_monitor),
            all_monitors=tuple(last),
            missing=missing,
            late_p99=p99 / lease,
            late_worst=worst / lease,
        )

    def _monitors(self, name: str, living: list[str]) -> set[str]:
        place, size, each = living.index(name), len(living), self.config.neighbours
        return {living[(place + step) % size] for step in range(-each, each + 1) if step}

    def _suspected(self, monitor: str, peer: str, after: Instant) -> Instant | None:
        """Return when that monitor first suspected that peer after the instant; None if it never did."""
        said = [told for name, told in self.told if name == monitor and (told.event, told.peer) == ("suspected", peer)]
        return next((told.clock for told in said if told.clock >= after), None)

    async def lateness(self) -> tuple[Duration, Duration]:
        """Return the worst 99th percentile of a half second, and the worst nap, since this was last asked."""
        found = [await control.p99_and_worst() for control in self._controls]
        p99, worst = (max(values) for values in zip(*found, strict=True))
        self.worst_late = max(self.worst_late, p99)
        return p99, worst


def config_for(lease: Duration, size: int, as_printed: bool = False) -> ArbitrationConfig:
    """Return a configuration with T_a = T_l / 2 in which nobody comes back, so that survivors can be counted."""
    if as_printed:
        return ArbitrationConfig.paper(lease=lease, arbitration=lease // 2, neighbours=3)
    return ArbitrationConfig.practical(size, lease=lease, arbitration=lease // 2, neighbours=3, rejoin=False)


def kill_groups(
    size: int,
    lease: Duration,
    groups: Sequence[int],
    seed: int,
    tries_max: int = TRIES_MAX,
    *,
    as_printed: bool = False,
) -> RealRun:
    """Kill groups of these sizes in a ring of real processes, one after another; again, if the machine was too late.

    The members of a group are apart from each other; with `as_printed` they are drawn at random, as in the paper, and
    the ring runs in the paper's own mode.
    """
    run = asyncio.run(_kill_groups(size, lease, groups, seed, 1, as_printed))
    while not run.valid and run.tries < tries_max:
        run = asyncio.run(_kill_groups(size, lease, groups, seed + run.tries, run.tries + 1, as_printed))
    return run


async def _kill_groups(
    size: int, lease: Duration, groups: Sequence[int], seed: int, tries: int, as_printed: bool
) -> RealRun:
    rng, config = Random(seed), config_for(lease, size, as_printed)
    kills = []
    with TemporaryDirectory(prefix="doyen-ring-") as folder:
        async with RingCluster(size, config, Path(folder), seed=seed) as cluster:
            await cluster.start_founders()
            await asyncio.sleep((GRACE + max(3 * lease, seconds(1))) / 1e9)
            await cluster.lateness()
            since_start, cluster.worst_late = cluster.worst_late, 0  # To start 64 processes makes any machine late.
            for count in groups:
                await asyncio.sleep(rng.random() * lease / 1e9)
                if len(cluster.alive()) <= 2 * size // 3:
                    break
                drawn = rng.sample(cluster.alive(), count) if as_printed else cluster.apart(count, rng)
                kills.append(await cluster.kill_at_once(drawn))
            await cluster.lateness()
            late, left_over = cluster.worst_late if kills else since_start, len(cluster.alive())
    return RealRun(
        size=size,
        lease=lease,
        arbitration=config.arbitration,
        kills=tuple(kills),
        tries=tries,
        started=size,
        left_over=left_over,
        worst_late=late / lease,
    )
