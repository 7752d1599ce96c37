"""`doyen bench peers`: systems of one size side by side, left alone and counted, then robbed of their leaders.

All systems are up at the same time, on bridges of their own; they share the machine and its noise.  Faults come to each
system one after the other, to different systems at once: some need a minute to recover.

Takeover × traffic is the price of a failover that does not change when timers are scaled: half the timeout costs twice
the heartbeats.  It is the median takeover in seconds by the bytes per second that all processes send while idle.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.errors import TransportError
from doyen.net.driver import boot_time_ns
from doyen_lab.contest.entrant import Entrant
from doyen_lab.contest.entrants import STRONG
from doyen_lab.contest.figures import Fault, Idle, MeasuredProcess, Ratio, Sort, Takeovers, median_of, takeover_ratio
from doyen_lab.contest.trial import Lost, Trial, check_distinct, count_all, phase

PATIENCE_S = 120.0
MORE_MULT = 3  # Quick systems lose up to this many times as many leaders.
PAUSE_MAX_S = (
    4.0  # Faults come at any phase of heartbeats: ours every 1 or 1.25 s, serf's every second, kazoo's every 3.3.
)
SAMPLE_S = 5.0
# Theirs by ours, at least; gossip and quorum are published as they are.
KILL_AIMS = {"unicast": 3.0, "multicast": 10.0}
CUT_AIM, CUT_AIM_FROM = 3.0, 16  # The second: from this group size on.
RSS_AIM = 26e6  # With a key and HTTP.
# Elections among servers, ours with a key and a lease of 2 s: theirs by ours, at least, after a kill and after a cut.
# `will` and `will-multicast` leave a will to be sent after a kill; kills without one are published beside them.
SERVER_AIMS: dict[tuple[str, str], tuple[float, float]] = {
    ("will-multicast", "zookeeper-servers"): (3.0, 1.5),
    ("will-multicast", "etcd-servers"): (20.0, 20.0),
    ("will", "zookeeper-servers"): (1.0, 1.0),
    ("will", "etcd-servers"): (10.0, 10.0),
}
BYTES_AIMS = {(5, "unicast"): 1200.0, (3, "unicast"): 600.0, (5, "multicast"): 600.0}  # Bytes per second, all voters.
CPU_AIM = 1.0  # Percent of a core, all voters.
KILL_S_AIM, CUT_S_AIM = 0.3, 2.5  # Seconds until the next acts: with a will, and cut off.


class Loss(Struct, frozen=True, kw_only=True):
    """One leader lost; times are from the fault."""

    fault: Fault
    member: str
    pid: int
    heir: str | None = None
    acts_s: float | None = None  # Until exactly one other acted, and went on to; None: never.
    known_s: float | None = None  # Until all others named it, where members say so.
    join_s: float | None = None  # Killed ones: from its new start until all took part under one leader again.

    @classmethod
    def of(cls, lost: Lost) -> "Loss":
        back = lost.settled_at if lost.fault == "kill" else None
        return cls(
            fault=lost.fault,
            member=lost.member,
            pid=lost.pid,
            heir=lost.heir,
            acts_s=lost.after_s(lost.acts_at),
            known_s=lost.after_s(lost.known_at),
            join_s=None if back is None else (back - lost.restarted_at) / 1e9,
        )


class KnownTakeovers(Takeovers, frozen=True, kw_only=True):
    known_median_s: float | None  # Until all others knew.

    @classmethod
    def of_losses(cls, losses: Sequence[Loss]) -> "KnownTakeovers":
        known = [loss.known_s for loss in losses if loss.known_s is not None]
        plain = Takeovers.of([loss.acts_s for loss in losses])
        return cls(seconds=plain.seconds, median_s=plain.median_s, never=plain.never, known_median_s=median_of(known))


class Figures(Struct, frozen=True, kw_only=True):
    """One system at one size."""

    system: str
    nodes: int
    servers: int
    sort: Sort = "members"  # Servers elect among themselves; clients of servers hold a lock; the rest has no quorum.
    formed_s: float  # From the first member's start until all took part.
    idle: Idle
    kill: KnownTakeovers
    cut: KnownTakeovers
    join_s: float | None  # Median.
    losses: list[Loss]
    processes: list[MeasuredProcess]
    stopped: str = ""  # Why no further faults were tried.


class Absent(Struct, frozen=True, kw_only=True):
    """A system that could not be measured at this size, and why."""

    system: str
    nodes: int
    why: str


class Check(Struct, frozen=True, kw_only=True):
    """One figure beside its aim."""

    nodes: int
    system: str
    peer: str = ""
    what: str  # kill × traffic, cut × traffic, RSS, CPU, traffic, and the slowest takeovers in seconds
    value: float | None  # Of the first two: theirs by ours; None: somebody never took over.
    low: float | None = None  # Their best by our worst takeover.
    high: float | None = None
    aim: float | None = None  # None: published as it is.
    holds: bool | None = None


class Contest(Struct, frozen=True, kw_only=True):
    systems: list[Figures]
    absent: list[Absent]
    checks: list[Check]
    holds: bool


# Measuring.


class PeerTrial(Trial):
    """One system, which loses its leaders for as long as it settles."""

    def __init__(self, entrant: Entrant, on_step: Callable[[str], None]) -> None:
        super().__init__(
            entrant, patience_s=PATIENCE_S, on_step=lambda text: on_step(f"{entrant.label} N={entrant.size}: {text}")
        )
        self.losses: list[Loss] = []

    async def form(self) -> None:
        try:
            self.formed_s = await self.entrant.form(PATIENCE_S)
        except TransportError as error:
            self.give_up(error)
            await self.entrant.processes.stop()
        else:
            self.step(f"{len(self.entrant.entries())} processes, formed in {self.formed_s:.1f} s")

    async def begin(self, began_at: Instant) -> None:
        try:
            await self.settled()
            self.begin_counting(began_at)
        except TransportError as error:
            self.give_up(error)

    async def lose_leaders(self, wanted: dict[Fault, int], more_s: float, rng: Random) -> None:
        if self.meter is None:
            return
        loop = asyncio.get_running_loop()
        for fault, count in wanted.items():
            began, done, first = loop.time(), 0, rng.random()
            while done < count or (done < count * MORE_MULT and loop.time() - began < more_s):
                try:
                    await self.settled()
                    await asyncio.sleep(phase(done, first) * PAUSE_MAX_S)
                    loss = Loss.of(await self.lose_leader(fault))
                except TransportError as error:
                    self.give_up(error)
                    return
                self.losses.append(loss)
                done += 1
                self.step(f"{fault} {done}: {_shown(loss)}")

    def result(self, idle_s: float) -> Figures | Absent:
        entrant, losses = self.entrant, self.losses
        if self.meter is None:
            return Absent(system=entrant.label, nodes=entrant.size, why=self.why)
        return Figures(
            system=entrant.label,
            nodes=entrant.size,
            servers=len(entrant.servers),
            sort=sort_of(entrant.label),
            formed_s=self.formed_s,
            idle=Idle.of(self.samples, idle_s),
            kill=KnownTakeovers.of_losses([loss for loss in losses if loss.fault == "kill"]),
            cut=KnownTakeovers.of_losses([loss for loss in losses if loss.fault == "cut"]),
            join_s=median_of([loss.join_s for loss in losses if loss.join_s is not None]),
            losses=losses,
            processes=self.processes,
            stopped=self.why,
        )


async def measure(
    entrants: Sequence[Entrant],
    *,
    warm_up_s: float,
    idle_s: float,
    kills: int,
    cuts: int,
    more_s: float,  # Faults of one kind go on beyond those asked for while they have taken less than this.
    seed: int,
    on_step: Callable[[str], None] = lambda text: None,
) -> list[Figures | Absent]:
    began_at = boot_time_ns()
    trials = [PeerTrial(entrant, on_step) for entrant in entrants]
    for trial in trials:
        await trial.form()
    trials_up = [trial for trial in trials if not trial.why]
    await asyncio.sleep(warm_up_s)
    for trial in trials_up:
        await trial.begin(began_at)
    on_step(f"counting for {idle_s:g} s")
    await count_all(trials_up, idle_s, SAMPLE_S)
    for trial in trials_up:
        trial.look()
    check_distinct([entry for trial in trials_up for entry in trial.processes])
    wanted: dict[Fault, int] = {"kill": kills, "cut": cuts}
    async with asyncio.TaskGroup() as tasks:
        for trial in trials_up:
            rng = Random(f"{seed} {trial.entrant.label} {trial.entrant.size}")
            tasks.create_task(trial.lose_leaders(wanted, more_s, rng))
    return [trial.result(idle_s) for trial in trials]


def _shown(loss: Loss) -> str:
    if loss.acts_s is None:
        return "nobody acts in its place"
    known = "" if loss.known_s is None else f", all know after {loss.known_s:.2f} s"
    join = "" if loss.join_s is None else f", back in {loss.join_s:.2f} s"
    return f"{loss.heir} acts after {loss.acts_s:.2f} s{known}{join}"


# Aims.


def price(takeovers: Takeovers, idle: Idle) -> float | None:
    """Return takeover × traffic, in bytes."""
    return None if takeovers.median_s is None else takeovers.median_s * idle.bytes_per_s.mean


def price_ratio(ours: Figures, theirs: Figures, fault: Fault) -> Ratio | None:
    """Return their price by ours; the spread is that of single takeovers, at the mean traffic."""
    mine, other = takeovers_of(ours, fault), takeovers_of(theirs, fault)
    if not price(mine, ours.idle) or not other.seconds:
        return None
    traffic = theirs.idle.bytes_per_s.mean / ours.idle.bytes_per_s.mean
    return takeover_ratio(other.seconds, mine.seconds, traffic)


def takeovers_of(figures: Figures, fault: Fault) -> KnownTakeovers:
    return figures.kill if fault == "kill" else figures.cut


def checks(systems: Sequence[Figures]) -> list[Check]:
    """Hold every system of ours against every peer of the same size, and against its own bounds."""
    found: list[Check] = []
    for ours in (figures for figures in systems if is_ours(figures.system)):
        peers = [other for other in systems if other.nodes == ours.nodes and not is_ours(other.system)]
        fast = way(ours.system) in KILL_AIMS
        if way(ours.system) in STRONG and ours.system.endswith("+key"):
            found += _strong_checks(ours)
        for peer in peers:
            server_aims = SERVER_AIMS.get((way(ours.system), peer.system))
            if sort_of(peer.system) == "servers":
                if way(ours.system) in STRONG:
                    found.append(_price_check(ours, peer, "kill", server_aims and server_aims[0]))
                    found.append(_price_check(ours, peer, "cut", server_aims and server_aims[1]))
                continue
            found.append(_price_check(ours, peer, "kill", KILL_AIMS.get(way(ours.system))))
            found.append(_price_check(ours, peer, "cut", CUT_AIM if fast and ours.nodes >= CUT_AIM_FROM else None))
            if fast and peer.system == "serf":
                found.append(_below(ours, "CPU", ours.idle.cpu_percent.mean, peer.idle.cpu_percent.mean, peer.system))
        if ours.system.endswith("+key") and not way(ours.system).startswith("will"):  # Those are no agents.
            found.append(_below(ours, "RSS", ours.idle.rss_each.mean, RSS_AIM))
    return found


def _strong_checks(ours: Figures) -> list[Check]:
    """Hold a quorum against its own bounds: traffic, CPU, and the slowest of its takeovers."""
    named = way(ours.system)
    found = [_below(ours, "CPU", ours.idle.cpu_percent.mean, CPU_AIM)]
    bytes_aim = BYTES_AIMS.get((ours.nodes, "multicast" if named.endswith("multicast") else "unicast"))
    if bytes_aim is not None:
        found.append(_below(ours, "traffic", ours.idle.bytes_per_s.mean, bytes_aim))
    if ours.kill.seconds and named.startswith("will"):
        found.append(_below(ours, "killed, slowest", max(ours.kill.seconds), KILL_S_AIM))
    if ours.cut.seconds:
        found.append(_below(ours, "cut off, slowest", max(ours.cut.seconds), CUT_S_AIM))
    return found


def _price_check(ours: Figures, peer: Figures, fault: Fault, aim: float | None) -> Check:
    ratio = price_ratio(ours, peer, fault)
    holds: bool | None = None
    if takeovers_of(ours, fault).never:
        holds = False
    elif aim is not None and ratio is not None:
        holds = ratio.ratio >= aim
    return Check(
        nodes=ours.nodes,
        system=ours.system,
        peer=peer.system,
        what=f"{fault} × traffic",
        value=None if ratio is None else ratio.ratio,
        low=None if ratio is None else ratio.low,
        high=None if ratio is None else ratio.high,
        aim=aim,
        holds=holds,
    )


def _below(ours: Figures, what: str, value: float, aim: float, peer: str = "") -> Check:
    return Check(nodes=ours.nodes, system=ours.system, peer=peer, what=what, value=value, aim=aim, holds=value <= aim)


def sort_of(system: str) -> Sort:
    """Return in which column a system stands."""
    if system.endswith("-servers") or (is_ours(system) and way(system) in STRONG):
        return "servers"
    return "clients" if system in ("zookeeper", "etcd") else "members"


def is_ours(system: str) -> bool:
    return system.startswith("doyen ")


def way(system: str) -> str:
    """Return which of ours a system is: `doyen unicast+key` → unicast."""
    return system.removeprefix("doyen ").removesuffix("+key")
