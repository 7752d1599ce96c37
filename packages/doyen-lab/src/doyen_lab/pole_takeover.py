"""Leaders of a real POLE group killed: how long until the next one acts, and does anybody act at the same time?

On loopback, again and again, with short leases; or once, over a network with a paper's round trips, where the successor
must be the one that the oracle prefers.  A takeover lasts from the SIGKILL until the first act that the witness saw of
another leader.
"""

import asyncio
from collections.abc import Callable
from random import Random
from statistics import median

from msgspec import Struct

from doyen.core.clock import Duration, format_duration, ms, seconds
from doyen.core.ids import Address, NodeId
from doyen.core.order import order
from doyen.election.pole import PoleConfig
from doyen.errors import ConfigError
from doyen.score.oracles import MEASURED, ORACLES, score_all
from doyen.score.pingpong import PingPongConfig
from doyen_lab.lateness import Lateness
from doyen_lab.pole_group import Place, PoleGroup, on_loopback
from doyen_lab.switch import Switch

MEDIAN_MAX_S = 1.0
PORT = 7600
LEASE: Duration = ms(500)
WIDE_LEASE: Duration = seconds(1)
TIED_MS = 3.0  # Scores of a real network closer than this are a tie.


class Takeover(Struct, frozen=True, kw_only=True):
    victim: str
    successor: str
    epoch: int
    takeover_s: float
    lateness_s: float  # The worst of this machine's timers meanwhile.


class Takeovers(Struct, frozen=True, kw_only=True):
    nodes: int
    kills: int
    lease_s: float
    median_s: float
    worst_s: float
    acts: int
    reigns: int
    leaders_per_epoch_max: int
    overlap_s: float
    epochs_back: int
    lateness_worst_s: float
    holds: bool
    each: list[Takeover]


async def kill_leaders(
    *,
    nodes: int = 5,
    kills: int = 50,
    lease: Duration = LEASE,
    seed: int = 1,
    on_kill: Callable[[Takeover], None] | None = None,
) -> Takeovers:
    """Each time of a full group; the killed are started again, with the files they left."""
    if not 3 <= nodes <= 15:
        raise ConfigError(f"{nodes} is out of range: give 3 to 15", field="nodes")
    if kills < 1:
        raise ConfigError(f"{kills} is too few: give 1 or more", field="kills")
    if lease < ms(100):
        raise ConfigError(f"{format_duration(lease)} is too short for timers here: give 100ms or more", field="lease")
    config = PoleConfig(lease=lease, heartbeat_interval=lease // 5, election_timeout=lease // 5, score_timeout=0)
    names = [f"p{i}" for i in range(1, nodes + 1)]
    rng, each = Random(seed), list[Takeover]()
    async with Lateness() as control, PoleGroup(on_loopback(names), config) as group:
        await group.start_all()
        for _ in range(kills):
            await group.until_agreed()
            await asyncio.sleep(rng.random() * lease / 1e9)  # At any phase of its heartbeat.
            leader, _ = await group.until_agreed()
            await control.worst()
            takeover = await _kill(group, control, leader)
            each.append(takeover)
            if on_kill is not None:
                on_kill(takeover)
            await group.start(leader)
            await group.until(lambda name=leader: group.voters[name].started, f"{leader} is back")  # type: ignore[misc]
        seen = await group.seen()
    taken = [takeover.takeover_s for takeover in each]
    return Takeovers(
        nodes=nodes,
        kills=kills,
        lease_s=lease / 1e9,
        median_s=median(taken),
        worst_s=max(taken),
        acts=seen.acts,
        reigns=seen.reigns,
        leaders_per_epoch_max=seen.leaders_per_epoch_max,
        overlap_s=seen.overlap / 1e9,
        epochs_back=seen.epochs_back,
        lateness_worst_s=max(takeover.lateness_s for takeover in each),
        holds=median(taken) < MEDIAN_MAX_S
        and (seen.leaders_per_epoch_max, seen.overlap, seen.epochs_back) == (1, 0, 0),
        each=each,
    )


async def _kill(group: PoleGroup, control: Lateness, leader: str) -> Takeover:
    told = len(group.first_acts)
    killed_at = group.kill(leader)
    await group.voters[leader].process.wait()
    await group.until(lambda: any(a.leader != leader for a in group.first_acts[told:]), f"somebody acts after {leader}")
    act = next(act for act in group.first_acts[told:] if act.leader != leader)
    return Takeover(
        victim=leader,
        successor=act.leader,
        epoch=act.epoch,
        takeover_s=(act.clock - killed_at) / 1e9,
        lateness_s=(await control.worst()) / 1e9,
    )


class Succession(Struct, frozen=True, kw_only=True):
    """One leader killed over a made-up wide-area network."""

    deployment: str
    oracle: str
    leader_before: str
    leader_after: str
    right: tuple[str, ...]  # Who ought to lead: several where they are tied.
    takeover_s: float
    rtt_ms: dict[str, float]  # As the successor measured them.
    overlap_s: float
    leaders_per_epoch_max: int
    switch_late_s: float
    holds: bool


class Layout(Struct, frozen=True, kw_only=True):
    """A deployment, as far as processes need it."""

    name: str
    servers: tuple[NodeId, ...]
    rtt_ms: dict[NodeId, dict[NodeId, float]]
    rates: dict[NodeId, float]
    centres: dict[NodeId, str]
    leader: NodeId


async def succeed(layout: Layout, oracle: str, *, lease: Duration = WIDE_LEASE, measured_s: float = 3.0) -> Succession:
    """Needs root: every voter has a namespace of its own, behind a switch that delays."""
    if oracle not in ORACLES:
        raise ConfigError(f"{oracle!r} is none of {', '.join(ORACLES)}", field="oracle")
    servers = layout.servers
    longest = max(value for row in layout.rtt_ms.values() for value in row.values())
    config = PoleConfig(
        lease=lease,
        heartbeat_interval=lease // 5,
        election_timeout=max(ms(200), ms(2 * longest)),
        score_timeout=seconds(2),
    )
    with Switch(len(servers)) as network:
        for i, a in enumerate(servers):
            for j, b in enumerate(servers[:i]):
                network.set(i, j, delay=ms(layout.rtt_ms[a][b] / 2))
        places = {
            str(name): Place(Address(node.ipv4, PORT), tuple(node.wrap))
            for name, node in zip(servers, network.nodes, strict=True)
        }
        group = PoleGroup(
            places,
            config,
            oracle=oracle,
            first=layout.leader,
            epoch_before=sorted(servers, key=order).index(layout.leader),  # The first epoch is the first leader's turn.
            centres=layout.centres,
            pings=PingPongConfig(ping_interval=ms(200), window=seconds(5)),
        )
        async with Lateness() as control, group:
            await group.start_all(
                {name: {"rate": layout.rates[name], "heritage": heritage(layout, name)} for name in servers}
            )
            await group.until(lambda: group.agreed() is not None, "all name one leader")
            await asyncio.sleep(measured_s)
            leader, _ = await group.until_agreed()
            takeover = await _kill(group, control, leader)
            await group.until(lambda: (group.agreed() or ("", 0))[0] == takeover.successor, "all name the successor")
            seen = await group.seen()
            late_s = network.traffic().overdue_max_s
            right = rightful(layout, oracle, NodeId(leader), takeover.epoch)
            return Succession(
                deployment=layout.name,
                oracle=oracle,
                leader_before=leader,
                leader_after=takeover.successor,
                right=right,
                takeover_s=takeover.takeover_s,
                rtt_ms=group.voters[takeover.successor].rtt,
                overlap_s=seen.overlap / 1e9,
                leaders_per_epoch_max=seen.leaders_per_epoch_max,
                switch_late_s=late_s,
                holds=takeover.successor in right and (seen.overlap, seen.leaders_per_epoch_max) == (0, 1),
            )


def heritage(layout: Layout, name: NodeId) -> dict[NodeId, float]:
    """The clients of a dead server go to the others of its data centre, evenly."""
    mates = [node for node in layout.servers if layout.centres[node] == layout.centres[name]]
    return {dead: layout.rates[dead] / (len(mates) - 1) for dead in mates if dead != name}


def rightful(layout: Layout, oracle: str, dead: NodeId, epoch: int) -> tuple[str, ...]:
    """By the round trips as they are set; those within a few milliseconds of the best are as good."""
    found = score_all(ORACLES[oracle], layout.rtt_ms, layout.rates, exclude=dead, reattribute=True, epoch=epoch)
    best = found.scores[found.leader]
    if oracle not in MEASURED or best is None:
        return (found.leader,)
    near = [node for node, value in found.scores.items() if value is not None and value <= best + TIED_MS]
    return tuple(sorted(near, key=order))
