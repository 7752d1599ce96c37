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

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar

from doyen.core.clock import Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import Address, NodeId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.view import MembershipView
from doyen.membership.medley.config import MedleyConfig
from doyen.membership.medley.targets import Distance, NearFirst
from doyen.membership.swim.dissemination import PAYLOAD_MAX
from doyen.membership.swim.machine import Swim
from doyen.membership.swim.messages import PeriodBegins
from doyen.membership.swim.roster import Acquaintances


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
        self.start, self.on_message = self.swim.start, self.swim.on_message
        out.subscribe(LeaderElected, self.on_leader_elected)
        out.subscribe(LeaderLost, self.on_leader_lost)

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

    def accusers(self, node: NodeId) -> tuple[NodeId, ...]:
        return self.swim.accusers(node)

    def refute_by(self, node: NodeId) -> Instant | None:
        return self.swim.refute_by(node)

    def round_trip(self, node: NodeId) -> Duration | None:
        return self.swim.round_trip(node)
