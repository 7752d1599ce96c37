"""A ring of real processes, from outside: killed by their ids, judged by what they tell.

A kill counts as valid only if the machine kept time: between it and the last suspicion, a control process on each
processor woke late by at most a tenth of T_l at the 99th percentile of every half second.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from random import Random

import msgspec
from msgspec import Struct

from doyen.core.clock import Duration, Instant
from doyen.errors import TransportError
from doyen.membership.ring import ArbitrationConfig
from doyen.net.driver import boot_time_ns
from doyen.testing.processes import Processes
from doyen_lab.netns import free_ports
from doyen_lab.ring_nursery import Brood, RingTold, seats

_TOLD = msgspec.json.Decoder(RingTold)
LATE_SHARE_MAX = 0.1  # Of T_l.


class Kill(Struct, frozen=True, kw_only=True):
    """What came of one group of members that was killed at once; times are in T_l."""

    killed: tuple[str, ...]
    alive: int  # After it had settled.
    extra: int  # Left besides.
    per_monitor: tuple[float, ...]
    all_monitors: tuple[float, ...]
    missing: int  # Monitors that never told.
    late_p99: float  # Share of T_l.
    late_worst: float

    @property
    def valid(self) -> bool:
        return self.late_p99 <= LATE_SHARE_MAX


class RingCluster:
    """The processes of one ring; use it as an async context manager, and nothing is left behind."""

    def __init__(
        self, size: int, config: ArbitrationConfig, *, seed: int = 1, leader: bool = False, joiners: int = 0
    ) -> None:
        self.config, self.size = config, size
        self.brood = Brood(
            size=size, port=free_ports(size + joiners), config=config, seed=seed, leader=leader, joiners=joiners
        )
        places = seats(self.brood)[:size]
        self.ring = sorted(places)
        self.pids: dict[str, int] = {}
        self.told: list[RingTold] = []
        self._processes = Processes()
        self._killed: set[str] = set()

    async def __aenter__(self) -> "RingCluster":
        command = [sys.executable, "-m", "doyen_lab.ring_nursery", msgspec.json.encode(self.brood).decode()]
        self._nursery = await self._processes.launch(
            "nursery", command, on_line=lambda line, _: self._hear(_TOLD.decode(line)), has_input=True
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._nursery.close_input()  # The nursery ends all when its input ends.
        await self._nursery.wait()

    def _hear(self, told: RingTold) -> None:
        self.told.append(told)
        if told.event == "started":
            self.pids[told.name] = told.pid

    async def until(self, holds: Callable[[], bool], timeout_s: float) -> None:
        """Wait until it holds; asked again after every line."""
        await self._processes.changes.until(holds, timeout_s)

    async def until_started(self, timeout_s: float = 60.0) -> None:
        try:
            await self.until(lambda: len(self.pids) >= self.size or not self._nursery.alive, timeout_s)
        except TimeoutError:
            raise TransportError(f"only {len(self.pids)} of {self.size} started in {timeout_s:g} s") from None
        if not self._nursery.alive:
            raise TransportError(f"the nursery ended with {self._nursery.returncode}")

    def alive(self) -> list[str]:
        """Return the founders that run, were not killed, and did not say that they left; in the order of the ring."""
        left = {told.name for told in self.told if told.event == "left"}
        return [s.node for s in self.ring if s.node in self.pids and s.node not in left | self._killed]

    def departures(self) -> list[RingTold]:
        return [told for told in self.told if told.event == "left" and told.name not in self._killed]

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

    async def kill(self, names: Sequence[str], settle_leases: float = 9.0) -> Kill:
        """Send SIGKILL to all of them at once, by their process ids, and let the ring come to rest."""
        lease = self.config.lease
        living = self.alive()
        monitors = {name: self._monitors(name, living) - set(names) for name in names}
        gone_before = len(self.departures())
        self._killed |= set(names)
        at = boot_time_ns()
        for name in names:
            os.kill(self.pids[name], signal.SIGKILL)
        await asyncio.sleep(settle_leases * lease / 1e9)
        per_monitor, last, missing = [], [], 0
        for name in names:
            times = [self._suspected(monitor, name, at) for monitor in sorted(monitors[name])]
            found = [(when - at) / lease for when in times if when is not None]
            missing += len(times) - len(found)
            per_monitor += found
            last += [max(found)] if found else []
        p99, worst = self._lateness(at, at + 3 * lease)
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
        return next((t.clock for t in self.told if _says(t, "suspected", monitor, peer) and t.clock >= after), None)

    def _lateness(self, since: Instant, until: Instant) -> tuple[Duration, Duration]:
        """Return the worst 99th percentile and the worst nap of the half seconds that touch this time."""
        found = [t for t in self.told if t.event == "lateness" and since <= t.clock and t.clock - 600_000_000 <= until]
        return max((t.nap_p99 for t in found), default=0), max((t.nap_worst for t in found), default=0)

    def lateness(self, since: Instant) -> Duration:
        """Return the worst 99th percentile since then."""
        return self._lateness(since, boot_time_ns())[0]

    def join(self) -> None:
        """Let one more process join the ring."""
        self._nursery.write(b"join\n")


def _says(told: RingTold, event: str, name: str, peer: str) -> bool:
    return told.event == event and told.name == name and told.peer == peer
