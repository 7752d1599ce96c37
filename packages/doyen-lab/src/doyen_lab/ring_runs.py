"""Figures 8 and 11 of [ARB] on real processes: groups killed at once, and how soon their monitors noticed.

A kill during which the machine did not keep time says nothing about the protocol: the run is made again, so often.
"""

import asyncio
from collections.abc import Sequence
from random import Random

from msgspec import Struct

from doyen.core.clock import Duration, seconds
from doyen.membership.ring import ArbitrationConfig
from doyen.net.driver import boot_time_ns
from doyen_lab.ring_cluster import LATE_SHARE_MAX, Kill, RingCluster
from doyen_lab.ring_nursery import GRACE

TRIES_MAX = 3


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
        """Whether the machine kept time throughout, so that what was asked for could be done."""
        return bool(self.kills) and self.worst_late <= LATE_SHARE_MAX


def config_for(lease: Duration, size: int) -> ArbitrationConfig:
    """Return a configuration with T_a = T_l / 2 in which nobody comes back, so that survivors can be counted."""
    return ArbitrationConfig.practical(size, lease=lease, arbitration=lease // 2, neighbours=3, rejoin=False)


def kill_groups(size: int, lease: Duration, groups: Sequence[int], seed: int, tries_max: int = TRIES_MAX) -> RealRun:
    """Kill groups of these sizes in a ring of real processes, one after another; again, if the machine was too late."""
    run = asyncio.run(_kill_groups(size, lease, groups, seed, 1))
    while not run.valid and run.tries < tries_max:
        run = asyncio.run(_kill_groups(size, lease, groups, seed + run.tries, run.tries + 1))
    return run


async def _kill_groups(size: int, lease: Duration, groups: Sequence[int], seed: int, tries: int) -> RealRun:
    rng, config = Random(seed), config_for(lease, size)
    kills = []
    async with RingCluster(size, config, seed=seed) as cluster:
        await cluster.until_started()
        started, began_at = len(cluster.pids), boot_time_ns()
        await asyncio.sleep((GRACE + max(3 * lease, seconds(1))) / 1e9)
        stands_at = boot_time_ns()  # To start 64 processes at once makes any machine late.
        for count in groups:
            await asyncio.sleep(rng.random() * lease / 1e9)
            if len(cluster.alive()) <= 2 * size // 3:
                break
            kills.append(await cluster.kill(cluster.apart(count, rng)))
        late, left_over = cluster.lateness(stands_at if kills else began_at) / lease, len(cluster.alive())
    return RealRun(
        size=size,
        lease=lease,
        arbitration=config.arbitration,
        kills=tuple(kills),
        tries=tries,
        started=started,
        left_over=left_over,
        worst_late=late,
    )
