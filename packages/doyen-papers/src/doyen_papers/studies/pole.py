"""The experiments of [POLE §4]: a replicated service over several data centres loses its leader.

120 s; the first leader is given, and killed after 60; resignation is off.  Scores come from the oracles' own
measurements (ping-pong heartbeats), elections from the real machine.  Latency is that of the requests that came and
were done within the last 50 s before the crash, and within the last 50 s of the run.

    latency         ms; per data centre and overall.  `mean` overall weighs data centres by their part of the requests;
                    `worst` overall is the greatest mean of a data centre that sends requests
    election_time   s, from the crash until the new leader acts
    recovery_time   s, from then until it serves
    messages        sent, by whom: the election, the oracle's pings, the service
"""

from collections.abc import Callable
from functools import partial
from statistics import fmean
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from doyen.core.clock import FOREVER, Duration, Instant, ms, seconds
from doyen.core.config import need
from doyen.core.host import Host
from doyen.core.ids import NodeId
from doyen.core.leadership import LeaderElected
from doyen.core.rank import OracleStanding
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.machine import Pole
from doyen.election.pole.promise import VoterRecord
from doyen.errors import ConfigError
from doyen.score.oracles import HISTORY, LATENCY, MEASURED, ORACLES, Oracle
from doyen.score.pingpong import PingPong, PingPongConfig
from doyen.score.vectors import Scorer
from doyen.sim.network import Delay, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.runs import Figure, figure, run_many
from doyen.sim.streams import Streams
from doyen.sim.trace import Trace
from doyen_papers.score.oracles import composite, preference
from doyen_papers.studies.frame import simulation
from doyen_papers.studies.pole_places import REQUESTS_PER_S, RTT_MAX_MS, Deployment, deployment
from doyen_papers.studies.service import (
    NIC_BITS_PER_S,
    ComeBack,
    Recovered,
    Replica,
    Request,
    Served,
    State,
    tcp_bits_per_s,
)

ELECTION: Final = "election"
PINGS: Final = "oracle"
FIRST_EPOCH: Final = 5  # p5's turn, for the rotating oracle: the next is p1's.
SERVICE: Final = "service"
CRASH_AT: Final[Duration] = seconds(60)
END_AT: Final[Duration] = seconds(120)
MEASURED_FOR: Final[Duration] = seconds(50)
SNAPSHOT_MAX: Final = 10**12
INTERVAL_MAX: Final[Duration] = seconds(2)  # Each server that gets any requests gets some in every window.
PARETO_SD: Final = 0.75**0.5  # Of a Pareto distribution of shape 3 from 1; its mean is 1.5.

#: By name; the composite is the paper's example, "the fattest among the fastest".
CHOICES: Final[dict[str, Oracle]] = ORACLES | {"composite": composite((LATENCY, 10.0), (HISTORY, 1.0))}


def oracle_of(name: str) -> Oracle:
    """Return one of `CHOICES`, or the oracle of `preference:p3,p4`."""
    kind, colon, names = name.partition(":")
    if kind == "preference" and names:
        listed = [NodeId(node.strip()) for node in names.split(",")]
        try:
            return preference(listed)
        except ConfigError as error:
            raise ConfigError(f"{name!r}: {error}", field="oracle") from None
    if colon or name not in CHOICES:
        known = ", ".join(CHOICES)
        raise ConfigError(f"{name!r} is none of {known}, and no list like preference:p3,p4", field="oracle")
    return CHOICES[name]


class ServiceSetting(Struct, frozen=True, kw_only=True):
    deployment: str = "1"
    oracle: str = "latency"
    share: float | None = None  # Of all requests, from the deployment's data centre in question.
    outdated: tuple[str, ...] | None = None  # None: as the deployment has it.
    snapshot_bytes: int = 0
    jitter: float = 0.0  # Standard deviation of a delay, as a part of it.
    requests_per_s: float = 10.0  # That are simulated; each stands for its part of λ_T.
    rtt_ms: float | None = None  # Between all data centres, instead of the deployment's.

    def __post_init__(self) -> None:
        oracle_of(self.oracle)
        need(0 <= self.jitter <= 0.2, "jitter", f"{self.jitter:g} must be from 0 to 20%")
        need(0 <= self.snapshot_bytes <= SNAPSHOT_MAX, "snapshot", "must be 0 to 1 TB")
        need(0.1 <= self.requests_per_s <= 10_000, "requests_per_s", "must be 0.1 to 10000")
        need(self.rtt_ms is None or 0 <= self.rtt_ms <= RTT_MAX_MS, "rtt", f"must be 0 to {RTT_MAX_MS} ms")
        place = self.place()
        _, _, preferred = self.oracle.partition(":")
        for server in preferred.split(",") if preferred else ():
            need(server.strip() in place.servers, "oracle", f"{server!r}: one of {', '.join(place.servers)}")
        for server in self.outdated or ():
            need(server in place.servers, "outdated", f"{server}: one of {', '.join(place.servers)}")
        well = [s for s in place.servers if s not in place.outdated and s != place.leader]
        need(place.leader not in place.outdated, "outdated", f"{place.leader} leads first, so it has the history")
        need(len(well) >= len(place.servers) // 2, "outdated", "must leave a quorum with the history")

    def place(self) -> Deployment:
        place = deployment(self.deployment)
        if self.share is not None:
            place = place.with_share(self.share)
        if self.rtt_ms is not None:
            place = replace(place, rtt_ms=dict.fromkeys(place.rtt_ms, self.rtt_ms))
        if self.outdated is not None:
            place = replace(place, outdated=tuple(NodeId(server) for server in self.outdated))
        return place


class Latency(Struct, frozen=True):
    mean: float | None
    worst: float | None


class Run(Struct, frozen=True, kw_only=True):
    leader_before: NodeId | None
    leader_after: NodeId | None
    before: dict[str, Latency]  # By data centre, and "overall".
    after: dict[str, Latency]
    election_time: float | None
    recovery_time: float | None
    messages: dict[str, int]
    timeline: dict[str, list[tuple[float, float, int]]]  # By data centre: second, mean latency, requests done.
    trace_hash: str


class Summary(Struct, frozen=True, kw_only=True):
    """Figures over many runs, for the papers."""

    mean: Figure | None
    worst: Figure | None
    by_centre: dict[str, Figure | None]
    before: Figure | None
    recovery_time: Figure | None
    timeline: dict[str, list[tuple[float, float, int]]]  # Of the first run.


def study(
    setting: ServiceSetting, *, runs: int, seed: int, jobs: int = 0, progress: Callable[[int], None] | None = None
) -> Summary:
    results = run_many(partial(simulate, setting), runs, seed, jobs=jobs, progress=progress)
    return Summary(
        mean=figure(result.after["overall"].mean for result in results),
        worst=figure(result.after["overall"].worst for result in results),
        by_centre={name: figure(result.after[name].mean for result in results) for name in results[0].after},
        before=figure(result.before["overall"].mean for result in results),
        recovery_time=figure(result.recovery_time for result in results),
        timeline=results[0].timeline,
    )


def simulate(setting: ServiceSetting, seed: int, *, trace: Trace | None = None) -> Run:
    return _Experiment(setting, seed, trace).run()


class Wire:
    """The network between two servers: half a round trip each way, jitter, in order; snapshots take their time."""

    def __init__(self, place: Deployment, jitter: float, streams: Streams) -> None:
        self._place, self._jitter = place, jitter
        self._draw = streams.of("jitter").random
        self._last_at: dict[tuple[NodeId, NodeId], Instant] = {}
        self._busy_until: dict[NodeId, Instant] = {}

    def delay(self, a: NodeId, b: NodeId, message: Any, now: Instant) -> Duration:
        one_way = round(self._place.between(a, b) * 1e6) // 2
        if self._jitter and one_way:  # A Pareto of shape 3, shifted and scaled to this mean and standard deviation.
            drawn = (1.0 - self._draw()) ** (-1 / 3)
            one_way = max(0, int(one_way * (1.0 + self._jitter * (drawn - 1.5) / PARETO_SD)))
        if isinstance(message, State) and message.size:
            return one_way + self._transfer(a, b, message.size, now)
        at = max(now + one_way, self._last_at.get((a, b), 0))
        self._last_at[a, b] = at
        return at - now

    def _transfer(self, a: NodeId, b: NodeId, size: int, now: Instant) -> Duration:
        """Return how long a snapshot takes on its own connection; those of one server use its interface in turn."""
        begins = max(now, self._busy_until.get(a, 0))
        self._busy_until[a] = begins + seconds(8 * size / NIC_BITS_PER_S)
        return begins + seconds(8 * size / tcp_bits_per_s(self._place.between(a, b))) - now


class _Experiment:
    def __init__(self, setting: ServiceSetting, seed: int, trace: Trace | None) -> None:
        self.setting, self.place = setting, setting.place()
        self.sim = sim = simulation(seed, len(self.place.servers), NetworkConfig(delay=Delay(mean=0)), trace)
        self.streams = sim.streams
        self.wire = Wire(self.place, setting.jitter, sim.streams)
        sim.filters.append(lambda a, channel, b, message: self.wire.delay(a.name, b.name, message, sim.now))
        sim.network_changed()
        sim.watchers.append(self._on_fact)
        longest = max(self.place.rtt_ms.values(), default=0.0)
        self.config = PoleConfig(
            election_timeout=max(ms(200), 2 * ms(longest)),
            lease=max(seconds(2), 10 * ms(longest)),
            heartbeat_interval=max(ms(400), 2 * ms(longest)),
            retry_max=seconds(60),
            score_timeout=seconds(5),
            resign_interval=FOREVER,
            connected=False,  # As printed: anybody stands.
        )
        self.rates = self.place.rates()
        self.centres = {server: self.place.centre_of(server) for server in self.place.servers}
        self.leaders: list[tuple[Instant, NodeId]] = []
        self.served: list[tuple[NodeId, Instant, Instant]] = []  # Server, came, done.
        self.recovered_at: Instant | None = None
        self.homes: dict[NodeId, NodeId] = {}  # Where a dead server's clients have gone.
        self.request_no = 0
        for server in self.place.servers:
            sim.add(server, self._setup)

    def run(self) -> Run:
        sim = self.sim
        for node in list(sim.nodes):
            sim.start(node)
        for server, rate in self.rates.items():
            if rate > 0:
                interval = min(seconds(REQUESTS_PER_S / (rate * self.setting.requests_per_s)), INTERVAL_MAX)
                first = int(self.streams.of("clients", sim.by_name[server].index).random() * interval)
                self._plan(server, interval, first)
        sim.run(until=CRASH_AT)
        before = self.leaders[-1][1] if self.leaders else None
        crashed = sim.by_name[before or self.place.leader]
        sent = {name: traffic.messages for name, traffic in sim.traffic.items()}
        for server in self.place.outdated:
            sim.tell(sim.by_name[server], ComeBack(), channel=SERVICE)
        sim.crash(crashed)
        sim.run(until=END_AT)
        return self._result(before, sent)

    def _result(self, before: NodeId | None, sent: dict[str, int]) -> Run:
        after = [(at, leader) for at, leader in self.leaders if at > CRASH_AT]
        elected_at = after[-1][0] if after else None
        recovery = None if elected_at is None or self.recovered_at is None else self.recovered_at - elected_at
        return Run(
            leader_before=before,
            leader_after=after[-1][1] if after else None,
            before=self._latency(CRASH_AT - MEASURED_FOR, CRASH_AT),
            after=self._latency(END_AT - MEASURED_FOR, END_AT),
            election_time=None if elected_at is None else (elected_at - CRASH_AT) / 1e9,
            recovery_time=None if recovery is None else recovery / 1e9,
            messages={name: traffic.messages for name, traffic in self.sim.traffic.items()}
            | {"total": self.sim.message_count, "before_crash": sum(sent.values())},
            timeline=self._timeline(),
            trace_hash=self.sim.trace.digest(),
        )

    def _latency(self, begin: Instant, end: Instant) -> dict[str, Latency]:
        """Return the latency of requests that came from `begin` on, and were done by `end`."""
        found: dict[str, Latency] = {}
        weighed: list[tuple[float, float]] = []
        for (name, servers), share in zip(self.place.centres, self.place.shares, strict=True):
            took = [
                done - came for server, came, done in self.served if server in servers and begin <= came <= done <= end
            ]
            mean = sum(took) / len(took) / 1e6 if took else None
            found[name] = Latency(mean, max(took) / 1e6 if took else None)
            if mean is not None:
                weighed.append((share, mean))
        total = sum(share for share, _ in weighed)
        overall = sum(share * value for share, value in weighed) / total if total else None
        found["overall"] = Latency(overall, max((value for _, value in weighed), default=None))
        return found

    def _timeline(self) -> dict[str, list[tuple[float, float, int]]]:
        lines: dict[str, list[tuple[float, float, int]]] = {}
        for name, servers in self.place.centres:
            by_second: dict[int, list[float]] = {}
            for server, came, done in self.served:
                if server in servers:
                    by_second.setdefault(done // seconds(1), []).append((done - came) / 1e6)
            lines[name] = [(float(second), fmean(took), len(took)) for second, took in sorted(by_second.items())]
        return lines

    # Clients.

    def _plan(self, server: NodeId, interval: Duration, at: Instant) -> None:
        if at < END_AT:
            self.sim.at(at, partial(self._come, server, interval, at), f"a client of {server}")

    def _come(self, server: NodeId, interval: Duration, at: Instant) -> None:
        """Let a client ask its server; if that is dead, the nearest one that lives, once there is a leader again."""
        self._plan(server, interval, at + interval)
        node = self.sim.by_name[self.homes.get(server, server)]
        if node.host is None:
            if len(self.leaders) < 2:
                return  # Sessions take long to expire; nobody could serve it anyway.
            node = self.sim.by_name[self._home(server)]
        self.request_no += 1
        self.sim.tell(node, Request(self.request_no), channel=SERVICE)

    def _home(self, dead: NodeId) -> NodeId:
        alive = [server for server in self.place.servers if self.sim.by_name[server].host is not None]
        nearest = min(alive, key=lambda server: (self.place.between(server, dead), -alive.index(server)))
        self.homes[dead] = nearest
        return nearest

    def _inherited(self, server: NodeId) -> float:
        """Return the requests per second of clients that came over from a dead server of its data centre."""
        dead = [node.name for node in self.sim.nodes if node.host is None and self.sim.now >= CRASH_AT]
        gained = 0.0
        for name in dead:
            heirs = [s for s in self.place.servers if s not in dead and self.centres[s] == self.centres[name]]
            gained += self.rates[name] / len(heirs) if server in heirs else 0.0
        return gained

    # Servers.

    def _setup(self, node: SimNode, host: Host) -> None:
        me, servers = node.name, self.place.servers
        oracle = oracle_of(self.setting.oracle)
        replica: Replica = host.add(
            SERVICE,
            lambda port: Replica(
                me, servers, port, snapshot_bytes=self.setting.snapshot_bytes, outdated=me in self.place.outdated
            ),
            follows=[ELECTION],
        ).machine  # type: ignore[assignment]
        mine, vectors = self.rates[me], None
        if self.setting.oracle in MEASURED or self.setting.oracle == "composite":
            pings: Any = host.add(
                PINGS,
                lambda port: PingPong(me, PingPongConfig(), port, node.rng(PINGS), voters=servers, rate=lambda: mine),
                follows=(),  # As the paper has it: the heartbeats of the election measure nothing.
            ).machine
            vectors = pings.vectors
        scorer = Scorer(
            oracle,
            me,
            servers,
            vectors=vectors,
            rate=lambda: mine if vectors is not None else mine + self._inherited(me),
            history=lambda: float(replica.zxid if replica.synced else -1),
            places=self.centres,
        )

        def score(epoch: int, gone: NodeId | None) -> OracleStanding | None:
            if not self.leaders:  # [POLE §4.1] "always have as initial leader p5".
                return (float(me == self.place.leader),)
            return scorer(epoch, gone)

        host.add(
            ELECTION,
            lambda port: Pole(
                me,
                self.config,
                port,
                node.rng(ELECTION),
                voters=servers,
                score=score,
                restored=VoterRecord(FIRST_EPOCH - 1),
            ),
        )

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        match fact:
            case LeaderElected(term) if term.leader == node.name:
                if not self.leaders or self.leaders[-1][1] != node.name:
                    self.leaders.append((now, node.name))
                    self.recovered_at = None
            case Recovered() if self.leaders and self.leaders[-1][1] == node.name:
                self.recovered_at = now
            case Served(_, arrived_at):
                self.served.append((node.name, arrived_at, now))
