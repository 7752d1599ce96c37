"""`doyen bench pole`: leaders of a real POLE group are killed; when does the next one act, and does it act alone?

On loopback, again and again, with short leases; or once, over a network with a paper's round trips, where the successor
must be the one that the oracle prefers.  Each voter is an application on the public API that acts every 5 ms while it
leads (`proving.witness`); a takeover lasts from the SIGKILL until the first act of another leader.
"""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Final

from msgspec import Struct

from doyen.core.clock import Duration, format_duration, ms, seconds
from doyen.core.ids import NodeId
from doyen.core.order import order
from doyen.errors import ConfigError
from doyen.node.control import ask
from doyen.score.oracles import MEASURED, ORACLES
from doyen_lab.lateness import Lateness
from doyen_lab.proving.combination import GROUP, Combination
from doyen_lab.proving.ground import Ground
from doyen_lab.proving.history import Life, reigns
from doyen_lab.proving.judge import together
from doyen_lab.switch import Loopback, Switch
from doyen_papers.score.oracles import score_all

MEDIAN_MAX_S = 1.0
ACT_EVERY_S = 0.005
LEASE: Duration = ms(500)
WIDE_LEASE: Duration = seconds(1)
# In round trips, from the first voter that learns of a crash to the proposal of the last: that one's connection ends,
# it tries to connect again, and it stands once it has heard a majority that has heard it.
VOTERS_LEARN: Final = 4
MEASURED_S = 10.0  # Round trips are means over this time; what was measured while all started is forgotten by then.
TIED_MS = 3.0  # Scores of a real network closer than this are a tie.


def voters(network: Switch | Loopback, folder: str, names: list[str], **tables: Any) -> Ground:
    """Return a group that votes, and acts often; `tables` are arguments of `doyen.join` for all."""
    ground = Ground(network, Combination(name="pole", election="pole", tables=tables), Path(folder))
    ground.labels, ground.voters, ground.act_every_s = names, names, ACT_EVERY_S
    return ground


class Seen(Struct, frozen=True, kw_only=True):
    """A summary of what the voters did as leaders."""

    acts: int
    reigns: int
    leaders_per_epoch_max: int
    overlap: Duration  # How long two acted at once, in all.
    epochs_back: int  # Acts in an epoch below one that had been acted in before.

    @classmethod
    def of(cls, lives: list[Life]) -> "Seen":
        found = reigns(lives)
        leaders: dict[int, set[str]] = {}
        for reign in found:
            leaders.setdefault(reign.term, set()).add(reign.life.partition("#")[0])
        acts = sorted((record.at, record.term) for life in lives for record in life.records if record.kind == "act")
        back = greatest = 0
        for _, epoch in acts:
            back += epoch < greatest
            greatest = max(greatest, epoch)
        return cls(
            acts=len(acts),
            reigns=len(found),
            leaders_per_epoch_max=max(map(len, leaders.values()), default=0),
            overlap=together(found),
            epochs_back=back,
        )

    @property
    def sound(self) -> bool:
        return (self.leaders_per_epoch_max, self.overlap, self.epochs_back) == (1, 0, 0)


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
    """Kill the leader `kills` times, each time of a full group; those killed come back with the files they left."""
    if not 3 <= nodes <= 15:
        raise ConfigError(f"{nodes} is out of range: give 3 to 15", field="nodes")
    if kills < 1:
        raise ConfigError(f"{kills} is too few: give 1 or more", field="kills")
    if lease < ms(100):
        raise ConfigError(f"{format_duration(lease)} is too short for timers here: give 100ms or more", field="lease")
    names = [f"p{i}" for i in range(1, nodes + 1)]
    rng, each = Random(seed), list[Takeover]()
    with tempfile.TemporaryDirectory(prefix="doyen-pole-") as folder:
        async with Lateness() as control, voters(Loopback(nodes), folder, names, pole=timers(lease)) as group:
            await group.start_all()
            for _ in range(kills):
                await group.settled()
                await asyncio.sleep(rng.random() * lease / 1e9)  # At any phase of its heartbeat.
                each.append(await _kill(group, control, await group.settled()))
                if on_kill is not None:
                    on_kill(each[-1])
                await group.start(each[-1].victim)
            seen = Seen.of(group.lives)
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
        holds=median(taken) < MEDIAN_MAX_S and seen.sound,
        each=each,
    )


def timers(lease: Duration, election: Duration | None = None, score_timeout: Duration = 0) -> dict[str, str]:
    """Return the table `pole` of every voter."""
    found = {"lease": lease, "heartbeat_interval": lease // 5, "election_timeout": election or lease // 5}
    return {name: format_duration(value) for name, value in (found | {"score_timeout": score_timeout}).items()}


async def _kill(group: Ground, control: Lateness, leader: str) -> Takeover:
    await control.worst()
    killed_at = await group.kill(leader)
    life, act = await group.act_of_another(leader, killed_at)
    return Takeover(
        victim=leader,
        successor=life.label,
        epoch=act.term,
        takeover_s=(act.at - killed_at) / 1e9,
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


async def succeed(layout: Layout, oracle: str, *, lease: Duration = WIDE_LEASE) -> Succession:
    """Kill the deployment's leader.  Needs root: every voter has a namespace of its own, behind a switch that delays.

    Clients of the dead leader go to the others of its data centre; the voters are told the rates that come of that
    from the start, for the first leader leads whatever its score is.
    """
    if oracle not in ORACLES:
        raise ConfigError(f"{oracle!r} is none of {', '.join(ORACLES)}", field="oracle")
    servers, first = layout.servers, layout.leader
    longest = ms(max(value for row in layout.rtt_ms.values() for value in row.values()))
    election = max(ms(200), VOTERS_LEARN * longest)
    tables = {
        "oracle": "score" if oracle == "history" else oracle,  # Equal standings: histories of equal length.
        "pole": timers(lease, election, seconds(2)) | {"retry_max": format_duration(2 * election)},
    }
    with tempfile.TemporaryDirectory(prefix="doyen-pole-") as folder, Switch(len(servers)) as network:
        for i, a in enumerate(servers):
            for j, b in enumerate(servers[:i]):
                network.set(i, j, delay=ms(layout.rtt_ms[a][b] / 2))
        async with Lateness() as control, voters(network, folder, [str(name) for name in servers], **tables) as group:
            group.fields = {"control": True}
            for name in servers:
                rate = layout.rates[name] + heritage(layout, name).get(first, 0.0)
                group.own_fields[name] = {"request_rate": rate}
            await group.start_all()
            await _let_lead_in_turn(group, first, sorted(servers, key=order).index(first))
            await asyncio.sleep(MEASURED_S)
            leader = await group.settled()
            takeover = await _kill(group, control, leader)
            successor = await group.settled()
            seen, late_s = Seen.of(group.lives), network.traffic().overdue_max_s
            named = [record for record in group.running[successor].life.records if record.kind == "elected"]
    right = rightful(layout, oracle, NodeId(leader), takeover.epoch)
    return Succession(
        deployment=layout.name,
        oracle=oracle,
        leader_before=leader,
        leader_after=takeover.successor,
        right=right,
        takeover_s=takeover.takeover_s,
        rtt_ms={name: trip for name, trip in named[-1].rtt.items() if name != leader},
        overlap_s=seen.overlap / 1e9,
        leaders_per_epoch_max=seen.leaders_per_epoch_max,
        switch_late_s=late_s,
        holds=takeover.successor in right and (seen.overlap, seen.leaders_per_epoch_max) == (0, 1),
    )


async def _let_lead_in_turn(group: Ground, first: str, place: int) -> None:
    """Hand leadership over until the first leader leads in an epoch of its own turn: the next turn depends on it."""
    size, leader = len(group.labels), await group.settled()
    while (leader, ((epoch := group.running[leader].life.term) - 1) % size) != (first, place):
        others = [name for name in group.labels if name not in (leader, first)]
        to = first if leader != first and epoch % size == place else others[0]
        group.note(f"after {leader} had resigned", group.merging)
        door = group.folder / "run" / GROUP / f"{leader}.sock"
        await asyncio.to_thread(ask, door, "resign", to=to, cooldown=0)
        leader = await group.settled()


def heritage(layout: Layout, name: NodeId) -> dict[NodeId, float]:
    """Return the requests per second that come over from each other server of its data centre, should that one die."""
    mates = [node for node in layout.servers if layout.centres[node] == layout.centres[name]]
    return {dead: layout.rates[dead] / (len(mates) - 1) for dead in mates if dead != name}


def rightful(layout: Layout, oracle: str, dead: NodeId, epoch: int) -> tuple[str, ...]:
    """Return who ought to lead by the round trips as they are set; those within `TIED_MS` of the best are as good."""
    found = score_all(ORACLES[oracle], layout.rtt_ms, layout.rates, exclude=dead, reattribute=True, epoch=epoch)
    best = found.scores[found.leader]
    if oracle not in MEASURED or best is None:
        return (found.leader,)
    near = [node for node, value in found.scores.items() if value is not None and value <= best + TIED_MS]
    return tuple(sorted(near, key=order))
