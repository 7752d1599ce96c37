"""`doyen bench kill`: the leaders of a real group on loopback are killed; how long are the others without one?

The takeover lasts from the SIGKILL until the last survivor came to hold the best survivor, provided that all of them
held it, unchanged, for two announce intervals.  Both are known from the survivors' own lines: every line that an agent
writes carries the instant of the clock that all processes of a machine share.

A control process tells how late timers were on this machine meanwhile; a kill during which it was too late for a
fair measurement counts for nothing, and is repeated.
"""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from msgspec import Struct

from doyen.core.clock import Duration, Instant, ms, to_seconds
from doyen.election.announce.config import AnnounceConfig
from doyen.errors import ConfigError, TransportError
from doyen.testing.processes import config_flags, multicast_on_loopback
from doyen_lab.contest.figures import median_of
from doyen_lab.contest.ours import Ours
from doyen_lab.lateness import Lateness
from doyen_lab.switch import Loopback

LATENESS_MAX = ms(100)
SLACK = ms(300)  # On top of T_L + T_S: messages, processes, a lost wake-up.
PATIENCE_S = 15.0  # Then they will not agree any more.
TIMERS = AnnounceConfig(
    announce_interval=ms(200), listen_timeout=ms(600), suppress_interval=ms(150), group_size=5
)  # [LE §5.4.4] T_A ≥ T_S + Δ, T_L = 3·T_A.


class Kill(Struct, frozen=True, kw_only=True):
    """One leader killed."""

    victim: str
    pid: int
    heir: str  # The best survivor.
    survivors: int
    takeover_s: float | None  # Until all survivors held the heir; null: they never did.
    lateness_s: float  # The control process's worst, from before the kill until the takeover was proven.
    counted: bool  # False: the machine was late, so this one was repeated.


class Takeovers(Struct, frozen=True, kw_only=True):
    """The figures of a series of kills; only counted ones are in them."""

    nodes: int
    kills: int
    agreed: int  # Kills after which all survivors held the best of them.
    repeated: int  # Kills that did not count: the machine was late.
    median_s: float | None
    worst_s: float | None  # null: after some kill they never agreed.
    bound_s: float  # T_L + T_S + 0.3 s.
    lateness_worst_s: float  # Over the counted ones.
    holds: bool  # All agreed each time, and the worst is below the bound.
    each: list[Kill]

    @classmethod
    def of(cls, nodes: int, config: AnnounceConfig, each: list[Kill]) -> "Takeovers":
        counted = [kill for kill in each if kill.counted]
        taken = [kill.takeover_s for kill in counted if kill.takeover_s is not None]
        bound_s = to_seconds(config.listen_timeout + config.suppress_interval + SLACK)
        all_agreed = bool(counted) and len(taken) == len(counted)
        return cls(
            nodes=nodes,
            kills=len(counted),
            agreed=len(taken),
            repeated=len(each) - len(counted),
            median_s=median_of(taken),
            worst_s=max(taken) if all_agreed else None,
            bound_s=bound_s,
            lateness_worst_s=max((kill.lateness_s for kill in counted), default=0.0),
            holds=all_agreed and max(taken) < bound_s,
            each=each,
        )


async def kill_leaders(
    *,
    nodes: int = 5,
    kills: int = 50,
    seed: int = 1,
    config: AnnounceConfig = TIMERS,
    on_kill: Callable[[Kill], None] | None = None,
) -> Takeovers:
    """Kill the leader `kills` times, each time of a full group; those killed are started again."""
    if not 2 <= nodes <= 64:
        raise ConfigError(f"{nodes} is out of range: give 2 to 64", field="nodes")
    if not 1 <= kills:
        raise ConfigError(f"{kills} is too few: give 1 or more", field="kills")
    names = [f"n{i:02}" for i in range(1, nodes + 1)]  # Standings are equal, so the last of these is the best.
    each: list[Kill] = []
    rng = Random(seed)
    flags = ["--group", "takeover", "--election", "announce", *config_flags(config), *multicast_on_loopback()]
    with tempfile.TemporaryDirectory(prefix="doyen-bench-") as folder:
        group = Ours("takeover", Loopback(nodes), Path(folder), flags, names=names)
        async with Lateness() as control, group:
            await group.start_all()
            while sum(kill.counted for kill in each) < kills:
                if len(each) > 3 * kills + 10:
                    raise TransportError(
                        f"in {sum(not kill.counted for kill in each)} of {len(each)} kills this machine's timers were "
                        f"late by more than {LATENESS_MAX // 10**6} ms: run this on a quieter one"
                    )
                if await _held(group, names[-1], config) is None:
                    raise TransportError(f"the group did not agree within {PATIENCE_S:g} s: {group.who_names_whom()}")
                await asyncio.sleep(rng.random() * to_seconds(config.announce_interval))  # At any phase of heartbeats.
                each.append(await _kill(group, control, names[-1], names[-2], config))
                if on_kill is not None:
                    on_kill(each[-1])
                await group.start_member(names[-1])
    return Takeovers.of(nodes, config, each)


async def _kill(group: Ours, control: Lateness, victim: str, heir: str, config: AnnounceConfig) -> Kill:
    await control.worst()
    pid, killed_at = group.process_of(victim).pid, await group.kill(victim)
    held_since = await _held(group, heir, config)
    lateness: Duration = await control.worst()
    return Kill(
        victim=victim,
        pid=pid,
        heir=heir,
        survivors=len(group.rest()),
        takeover_s=None if held_since is None else (held_since - killed_at) / 1e9,
        lateness_s=lateness / 1e9,
        counted=lateness <= LATENESS_MAX,
    )


async def _held(group: Ours, leader: str, config: AnnounceConfig) -> Instant | None:
    """Return since when all that live hold this leader, once they did for 2·T_A; None if they never do."""

    def look() -> tuple[str, Instant] | None:
        found = group.ledger.known(group.rest())
        return found if found is not None and found[0] == leader else None

    try:
        return (await group.ledger.steady(look, to_seconds(2 * config.announce_interval), PATIENCE_S))[1]
    except TimeoutError:
        return None
