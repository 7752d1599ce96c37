"""Medley: SWIM for networks of many hops, where near members are pinged more often than far ones.
[MEDLEY: Yang, Zhu, Li, Gupta, "Medley: A Novel Distributed Failure Detector for IoT Networks", Middleware 2019;
Yang, Wang, Hu, Zhu, Li, Gupta, "Medley: A Membership Service for IoT Networks", TNSM 2022]

A member is chosen as ping target with probability proportional to 1/distance^m: most packets travel one hop, and the
few far ones keep the parts of the network informed of each other.  Everything else is SWIM's.

Time-bounded round robin (`time_bounded`): targets are not drawn but taken by stride, each member's turn coming every
1/probability periods, so that the silence between two pings of one member has a bound.  A member with few neighbours
would still be pinged too seldom.  *Passive feedback*: every ack tells for how long nobody had pinged its sender, and
whoever reads that raises or lowers its weight.  *Active feedback*: who was not pinged for too long asks its nearest
member for a ping.

Ambiguity [MEDLEY]: how much a weight changes by feedback, and when to ask, the papers leave to taste; see the config.
Deviation: where an election runs above it, its leader is watched by all as if it were near (`leader_weight`; off as
published).
Deviation: no member's turn comes more seldom than every `turn_max_mult`·N periods, however far it is.
"""

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from random import Random
from typing import Any, ClassVar, Final

from msgspec import Struct

from doyen.core.clock import FOREVER, Duration, Instant, ms, seconds, to_seconds
from doyen.core.effects import Out
from doyen.core.ids import Address, NodeId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.view import MembershipView
from doyen.errors import ConfigError
from doyen.membership.swim.config import SwimConfig
from doyen.membership.swim.dissemination import PAYLOAD_MAX
from doyen.membership.swim.machine import Swim
from doyen.membership.swim.messages import PeriodBegins
from doyen.membership.swim.roster import Acquaintances

Distance = Callable[[NodeId], float]  # In hops, 1 at the least; asked once per member.

BIAS_MAX: Final = 4.0  # Feedback changes a weight by so much at the most, up or down.

# ── Config ──────────────────────────────────────────────────────────────────────────────────────────────────


class MedleyConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    period: Duration = seconds(2)  #: One probe each.  Short: traffic.  Long: slow detection.
    ack_timeout: Duration = ms(500)  #: Patience for a direct ack; about a round trip to the near.
    helper_count: int = 3  #: Members asked to ping a silent one.
    suspicion_timeout: Duration = seconds(16)  #: A suspect's time to refute.  Short: false positives.
    distance_exponent: float = 3.0  #: m: 0 is SWIM's even choice; large: only neighbours are pinged.
    time_bounded: bool = True  #: Targets take turns, so that nobody waits for ever; else each is drawn by chance.
    turn_max_mult: float = 8.0  #: Every member's turn comes at least every so many times N periods.
    passive_feedback: bool = True  #: Weights follow how seldom a member says it is pinged.
    active_feedback_periods: float = 4.0  #: Who is not pinged for so many periods asks for it; 0: never.
    repeat_mult: float = 3.0  #: λ: an update is repeated λ·⌈ln(N+1)⌉ times.
    leader_weight: float = 0.0  #: Whoever leads weighs so much at least (a neighbour: 1), so its end is soon known.
    lifeguard: bool = False  #: Local health, confirmations and buddies, as in SWIM here.
    sync_interval: Duration = FOREVER  #: Digests are compared with one member.  FOREVER: never, as published.
    join_interval: Duration = seconds(1)  #: Seeds and lost members are tried so often while alone; for ever.
    unhealthy_half_life: Duration = FOREVER  #: Suspicion counts are halved so often.  FOREVER: they only grow.

    def __post_init__(self) -> None:
        def need(holds: bool, what: str) -> None:
            if not holds:
                raise ConfigError(f"Medley needs {what}, got {self}")

        need(0 <= self.distance_exponent <= 16, "0 <= distance_exponent <= 16")
        need(1 <= self.turn_max_mult <= 1e6, "1 <= turn_max_mult")
        need(0 <= self.active_feedback_periods <= 1e6, "0 <= active_feedback_periods")
        need(0 <= self.leader_weight <= 1e6, "0 <= leader_weight")
        need(0 < self.suspicion_timeout < FOREVER, "0 < suspicion_timeout")
        self.swim()

    @classmethod
    def paper(cls) -> "MedleyConfig":
        """[MEDLEY], [CTOL] 2 s periods, 500 ms timeouts, 3 helpers, 16 s of suspicion, m = 3."""
        return cls()

    @classmethod
    def lan(cls, group_size: int) -> "MedleyConfig":
        return cls(
            period=seconds(1),
            ack_timeout=ms(300),
            suspicion_timeout=seconds(5),
            leader_weight=1.0,
            lifeguard=True,
            sync_interval=seconds(30),
            unhealthy_half_life=seconds(600),
        )

    @classmethod
    def wan(cls, group_size: int) -> "MedleyConfig":
        return cls(leader_weight=1.0, lifeguard=True, sync_interval=seconds(30), unhealthy_half_life=seconds(600))

    def swim(self) -> SwimConfig:
        """The rest of it, as SWIM's."""
        return SwimConfig(
            period=self.period,
            ack_timeout=self.ack_timeout,
            helper_count=self.helper_count,
            suspicion_timeout=self.suspicion_timeout,
            suspicion_max_mult=2.0 if self.lifeguard else 1.0,
            repeat_mult=self.repeat_mult,
            health_max=8 if self.lifeguard else 0,
            confirmation_count=3 if self.lifeguard else 0,
            tell_suspect=self.lifeguard,
            sync_interval=self.sync_interval,
            join_interval=self.join_interval,
            unhealthy_half_life=self.unhealthy_half_life,
        )


# ── Targets ─────────────────────────────────────────────────────────────────────────────────────────────────


class NearFirst:
    """Turns by stride: a member of weight w is due every W/w periods, W the sum of all weights."""

    def __init__(self, members: list[NodeId], rng: Random, config: MedleyConfig, distance: Distance) -> None:
        self._config, self._distance, self._rng = config, distance, rng
        self._weights: dict[NodeId, float] = {}
        self._bias: dict[NodeId, float] = {}  # By feedback, where it is not 1.
        self._nearest: tuple[float, NodeId] | None = None
        self._clock = 0.0  # Turns are counted in this; it goes on by 1 / (sum of weights) per period.
        self._total = 0.0
        self._queue: list[tuple[float, float, NodeId]] = []  # (due, tie, member); entries of the gone are skipped.
        self._due: dict[NodeId, float] = {}  # Which entry of a member counts.
        self._pinged_at: Instant | None = None
        self._leader: NodeId | None = None
        self._hurried: list[NodeId] = []  # Where targets are drawn: who comes first.
        for node in members:
            self._weigh(node)
            self._enter(node, push=False)
        heapify(self._queue)

    def _weigh(self, node: NodeId) -> None:
        hops = max(1.0, self._distance(node))
        weight = float(hops**-self._config.distance_exponent)  # [MEDLEY] Probability ∝ 1/distance^m.
        self._weights[node] = weight
        self._total += weight
        if self._nearest is None or hops < self._nearest[0]:
            self._nearest = (hops, node)

    def _enter(self, node: NodeId, *, push: bool = True) -> None:
        """At a random point of its stride, so that newcomers and whole groups do not come in step."""
        self._set_due(node, self._clock + self._rng.random() * self._stride(node), push=push)

    def _set_due(self, node: NodeId, due: float, *, push: bool = True) -> None:
        self._due[node] = due
        entry = (due, self._rng.random(), node)
        if push:
            heappush(self._queue, entry)
        else:
            self._queue.append(entry)

    def _stride(self, node: NodeId) -> float:
        share = self._weights[node] * self._bias.get(node, 1.0)
        if node == self._leader:
            share = max(share, self._config.leader_weight)
        least = self._total / (self._config.turn_max_mult * max(1, len(self._weights)))
        return 1.0 / max(share, least)

    # As SWIM's prober wants them.

    def add(self, node: NodeId) -> None:
        self._weigh(node)
        self._enter(node)

    def remove(self, node: NodeId) -> None:
        self._total = max(0.0, self._total - self._weights.pop(node))
        self._due.pop(node, None)
        self._bias.pop(node, None)
        if self._nearest is not None and self._nearest[1] == node:
            self._nearest = min(((max(1.0, self._distance(n)), n) for n in self._weights), default=None)

    def next(self) -> NodeId | None:
        if not self._config.time_bounded:
            return self._drawn()
        queue = self._queue
        while queue:
            due, _, node = heappop(queue)
            if self._due.get(node) != due:
                continue  # It left, or was hurried.
            self._clock = max(self._clock, due)
            self._set_due(node, due + self._stride(node))
            return node
        return None

    def _drawn(self) -> NodeId | None:
        """[MEDLEY] Each time anew, with probability ∝ 1/distance^m; who asked for a ping comes first."""
        while self._hurried:
            node = self._hurried.pop(0)
            if node in self._weights:
                return node
        if not self._weights:
            return None
        members = list(self._weights)
        weights = [self._weights[node] * self._bias.get(node, 1.0) for node in members]
        return self._rng.choices(members, weights)[0]

    def on_pinged(self, now: Instant) -> int:
        waited = 0 if self._pinged_at is None else now - self._pinged_at
        self._pinged_at = now
        return waited // 1_000_000 + 1

    def on_waited(self, node: NodeId, waited_ms: int) -> None:
        """[MEDLEY] Passive feedback.  Everybody should be pinged once per period: who waits longer weighs more."""
        if self._config.passive_feedback and node in self._weights:
            lack = waited_ms / 1000.0 / to_seconds(self._config.period)
            bias = self._bias.get(node, 1.0) * min(2.0, max(0.5, lack)) ** 0.5
            self._bias[node] = min(BIAS_MAX, max(1 / BIAS_MAX, bias))

    def hurry(self, node: NodeId) -> None:
        """[MEDLEY] Active feedback: it is next."""
        if node in self._weights and self._config.time_bounded:
            self._set_due(node, self._clock)
        elif node in self._weights and node not in self._hurried:
            self._hurried.append(node)

    def favour(self, leader: NodeId | None) -> None:
        """Whoever leads is watched by all: many see its silence at once, so it is believed at once."""
        if leader != self._leader:
            self._leader = leader
            if leader in self._weights and self._config.leader_weight:
                self._enter(leader)

    def starved(self, now: Instant) -> NodeId | None:
        """Whom to ask, if nobody has pinged us for too long."""
        periods = self._config.active_feedback_periods
        if self._pinged_at is None:
            self._pinged_at = now
        if not periods or self._nearest is None or now - self._pinged_at < periods * self._config.period:
            return None
        self._pinged_at = now
        return self._nearest[1]


# ── The machine ─────────────────────────────────────────────────────────────────────────────────────────────


class Hops:
    """Distances that were given; everybody else is a neighbour."""

    def __init__(self, hops: Mapping[str, float]) -> None:
        self._hops = dict(hops)

    def __call__(self, node: NodeId) -> float:
        return self._hops.get(node, 1.0)


class Medley:
    """One member: SWIM's machine with targets of its own."""

    MESSAGES: ClassVar[Any] = Swim.MESSAGES

    def __init__(
        self,
        node: NodeId,
        config: MedleyConfig,
        out: Out,
        rng: Random,
        *,
        distance: Distance,
        incarnation: int = 1,
        address: Address | None = None,
        seeds: Sequence[Address] = (),
        known: Acquaintances | None = None,
        payload_max: int = PAYLOAD_MAX,
    ) -> None:
        self.config = config
        self.targets: NearFirst

        def make_targets(members: list[NodeId], rng: Random) -> NearFirst:
            self.targets = NearFirst(members, rng, config, distance)
            return self.targets

        self.swim = Swim(
            node,
            config.swim(),
            out,
            rng,
            incarnation=incarnation,
            address=address,
            seeds=seeds,
            known=known,
            payload_max=payload_max,
            targets=make_targets,
        )
        self.start, self.on_message, self.leave = self.swim.start, self.swim.on_message, self.swim.leave
        self.on_link_broken, self.on_seeds_changed = self.swim.on_link_broken, self.swim.on_seeds_changed

    def on_leader_elected(self, fact: LeaderElected, now: Instant) -> None:
        self.targets.favour(fact.term.leader)

    def on_leader_lost(self, fact: LeaderLost, now: Instant) -> None:
        self.targets.favour(None)

    def on_timer(self, timer: Any, now: Instant) -> None:
        if timer.__class__ is PeriodBegins and not self.swim.has_left:
            asked = self.targets.starved(now)
            if asked is not None:
                self.swim.ask_for_ping(asked)
        self.swim.on_timer(timer, now)

    @property
    def node(self) -> NodeId:
        return self.swim.node

    @property
    def incarnation(self) -> int:
        return self.swim.incarnation

    @property
    def view(self) -> MembershipView:
        return self.swim.view
